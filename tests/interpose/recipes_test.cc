// What programs do to communicators when something is in their way: parts in odd shapes, ranks that
// do not come, aborts, forks. Nobody hangs, and who goes on has right sums.
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "clients.h"
#include "host_stream.h"

namespace {
bool is_child = false;
}
// In a child, what only the parent's threads knew of has no owner.
extern "C" [[gnu::visibility("default")]] int __lsan_is_turned_off() { return is_child; }

namespace terse::test {
namespace {

constexpr size_t kCount = 100'000;  // large enough to be compressed

class Recipes : public ::testing::Test {
 protected:
  void SetUp() override { alarm(100); }  // in place of a hang
  void TearDown() override { alarm(0); }
};

// An AllReduce of equal numbers, which 8 bits hold exactly, and its wait.
class Sum {
 public:
  explicit Sum(float own) : data_(kCount, own) {}
  ncclResult_t begin(ncclComm_t comm) {
    return ncclAllReduce(data_.data(), data_.data(), kCount, ncclFloat32, ncclSum, comm,
                         stream_.get());
  }
  ncclResult_t end() const { return stream_.synchronize(); }
  void expect(float sum) const {
    for (const float x : data_) ASSERT_NEAR(x, sum, 0.01 * sum);
  }

 private:
  std::vector<float> data_;
  HostStream stream_;
};

void expect_sum(ncclComm_t comm, float own, float sum) {
  Sum call(own);
  ASSERT_EQ(call.begin(comm), ncclSuccess) << ncclGetLastError(nullptr);
  ASSERT_EQ(call.end(), ncclSuccess) << ncclGetLastError(nullptr);
  call.expect(sum);
}

// Waits for rank 2, which never comes: begun by rank 0 and 1 after a call that all make.
void expect_sum_then_wait(ncclComm_t comm, int rank, Sum& call, std::barrier<>& all) {
  expect_sum(comm, 1, 3);
  all.arrive_and_wait();
  if (rank < 2) {
    EXPECT_EQ(call.begin(comm), ncclSuccess);
  }
  all.arrive_and_wait();
}

// Goes on without rank 2.
void expect_sum_of_the_others(ncclComm_t comm, int shrink) {
  ncclComm_t smaller = nullptr;
  int excluded[] = {2};
  ASSERT_EQ(ncclCommShrink(comm, excluded, 1, &smaller, nullptr, shrink), ncclSuccess);
  expect_sum(smaller, 1, 2);
  EXPECT_EQ(ncclCommDestroy(smaller), ncclSuccess);
}

ncclComm_t made(int rank, int ranks, const ncclUniqueId& id) {
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, ranks, id, rank), ncclSuccess) << ncclGetLastError(nullptr);
  return comm;
}

// ---- Splits ----

