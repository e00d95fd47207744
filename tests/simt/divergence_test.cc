// Barriers and collectives that cannot complete are noticed.
#include <gtest/gtest.h>

#include "expect_fault.h"

namespace terse::simt {
namespace {

TEST(Divergence, BarrierInABranch) {
  expect_fault({.threads = 64}, "deadlock: threads 0-39 at sync_block (", [](Nothing&) {
    if (thread_index() < 40) sync_block();
  });
  expect_fault({.threads = 64}, "threads 40-63 exited", [](Nothing&) {
    if (thread_index() < 40) sync_block();
  });
}

TEST(Divergence, DifferentBarriers) {
  expect_fault({.threads = 64}, "wait at different barriers: threads 0-39 at sync_block (",
               [](Nothing&) {
                 if (thread_index() < 40)
                   sync_block();
                 else
                   sync_block();
               });
}

TEST(Divergence, LaneExitsBeforeAShuffle) {
  expect_fault({.threads = 64},
               "deadlock: threads 0-31, 45 exited; threads 32-44, 46-63 at shuffle_xor",
               [](Nothing&) {
                 if (thread_index() < 32 || thread_index() == 45) return;
                 shuffle_xor(1u, 1);
               });
}

TEST(Divergence, LanesAtDifferentCollectives) {
  expect_fault({}, "wait at different collectives: threads 0-15 at shuffle_xor (", [](Nothing&) {
    if (thread_index() < 16)
      shuffle_xor(1u, 1);
    else
      ballot(true);
  });
  expect_fault({}, "wait at different collectives: thread 0 at sync_warp (", [](Nothing&) {
    thread_index() == 0 ? sync_warp() : static_cast<void>(shuffle(1u, 1));
  });
}

TEST(Divergence, LanesAtDifferentCallsOfAShuffle) {
  expect_fault({}, "wait at different collectives: threads 0-15 at shuffle_xor (", [](Nothing&) {
    if (thread_index() < 16)
      shuffle_xor(1u, 1);
    else
      shuffle_xor(2u, 1);
  });
  // One more than the others.
  expect_fault({}, "thread 9 at ballot", [](Nothing&) {
    for (uint32_t i = 0; i < 3 + (thread_index() == 9); ++i) ballot(true);
  });
}

TEST(Divergence, WarpsThatWaitForEachOther) {
  // Of each warp, half waits for the other warp.
  expect_fault({.threads = 64}, "deadlock: threads 0-15, 32-47 at sync_block (", [](Nothing&) {
    if (thread_index() % kWarp < 16)
      sync_block();
    else
      sync_warp();
  });
}

TEST(Divergence, CollectiveInAnIncompleteWarp) {
  expect_fault({.threads = 40}, "a collective in a warp of 8 lanes",
               [](Nothing&) { ballot(true); });
}

TEST(Divergence, EndlessLoop) {
  uint32_t flag = 0;
  expect_fault({.threads = 64, .max_steps = 100'000}, "has not ended after 100000 steps",
               [&](Nothing&) {
                 if (thread_index() == 0) sync_block();
                 while (load(&flag) == 0) {
                 }
               });
}

TEST(Divergence, LaneOutOfTheWarp) {
  expect_fault({}, "thread 31 (warp 0, lane 31): shuffle reads from lane 32",
               [](Nothing&) { shuffle(1u, thread_index() + 1); });
  expect_fault({}, "thread 5 (warp 0, lane 5): shuffle reads from lane 37",
               [](Nothing&) { shuffle_xor(1u, thread_index() == 5 ? 32 : 1); });
}

}  // namespace
}  // namespace terse::simt
