// What a kernel does wrong is noticed, and said.
#include "simt/fault.h"

#include <gtest/gtest.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "leaf.h"
#include "simt/executor.h"

namespace terse::simt {
namespace {

constexpr uint64_t kSeeds = 50;

struct Nothing {};

struct Words {
  uint32_t word[64];
};

template <class Shared = Nothing, class Body>
std::optional<Fault> fault_of(const Launch& launch, const Body& body) {
  try {
    run<Shared>(launch, body);
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

// Each seed makes `body` fail, and says one of `words`, which are alternatives between '|'.
template <class Shared = Nothing, class Body>
void expect_fault(Launch launch, const std::string& words, const Body& body) {
  for (launch.seed = 0; launch.seed < kSeeds; ++launch.seed) {
    const std::optional<Fault> fault = fault_of<Shared>(launch, body);
    ASSERT_TRUE(fault.has_value()) << "seed " << launch.seed;
    bool said = false;
    for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
      end = words.find('|', begin);
      said = said ||
             std::string(fault->what()).find(words.substr(begin, end - begin)) != std::string::npos;
    }
    EXPECT_TRUE(said) << "seed " << launch.seed << ": " << fault->what();
  }
}

TEST(Fault, SaysWhereItIs) {
  const auto fault = fault_of({.blocks = 3, .threads = 64}, [](Nothing&) {
    if (block_index() == 2 && thread_index() == 37) throw std::runtime_error("no luck");
  });
  ASSERT_TRUE(fault.has_value());
  EXPECT_EQ(fault->block(), 2u);
  EXPECT_EQ(fault->thread(), 37u);
  EXPECT_STREQ(fault->what(), "block 2, thread 37 (warp 1, lane 5): threw: no luck");
}

TEST(Fault, CarriesTheException) {
  try {
    run<Nothing>({}, [](Nothing&) {
      sync_warp();
      if (thread_index() == 3) throw 17;
      sync_warp();
    });
    FAIL();
  } catch (const Fault& fault) {
    EXPECT_EQ(fault.thread(), 3u);
    EXPECT_THROW(std::rethrow_if_nested(fault), int);
  }
}

// Barriers and collectives that cannot complete.

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

// Global memory.

class GlobalMemory : public testing::Test {
 protected:
  // Real memory around the ranges: only the executor notices. (The guard at the end, too, is wider
  // than any access below.)
  alignas(16) std::array<uint8_t, 256> memory_ = {};
  uint8_t* const out_ = memory_.data() + 16;
  const uint8_t* const in_ = memory_.data() + 160;
  const Memory writable_{out_, 64, Access::kReadWrite, "out"};
  const Memory readable_{in_, 60, Access::kReadOnly, "in"};

  template <class T>
  static T* as(uint8_t* p) {
    return reinterpret_cast<T*>(p);
  }
  template <class T>
  static const T* as(const uint8_t* p) {
    return reinterpret_cast<const T*>(p);
  }
};

TEST_F(GlobalMemory, AllowsWhatIsRegistered) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run<Nothing>({.threads = 15, .seed = seed}, [&](Nothing&) {
      const uint32_t t = thread_index();
      store(as<uint32_t>(out_) + t, load(as<uint32_t>(in_) + t));
      atomic_add(as<uint32_t>(out_) + 15, load(as<uint32_t>(out_) + t));
    });
  }
}

TEST_F(GlobalMemory, WriteOutOfBounds) {
  expect_fault({},
               "thread 16 (warp 0, lane 16): store of 4 bytes at offset 64 of \"out\" (64 bytes), "
               "which is out of bounds",
               [&](Nothing&) {
                 if (thread_index() <= 16) store(as<uint32_t>(out_) + thread_index(), 1u);
               });
  EXPECT_EQ(memory_[16 + 64], 0);
  expect_fault({}, "store of 1 bytes at offset -1 of \"out\" (64 bytes), which is out of bounds",
               [&](Nothing&) { store(out_ - 1, uint8_t{1}); });
  EXPECT_EQ(memory_[15], 0);
}

TEST_F(GlobalMemory, ReadOutOfBounds) {
  expect_fault({}, "load of 8 bytes at offset 56 of \"in\" (60 bytes, read-only), which is out of",
               [&](Nothing&) { load(as<uint64_t>(in_) + 7); });
  expect_fault({}, "load of 16 bytes at offset", [&](Nothing&) {
    struct alignas(16) Quad {
      uint32_t word[4];
    };
    load(as<Quad>(in_) + 100 + thread_index());
  });
}

TEST_F(GlobalMemory, WriteToReadOnly) {
  uint8_t* const in = const_cast<uint8_t*>(in_);
  expect_fault({},
               "store of 1 bytes at offset 3 of \"in\" (60 bytes, read-only), which is read-only",
               [&](Nothing&) {
                 load(in + 3);
                 store(in + 3, uint8_t{1});
               });
  expect_fault({}, "atomic_add of 4 bytes at offset 4 of \"in\" (60 bytes, read-only), which is re",
               [&](Nothing&) { atomic_add(as<uint32_t>(in + 4), 1u); });
}

TEST_F(GlobalMemory, Misaligned) {
  struct Quad {
    uint8_t byte[16];
  };
  expect_fault({}, "load of 16 bytes at offset 8 of \"out\" (64 bytes), which is misaligned",
               [&](Nothing&) {
                 load(as<Quad>(out_));
                 load(as<Quad>(out_ + 8));
               });
  struct Half {
    uint8_t byte[2];
  };
  expect_fault({}, "store of 2 bytes at offset 1 of \"out\" (64 bytes), which is misaligned",
               [&](Nothing&) { store(as<Half>(out_ + 1), Half{}); });
}

TEST_F(GlobalMemory, ForgetsWhatIsGone) {
  uint8_t* const other = memory_.data() + 96;
  const auto body = [&](Nothing&) { store(other, uint8_t{1}); };
  {
    const Memory memory(other, 1, Access::kReadWrite, "other");
    run<Nothing>({}, body);
  }
  expect_fault({}, "store of 1 bytes at offset 80 of \"out\" (64 bytes), which is out of bounds",
               body);
}

TEST(NoGlobalMemory, StillAligned) {
  alignas(16) std::array<uint8_t, 64> memory = {};
  struct Quad {
    uint8_t byte[16];
  };
  run<Nothing>({}, [&](Nothing&) { load(reinterpret_cast<const Quad*>(memory.data())); });
  expect_fault({}, "load of 16 bytes at address 0x",
               [&](Nothing&) { load(reinterpret_cast<const Quad*>(memory.data() + 8)); });
}

// Shared memory.

TEST(Race, ReadWithoutBarrier) {
  expect_fault<Words>({.threads = 64}, "missing barrier: |no thread of the block has written",
                      [](Words& shared) {
                        const uint32_t t = thread_index();
                        shared_store(shared.word[t], t);
                        shared_load(shared.word[63 - t]);
                      });
  // Whoever comes first: it has been written.
  expect_fault<Words>({.threads = 64},
                      "missing barrier: reads shared memory at offset 0, which thread 5",
                      [](Words& shared) {
                        if (thread_index() == 5) shared_store(shared.word[0], 1u);
                        if (thread_index() / kWarp == 0) ballot(true);
                        if (thread_index() == 9) shared_load(shared.word[0]);
                      });
}

TEST(Race, WriteWithoutBarrier) {
  const std::string words =
      "missing barrier: writes shared memory at offset 12|"
      "missing barrier: reads shared memory at offset 12";
  // Two writers.
  expect_fault<Words>({.threads = 64}, words, [](Words& shared) {
    if (thread_index() % 40 == 0) shared_store(shared.word[3], 1u);
  });
  // A reader of the old value and the writer of the next.
  expect_fault<Words>({.threads = 64}, words, [](Words& shared) {
    if (thread_index() == 7) shared_store(shared.word[3], 1u);
    sync_block();
    shared_load(shared.word[3]);
    if (thread_index() == 50) shared_store(shared.word[3], 2u);
  });
}

// A reader is not forgotten because another read after it.
TEST(Race, EveryReaderCounts) {
  for (uint32_t writer = 0; writer < 96; ++writer) {
    for (uint32_t reader = 0; reader < 96; reader += 19) {
      if (reader == writer) continue;
      const auto fault = fault_of<Words>({.threads = 96, .seed = writer}, [&](Words& shared) {
        if (thread_index() == 0) shared_store(shared.word[3], 1u);
        sync_block();
        if (thread_index() == reader) shared_load(shared.word[3]);
        sync_warp();
        if (thread_index() == writer) shared_load(shared.word[3]);
        sync_block();
        if (thread_index() == reader || thread_index() == writer) shared_load(shared.word[3]);
        if (thread_index() == writer) shared_store(shared.word[3], 2u);
      });
      ASSERT_TRUE(fault.has_value()) << writer << " " << reader;
      EXPECT_NE(std::string(fault->what()).find("missing barrier"), std::string::npos);
    }
  }
}

TEST(Race, SyncWarpIsNotEnoughForTwoWarps) {
  expect_fault<Words>({.threads = 64}, "with no sync_block in between|no thread of the block has",
                      [](Words& shared) {
                        const uint32_t t = thread_index();
                        shared_store(shared.word[t], t);
                        sync_warp();
                        shared_load(shared.word[63 - t]);
                      });
}

// Shuffles and ballots order no accesses to memory.
TEST(Race, CollectivesAreNoBarriers) {
  expect_fault<Words>({}, "with no sync_warp or sync_block in between", [](Words& shared) {
    const uint32_t t = thread_index();
    shared_store(shared.word[t], t);
    shuffle_xor(t, 1);
    ballot(true);
    shared_load(shared.word[t ^ 1]);
  });
}

TEST(Race, BytesOfOneWord) {
  struct Bytes {
    union {
      uint8_t byte[4];
      uint32_t word;
    };
  };
  run<Bytes>({}, [](Bytes& shared) {
    if (thread_index() < 4) shared_store(shared.byte[thread_index()], uint8_t{1});
  });
  expect_fault<Bytes>({}, "shared memory at offset 2, which", [](Bytes& shared) {
    if (thread_index() < 4) shared_store(shared.byte[thread_index()], uint8_t{1});
    if (thread_index() == 9) shared_store(shared.byte[2], uint8_t{1});
  });
  expect_fault<Bytes>({}, "missing barrier", [](Bytes& shared) {
    if (thread_index() == 3) shared_store(shared.byte[3], uint8_t{1});
    if (thread_index() == 9) shared_store(shared.word, 1u);
  });
}

TEST(SharedMemory, NeverWritten) {
  expect_fault<Words>({.blocks = 2, .threads = 64},
                      "reads shared memory at offset 20, which no thread of the block has written",
                      [](Words& shared) {
                        // The block before has written it; this one has not.
                        if (thread_index() != 5) shared_store(shared.word[thread_index()], 1u);
                        sync_block();
                        shared_load(shared.word[5]);
                        if (thread_index() == 6) shared_store(shared.word[5], 1u);
                      });
  int blocks = 0;
  const auto fault = fault_of<Words>({.blocks = 4}, [&](Words& shared) {
    if (thread_index() == 0 && blocks++ == 0) shared_store(shared.word[0], 1u);
    sync_block();
    shared_load(shared.word[0]);
  });
  EXPECT_TRUE(fault.has_value());
}

TEST(SharedMemory, OutOfBounds) {
  alignas(16) uint32_t elsewhere[4] = {};
  expect_fault<Words>({}, "of the block's shared memory (256 bytes), which is out of bounds",
                      [&](Words&) { shared_store(elsewhere[1], 1u); });
  expect_fault<Words>({}, "shared_load of 4 bytes at offset 256", [](Words& shared) {
    const uint32_t* const words = shared.word;
    shared_load(words[64 + thread_index() % 1]);
  });
}

TEST(SharedMemory, Misaligned) {
  struct Bytes {
    alignas(16) uint8_t byte[32];
  };
  struct Word {
    uint8_t byte[4];
  };
  expect_fault<Bytes>({}, "shared_store of 4 bytes at offset 6", [](Bytes& shared) {
    shared_store(reinterpret_cast<Word&>(shared.byte[6]), Word{});
  });
}

// After a Fault.

TEST(AfterAFault, UnfinishedThreadsAreUnwound) {
  const auto token = std::make_shared<int>(1);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    int begun = 0;
    const auto fault = fault_of({.threads = 256, .seed = seed}, [&](Nothing&) {
      const std::shared_ptr<int> held = token;
      const std::vector<int> some(100, 7);
      ++begun;
      if (thread_index() == 99) throw std::runtime_error("no luck");
      sync_block();
    });
    EXPECT_TRUE(fault.has_value());
    EXPECT_GT(begun, 0);
    EXPECT_EQ(token.use_count(), 1);
  }
}