// Equal keys, negative ones, a member alone, and one that is left out.
TEST_F(Recipes, PartsOfOddColoursOutliveTheirWhole) {
  on_threads(5, [](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = made(rank, 5, id), part = whole;
    const int colors[] = {7, 7, NCCL_SPLIT_NOCOLOR, 0, 7};
    const int keys[] = {-3, -3, 0, 9, -4};
    ASSERT_EQ(ncclCommSplit(whole, colors[rank], keys[rank], &part, nullptr), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
    EXPECT_EQ(part == nullptr, rank == 2);
    if (rank == 2) return;
    int own = -1;
    EXPECT_EQ(ncclCommUserRank(part, &own), ncclSuccess);
    EXPECT_EQ(own, (std::array{1, 2, -1, 0, 0}[rank]));
    expect_sum(part, 1, rank == 3 ? 1 : 3);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}

TEST_F(Recipes, ANegativeColourIsRefusedAndAskedForAnew) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = made(rank, 2, id), part = whole;
    EXPECT_EQ(ncclCommSplit(whole, -7, 0, &part, nullptr), ncclInvalidArgument);
    EXPECT_EQ(part, nullptr);
    ASSERT_EQ(ncclCommSplit(whole, 0, 0, &part, nullptr), ncclSuccess);
    expect_sum(part, 1, 2);
    expect_sum(whole, 1, 2);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

// Of two communicators, by a thread each.
TEST_F(Recipes, TwoSplitsAtOnce) {
  on_threads(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t wholes[2] = {made(rank, 3, id), nullptr}, parts[2] = {};
    ASSERT_EQ(ncclCommSplit(wholes[0], 0, rank, &wholes[1], nullptr), ncclSuccess);
    std::vector<std::thread> threads;
    for (int i : {0, 1})
      threads.emplace_back([&, i] {
        const int color = rank == i ? NCCL_SPLIT_NOCOLOR : 0;
        ASSERT_EQ(ncclCommSplit(wholes[i], color, rank, &parts[i], nullptr), ncclSuccess);
        EXPECT_EQ(parts[i] == nullptr, rank == i);
        if (rank != i) expect_sum(parts[i], 1, 2);
      });
    for (std::thread& thread : threads) thread.join();
    for (const ncclComm_t comm : {parts[0], parts[1], wholes[0], wholes[1]})
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST_F(Recipes, ASplitInAGroupLeavesSomeOut) {
  on_threads(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = made(rank, 3, id), part = whole;
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    EXPECT_EQ(ncclCommSplit(whole, rank == 0 ? NCCL_SPLIT_NOCOLOR : 1, 0, &part, nullptr),
              ncclSuccess);
    ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(part == nullptr, rank == 0);
    if (part != nullptr) expect_sum(part, 1, 2);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

TEST_F(Recipes, ANonBlockingSplitLeavesSomeOut) {
  on_threads(3, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t whole = made_with(non_blocking(), rank, 3, id);
    ncclConfig_t config = non_blocking();
    const Place part = std::make_unique<ncclComm_t>(nullptr);
    const int color = rank == 0 ? NCCL_SPLIT_NOCOLOR : 1;
    const ncclResult_t begun = ncclCommSplit(whole, color, 0, part.get(), &config);
    EXPECT_EQ(begun, ncclSuccess);
    EXPECT_EQ(settled(ncclInProgress, whole), ncclSuccess);
    if (rank == 0) {
      EXPECT_EQ(*part, nullptr);
    } else {
      const ncclComm_t comm = seen(*part);
      EXPECT_EQ(settled(ncclInProgress, comm), ncclSuccess);
      Sum call(1);
      EXPECT_EQ(settled(call.begin(comm), comm), ncclSuccess);
      EXPECT_EQ(call.end(), ncclSuccess);
      call.expect(2);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    }
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

TEST_F(Recipes, APartSumsWhileItsWholeIsDestroyed) {
  on_threads(3, [](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = made(rank, 3, id), part = nullptr;
    ASSERT_EQ(ncclCommSplit(whole, 0, -rank, &part, nullptr), ncclSuccess);
    expect_sum(whole, 1, 3);
    std::thread destroying([&] { EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess); });
    for (int i = 0; i < 5; ++i) expect_sum(part, 1, 3);
    destroying.join();
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
  });
}

// ---- Ranks that do not come ----

TEST_F(Recipes, OneAbortsAndTheOthersDestroy) {
  std::barrier all(3);
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made(rank, 3, id);
    Sum call(1);
    expect_sum_then_wait(comm, rank, call, all);
    EXPECT_EQ((rank == 0 ? ncclCommAbort : ncclCommDestroy)(comm), ncclSuccess);
    EXPECT_EQ(call.end() == ncclSuccess, rank == 2);
  });
}

TEST_F(Recipes, TheOthersShrinkWithAnAbortAndGoOn) {
  std::barrier all(3);
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made(rank, 3, id);
    Sum call(1);
    expect_sum_then_wait(comm, rank, call, all);
    if (rank < 2) {
      expect_sum_of_the_others(comm, NCCL_SHRINK_ABORT);
      EXPECT_NE(call.end(), ncclSuccess);
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

TEST_F(Recipes, TheOthersRevokeShrinkAndGoOn) {
  std::barrier all(3);
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made(rank, 3, id);
    Sum call(1);
    expect_sum_then_wait(comm, rank, call, all);
    if (rank < 2) {
      EXPECT_EQ(ncclCommRevoke(comm, NCCL_REVOKE_DEFAULT), ncclSuccess);
      EXPECT_NE(call.end(), ncclSuccess);
      expect_sum_of_the_others(comm, NCCL_SHRINK_DEFAULT);
    }
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// As a watchdog does.
TEST_F(Recipes, AnotherThreadAbortsWhatNeverEnds) {
  std::barrier all(3);
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made(rank, 3, id);
    Sum call(1);
    expect_sum_then_wait(comm, rank, call, all);
    std::thread watchdog([&] { EXPECT_EQ(ncclCommAbort(comm), ncclSuccess); });
    EXPECT_EQ(call.end() == ncclSuccess, rank == 2);
    watchdog.join();
  });
}

TEST_F(Recipes, TwoAreAbortedInEitherOrder) {
  std::barrier all(3);
  on_threads(3, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t comms[2] = {made(rank, 3, id), nullptr};
    ASSERT_EQ(ncclCommSplit(comms[0], 0, rank, &comms[1], nullptr), ncclSuccess);
    Sum calls[2] = {Sum(1), Sum(1)};
    for (int i : {0, 1}) expect_sum_then_wait(comms[i], rank, calls[i], all);
    for (int i : {rank % 2, 1 - rank % 2}) EXPECT_EQ(ncclCommAbort(comms[i]), ncclSuccess);
    for (const Sum& call : calls) EXPECT_EQ(call.end() == ncclSuccess, rank == 2);
  });
}

// ---- Forks ----

// By exit(), with all destructors of static objects, and without them.
TEST_F(Recipes, ForkedChildrenEndAndTheirParentGoesOn) {
  ncclComm_t comms[2];
  ASSERT_EQ(ncclCommInitAll(comms, 2, nullptr), ncclSuccess);
  const auto sum_together = [&] {
    std::thread other([&] { expect_sum(comms[1], 1, 2); });
    expect_sum(comms[0], 1, 2);
    other.join();
  };
  sum_together();
  using End = void (*)(int);
  for (const End end : {End{&std::exit}, End{&_exit}}) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(30);
      is_child = true;
      end(0);
    }
    sum_together();
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

}  // namespace
}  // namespace terse::test
