// Ranks that write into each other's windows and wait for flags: what is in order gives the same
// whatever is drawn, and what is not is noticed in every schedule.
#include "simt/machine.h"

#include <gtest/gtest.h>

#include <array>
#include <set>
#include <stdexcept>
#include <thread>

#include "expect_fault.h"
#include "simt/flags.h"

namespace terse::simt {
namespace {

constexpr uint32_t kLanes = 32;

// What is read too early may be there, or not.
constexpr const char* kUnordered = "missing order: |, which nobody has written";

constexpr uint32_t kUnorderedRelease = __LINE__ + 1;
void unordered_release(uint32_t* flag, uint32_t value) { release(flag, value); }

// A rank's window: a flag and data for each rank.
struct Mailbox {
  uint32_t flag[4] = {};
  uint64_t long_flag = 0;
  uint32_t data[4][kLanes];
  uint32_t late[kLanes];
};

class Machines : public testing::Test {
 protected:
  static void wait(const uint32_t* flag, uint32_t value) {
    while (acquire(flag) != value) pause();
  }

  template <class Body>
  static Kernel on_one_thread(Body body) {
    return kernel<Nothing>({.threads = 1}, [body](Nothing&) { body(); });
  }
  template <class Body>
  static Kernel on_a_warp(Body body, const Planter* planter = nullptr) {
    return kernel<Nothing>({.threads = kLanes, .planter = planter},
                           [body](Nothing&) { body(thread_index()); });
  }

  // Fresh windows, with zeros in flags and garbage in data.
  Machine machine(std::vector<std::vector<Kernel>> ranks, uint64_t seed) {
    boxes_ = {};
    Machine all{.windows = {}, .ranks = std::move(ranks), .seed = seed};
    for (size_t rank = 0; rank < all.ranks.size(); ++rank)
      all.windows.push_back(
          {&boxes_[rank], sizeof(Mailbox), "rank " + std::to_string(rank) + "'s window"});
    return all;
  }

  void run_all(const std::vector<std::vector<Kernel>>& ranks) {
    for (uint64_t seed = 0; seed < kSeeds; ++seed) run(machine(ranks, seed));
  }

  // Number of seeds by which there is a fault; each says one of `words`.
  uint64_t faults_of(const std::vector<std::vector<Kernel>>& ranks, const std::string& words) {
    uint64_t faults = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) try {
        run(machine(ranks, seed));
      } catch (const Fault& fault) {
        ++faults;
        EXPECT_TRUE(says(fault, words)) << "seed " << seed << ": " << fault.what();
      }
    return faults;
  }

  void expect_fault_of(const std::vector<std::vector<Kernel>>& ranks, const std::string& words) {
    EXPECT_EQ(faults_of(ranks, words), kSeeds);
  }