TEST(AfterAFault, NobodyGoesOn) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    int begun = 0, passed = 0;
    const auto fault = fault_of({.blocks = 2, .threads = 64, .seed = seed}, [&](Nothing&) {
      if (++begun == 10) throw std::runtime_error("no luck");
      sync_block();
      ++passed;
    });
    EXPECT_TRUE(fault.has_value());
    EXPECT_EQ(begun, 10);
    EXPECT_EQ(passed, 0);
  }
}

TEST(AfterAFault, TheNextLaunchIsSound) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    EXPECT_TRUE(fault_of({.blocks = 2, .threads = 64, .seed = seed}, [](Nothing&) {
                  ballot(true);
                  if (thread_index() == 20) sync_block();
                }).has_value());
    uint32_t sum = 0;
    run<Nothing>({.blocks = 2, .threads = 64, .seed = seed}, [&](Nothing&) {
      sync_block();
      atomic_add(&sum, ballot(true));
    });
    EXPECT_EQ(sum, 0u - 128);
  }
}

TEST(AfterAFault, ABodyThatCatchesEverythingEnds) {
  EXPECT_TRUE(fault_of({.threads = 64}, [](Nothing&) {
                for (int i = 0; i < 10; ++i) {
                  try {
                    if (thread_index() == 3) throw Fault(0, 3, "no luck");
                    sync_block();
                  } catch (...) {
                  }
                }
              }).has_value());
}

TEST(Launches, DoNotNest) {
  expect_fault({}, "threw: a kernel cannot launch another",
               [](Nothing&) { run<Nothing>({}, [](Nothing&) {}); });
}

}  // namespace
}  // namespace terse::simt