  std::array<Mailbox, 4> boxes_;
};

TEST_F(Machines, PassAMessage) {
  uint32_t got = 0;
  const Kernel sends = on_one_thread([&] {
    store(&boxes_[1].data[0][0], 7u);
    release(&boxes_[1].flag[0], 1);
  });
  const Kernel receives = on_one_thread([&] {
    wait(&boxes_[1].flag[0], 1);
    got = load(&boxes_[1].data[0][0]);
  });
  run_all({{sends}, {receives}});
  EXPECT_EQ(got, 7u);
}

// Though the data may be there, as the executor stores it at once.
TEST_F(Machines, DataIsReadBehindItsFlag) {
  const Kernel sends = on_one_thread([&] {
    store(&boxes_[1].data[0][0], 7u);
    release(&boxes_[1].flag[0], 1);
  });
  const Kernel looks_too_early = on_one_thread([&] {
    load(&boxes_[1].data[0][0]);
    wait(&boxes_[1].flag[0], 1);
  });
  expect_fault_of({{sends}, {looks_too_early}}, kUnordered);
}

TEST_F(Machines, AFlagBeforeItsDataSaysNothingOfIt) {
  const Kernel sends = on_one_thread([&] {
    release(&boxes_[1].flag[0], 1);
    store(&boxes_[1].data[0][0], 7u);
  });
  const Kernel receives = on_one_thread([&] {
    wait(&boxes_[1].flag[0], 1);
    load(&boxes_[1].data[0][0]);
  });
  expect_fault_of({{sends}, {receives}}, kUnordered);
}

// Nor does one that orders nothing, though one before it did.
TEST_F(Machines, TheLastValueOfAFlagCounts) {
  const Planter planter = [](const Plant& plant, uint32_t) {
    return plant.mistake == Mistake::kNoRelease && plant.site.line == kUnorderedRelease;
  };
  const Kernel sends = on_a_warp(
      [&](uint32_t lane) {
        if (lane != 0) return;
        store(&boxes_[1].data[0][0], 7u);
        release(&boxes_[1].flag[0], 1);
        unordered_release(&boxes_[1].flag[0], 2);
      },
      &planter);
  const Kernel receives = on_one_thread([&] {
    wait(&boxes_[1].flag[0], 2);
    load(&boxes_[1].data[0][0]);
  });
  // But for seeds by which the first value is seen as well.
  EXPECT_GT(faults_of({{sends}, {receives}}, "missing order: reads"), 0u);
}

// A flag that came between two looks is seen at the next ones.
TEST_F(Machines, NoWakeUpIsLost) {
  const Kernel sends = on_one_thread([&] {
    release(&boxes_[1].flag[0], 1);
    release(&boxes_[1].flag[1], 1);
  });
  const Kernel waits_for_both = on_one_thread([&] {
    for (;;) {
      const uint32_t one = acquire(&boxes_[1].flag[0]), other = acquire(&boxes_[1].flag[1]);
      if (one != 0 && other != 0) return;
      pause();
    }
  });
  for (uint64_t seed = 0; seed < 5000; ++seed) run(machine({{sends}, {waits_for_both}}, seed));
}

// What a rank has been told it passes on.
TEST_F(Machines, OrderIsPassedOn) {
  uint32_t got = 0;
  const Kernel first = on_one_thread([&] {
    store(&boxes_[2].data[0][0], 5u);
    release(&boxes_[1].flag[0], 1);
  });
  const Kernel second = on_one_thread([&] {
    wait(&boxes_[1].flag[0], 1);
    release(&boxes_[2].flag[1], 1);
  });
  const Kernel third = on_one_thread([&] {
    wait(&boxes_[2].flag[1], 1);
    got = load(&boxes_[2].data[0][0]);
  });
  run_all({{first}, {second}, {third}});
  EXPECT_EQ(got, 5u);
}

// One lane's flag is for all lanes' data only behind a barrier, and so on the other side.
TEST_F(Machines, ALaneSpeaksForAWarpBehindABarrier) {
  const auto sends = [&](bool before) {
    return on_a_warp([this, before](uint32_t lane) {
      store(&boxes_[1].data[0][lane], lane);
      if (before) sync_warp();
      if (lane == 0) release(&boxes_[1].flag[0], 1);
    });
  };
  const auto receives = [&](bool behind) {
    return on_a_warp([this, behind](uint32_t lane) {
      if (lane == 0) wait(&boxes_[1].flag[0], 1);
      if (behind) sync_warp();
      if (behind || lane == 0) load(&boxes_[1].data[0][lane ^ 1]);
    });
  };
  run_all({{sends(true)}, {receives(true)}});
  expect_fault_of({{sends(false)}, {receives(true)}}, kUnordered);
  expect_fault_of({{sends(false)}, {receives(false)}}, kUnordered);
}

// A place is written anew only when who reads it has said that it is done.
TEST_F(Machines, APlaceIsFreeOnceItsReaderHasSaidSo) {
  const auto sends = [&](bool waits) {
    return on_one_thread([this, waits] {
      for (uint32_t round = 1; round <= 3; ++round) {
        store(&boxes_[1].data[0][0], round);
        release(&boxes_[1].flag[0], round);
        if (waits) wait(&boxes_[0].flag[1], round);
      }
    });
  };
  const Kernel receives = on_one_thread([&] {
    for (uint32_t round = 1; round <= 3; ++round) {
      wait(&boxes_[1].flag[0], round);
      EXPECT_EQ(load(&boxes_[1].data[0][0]), round);
      release(&boxes_[0].flag[1], round);
    }
  });
  run_all({{sends(true)}, {receives}});
  const Kernel takes_the_last = on_one_thread([&] {
    while (acquire(&boxes_[1].flag[0]) == 0) pause();
    load(&boxes_[1].data[0][0]);
    wait(&boxes_[1].flag[0], 3);
  });
  // In the others nothing was overwritten while it was read.
  EXPECT_GT(faults_of({{sends(false)}, {takes_the_last}}, kUnordered), kSeeds / 2);
}

TEST_F(Machines, AKernelIsBehindTheOneBeforeOnItsRank) {
  const Kernel writes = on_a_warp([&](uint32_t lane) { store(&boxes_[0].late[lane], lane); });
  const Kernel reads =
      on_a_warp([&](uint32_t lane) { EXPECT_EQ(load(&boxes_[0].late[lane ^ 5]), lane ^ 5); });
  run_all({{writes, reads}});
  expect_fault_of({{writes}, {reads}}, "\"rank 0's window\"");
}

TEST_F(Machines, DifferentFlagsArriveInAnyOrder) {
  std::set<std::pair<uint32_t, uint32_t>> seen;
  const Kernel sends = on_one_thread([&] {
    release(&boxes_[1].flag[0], 1);
    release(&boxes_[2].flag[0], 1);
  });
  const Kernel looks = on_one_thread([&] {
    uint32_t one = 0, other = 0;
    while (one + other == 0) {
      one = acquire(&boxes_[1].flag[0]);
      other = acquire(&boxes_[2].flag[0]);
      if (one + other == 0) pause();
    }
    seen.emplace(one, other);
  });
  run_all({{sends}, {looks}, {}});
  EXPECT_TRUE(seen.contains({1, 0}) && seen.contains({0, 1}));
}

// Whoever sees a flag sees what its thread had given before, of whatever size.
TEST_F(Machines, AFlagIsNoLaterThanOneThatIsGivenBehindIt) {
  uint64_t late = 0;
  const Kernel gives = on_one_thread([&] {
    release(&boxes_[1].long_flag, uint64_t{5} << 32 | 1);
    release(&boxes_[1].flag[0], 1);
  });
  const Kernel looks = on_one_thread([&] {
    wait(&boxes_[1].flag[0], 1);
    late = relaxed_load(&boxes_[1].long_flag);
  });
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run(machine({{gives}, {looks}}, seed));
    EXPECT_EQ(late, uint64_t{5} << 32 | 1);
  }
}

// Ping-pong of two OS threads, each of which runs a kernel of two blocks.
TEST(FlagsOfOthers, AreSeenByAKernelThatRunsAlone) {
  constexpr uint32_t kRounds = 100;
  uint32_t flags[2][2] = {}, counts[2][2] = {};
  const auto play = [&](uint32_t own) {
    run_with_flags(kernel<Nothing>({.blocks = 2, .threads = 1}, [&, own](Nothing&) {
      const uint32_t block = block_index();
      for (uint32_t round = 1; round <= kRounds; ++round) {
        store(&counts[own][block], round);
        release(&flags[own][block], round);
        while (acquire(&flags[1 - own][block]) < round) pause();
        if (load(&counts[1 - own][block]) < round) throw std::logic_error("an old count");
      }
    }));
  };
  std::thread other(play, 1);
  EXPECT_NO_THROW(play(0));
  other.join();
  EXPECT_EQ(counts[0][1] + counts[1][0], 2 * kRounds);
}

TEST(FlagsOfOthers, AFaultEndsAllBlocks) {
  uint32_t flag = 0;
  const Kernel fails = kernel<Nothing>({.blocks = 2, .threads = 1}, [&](Nothing&) {
    if (block_index() == 1) throw std::logic_error("is wrong");
    while (acquire(&flag) == 0) pause();
  });
  EXPECT_THROW(run_with_flags(fails), Fault);
}

TEST_F(Machines, ADeadlockSaysWhoWaitsForWhich) {
  const auto waits = [&](size_t rank) {
    return on_one_thread([this, rank] { wait(&boxes_[rank].flag[1 - rank], 1); });
  };
  expect_fault_of({{waits(0)}, {waits(1)}},
                  "for offset 4 of \"rank 0's window\"; rank 1, block 0: thread 0 at pause");
}

TEST_F(Machines, FlagsAreNoData) {
  constexpr const char* kOfAFlag = "of a flag, as if it were data|has a flag in offset";
  const auto touches = [&](auto first, auto then) {
    expect_fault_of({{on_one_thread([=] {
                      first();
                      then();
                    })}},
                    kOfAFlag);
  };
  uint32_t* const flag = &boxes_[0].flag[0];
  const auto releases = [=] { release(flag, 1); };
  const auto acquires = [=] { acquire(flag); };
  const auto stores = [=] { store(flag, 2u); };
  const auto stores_a_byte = [=] { store(reinterpret_cast<uint8_t*>(flag) + 3, uint8_t{2}); };
  touches(releases, stores);
  touches(releases, stores_a_byte);
  touches(acquires, stores_a_byte);
  touches(stores, releases);
  touches(stores_a_byte, acquires);

  const Kernel one_of_two = on_one_thread(releases);
  expect_fault_of({{one_of_two}, {one_of_two}}, "missing order: releases offset 0 of");
  uint32_t own = 0;
  expect_fault_of({{on_one_thread([&] { release(&own, 1); })}}, "is in no window");
  expect_fault({}, "flags are for the kernels of a machine",
               [&](Nothing&) { release(&boxes_[0].flag[0], 1); });
}

// Units of threads have flags, whichever threads they are: the next kernel's may be others.
TEST_F(Machines, AFlagIsReleasedByWhoKnowsTheLastRelease) {
  const Kernel first = kernel<Nothing>({.threads = 64}, [&](Nothing&) {
    if (thread_index() == 32) release(&boxes_[0].flag[0], 1);
  });
  const Kernel second = kernel<Nothing>({.blocks = 2, .threads = 32}, [&](Nothing&) {
    if (block_index() == 1 && thread_index() == 0) release(&boxes_[0].flag[0], 2);
  });
  run_all({{first, second}});
}

TEST_F(Machines, WindowsEndWhereTheyEnd) {
  struct alignas(8) Pair {
    uint32_t word[2];
  };
  alignas(8) uint32_t words[4] = {};
  const auto touches = [&](size_t word, size_t bytes) {
    const Kernel stores =
        on_one_thread([&, word] { store(reinterpret_cast<Pair*>(words + word), Pair{}); });
    run({.windows = {{words, bytes, "window"}}, .ranks = {{stores}}});
  };
  touches(0, 12);
  EXPECT_THROW(touches(2, 12), Fault);
  EXPECT_THROW(touches(2, 8), Fault);
}

TEST_F(Machines, HostsInitializeTheBeginning) {
  uint32_t words[2] = {5, 6};
  const auto loads = [&](size_t word) {
    const Kernel kernel = on_one_thread([&, word] { EXPECT_EQ(load(words + word), 5u); });
    run({.windows = {{words, sizeof words, "window", 4}}, .ranks = {{kernel}}});
  };
  loads(0);
  EXPECT_THROW(loads(1), Fault);
}

// An AllGather of a word a lane: each rank pushes to all, gives each a flag, and waits for theirs.
TEST_F(Machines, NoMistakeInAnAllGatherGoesUnnoticed) {
  constexpr size_t kRanks = 3;
  std::array<std::array<uint32_t, kRanks * kLanes>, kRanks> gathered{};
  const auto all_gather = [&](size_t rank, const Planter* planter) {
    return on_a_warp(
        [&, rank](uint32_t lane) {
          for (size_t peer = 0; peer < kRanks; ++peer)
            store(&boxes_[peer].data[rank][lane], static_cast<uint32_t>(100 * rank + lane));
          sync_warp();
          if (lane < kRanks) {
            release(&boxes_[lane].flag[rank], 1);
            wait(&boxes_[rank].flag[lane], 1);
          }
          sync_warp();
          for (size_t peer = 0; peer < kRanks; ++peer)
            gathered[rank][peer * kLanes + lane] = load(&boxes_[rank].data[peer][lane ^ 1]);
        },
        planter);
  };
  const auto ranks = [&](const Planter* planter) {
    std::vector<std::vector<Kernel>> all;
    for (size_t rank = 0; rank < kRanks; ++rank) all.push_back({all_gather(rank, planter)});
    return all;
  };
  run_all(ranks(nullptr));
  for (const auto& own : gathered)
    for (size_t i = 0; i < own.size(); ++i)
      EXPECT_EQ(own[i], 100 * (i / kLanes) + (i % kLanes ^ 1));

  std::set<Plant> plants;
  const Planter collects = [&](const Plant& plant, uint32_t) {
    plants.insert(plant);
    return false;
  };
  run(machine(ranks(&collects), 1));
  std::set<Mistake> kinds;
  for (const Plant& made : plants) {
    kinds.insert(made.mistake);
    const Planter makes = [&](const Plant& plant, uint32_t) { return plant == made; };
    SCOPED_TRACE(to_string(made));
    expect_fault_of(ranks(&makes), kUnordered);
  }
  using enum Mistake;
  EXPECT_EQ(kinds, (std::set{kNoBarrier, kStoresFurther, kLoadsFurther, kNoRelease, kNoAcquire}));
}

}  // namespace
}  // namespace terse::simt
