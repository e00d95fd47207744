// The wrappers' values against plain computations, whatever the seed.
#include "simt/executor.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <set>
#include <thread>
#include <vector>

#include "simt/arch.h"

namespace terse::simt {
namespace {

constexpr uint64_t kSeeds = 100;

struct Nothing {};

// What kernels see as 16 bytes.
struct alignas(16) Quad {
  uint32_t word[4];
};

std::vector<uint32_t> numbers(size_t n) {
  std::vector<uint32_t> v(n);
  for (size_t i = 0; i < n; ++i) v[i] = static_cast<uint32_t>(i * i + 7 * i + 3);
  return v;
}

TERSE_DEVICE uint32_t warp_sum(uint32_t value) {
  for (uint32_t distance = 1; distance < kWarp; distance *= 2)
    value += shuffle_xor(value, distance);
  return value;
}

TEST(Executor, GivesEveryThreadItsPlace) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<uint32_t> visits(3 * 70);
    run<Nothing>({.blocks = 3, .threads = 70, .seed = seed}, [&](Nothing&) {
      EXPECT_EQ(block_size(), 70u);
      EXPECT_EQ(grid_size(), 3u);
      ++visits[block_index() * 70 + thread_index()];
    });
    EXPECT_EQ(visits, std::vector<uint32_t>(3 * 70, 1));
  }
}

TEST(Executor, WarpReduction) {
  const std::vector<uint32_t> in = numbers(4 * 128);
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<uint32_t> out(in.size());
    run<Nothing>({.blocks = 4, .threads = 128, .seed = seed}, [&](Nothing&) {
      const uint32_t i = block_index() * block_size() + thread_index();
      store(&out[i], warp_sum(load(&in[i])));
    });
    for (size_t i = 0; i < in.size(); ++i) {
      const auto warp = in.begin() + i / kWarp * kWarp;
      ASSERT_EQ(out[i], std::accumulate(warp, warp + kWarp, 0u)) << seed;
    }
  }
}

TEST(Executor, ShufflesAndBallots) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run<Nothing>({.blocks = 2, .threads = 64, .seed = seed}, [](Nothing&) {
      const uint32_t lane = thread_index() % kWarp;
      const float mine = 0.5f * thread_index();
      // Lanes may read from different lanes, and from themselves.
      const uint32_t from = (lane * 5 + 3) % kWarp;
      EXPECT_EQ(shuffle(mine, from), 0.5f * (thread_index() - lane + from));
      EXPECT_EQ(shuffle(static_cast<int32_t>(lane) - 9, 4), -5);
      EXPECT_EQ(shuffle_xor(lane, lane), 0u);
      EXPECT_EQ(ballot(lane % 3 == 0), 0x49249249u);
      EXPECT_EQ(ballot(thread_index() == 37), thread_index() < kWarp ? 0u : 1u << 5);
      sync_warp();
      EXPECT_EQ(ballot(true), 0xffffffffu);
    });
  }
}

struct Sums {
  uint32_t warp[8];
  uint32_t all;
};

// The block's sum, in every thread.
TERSE_DEVICE uint32_t block_sum(uint32_t value, Sums& shared) {
  value = warp_sum(value);
  if (thread_index() % kWarp == 0) shared_store(shared.warp[thread_index() / kWarp], value);
  sync_block();
  if (thread_index() == 0) {
    uint32_t sum = 0;
    for (uint32_t w = 0; w < block_size() / kWarp; ++w) sum += shared_load(shared.warp[w]);
    shared_store(shared.all, sum);
  }
  sync_block();
  return shared_load(shared.all);
}

// Blocks take tile after tile, and use their shared memory again and again.
TEST(Executor, PersistentGridOfBlockReductions) {
  constexpr uint32_t kTiles = 11, kThreads = 256;
  const std::vector<uint32_t> in = numbers(kTiles * kThreads);
  const Memory readable(in.data(), in.size() * 4, Access::kReadOnly, "in");
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::vector<uint32_t> out(in.size());
    const Memory writable(out.data(), out.size() * 4, Access::kReadWrite, "out");
    run<Sums>({.blocks = 4, .threads = kThreads, .seed = seed}, [&](Sums& shared) {
      for (uint32_t tile = block_index(); tile < kTiles; tile += grid_size()) {
        const uint32_t i = tile * kThreads + thread_index();
        store_streaming(&out[i], block_sum(load_streaming(&in[i]), shared));
        sync_block();  // before the next tile's sums take the place
      }
    });
    for (size_t i = 0; i < in.size(); ++i) {
      const auto tile = in.begin() + i / kThreads * kThreads;
      ASSERT_EQ(out[i], std::accumulate(tile, tile + kThreads, 0u)) << seed;
    }
  }
}

TEST(Executor, Atomics) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    uint32_t count = 5;
    uint64_t wide = 1ull << 40;
    int32_t low = -1;
    float real = 0.25f;
    uint32_t most = 100;
    std::vector<uint32_t> olds;
    run<Nothing>({.blocks = 3, .threads = 64, .seed = seed}, [&](Nothing&) {
      olds.push_back(atomic_add(&count, 2u));
      atomic_add(&wide, uint64_t{1} << 20);
      atomic_add(&low, -1);
      atomic_add(&real, 0.5f);
      atomic_max(&most, 64 * block_index() + thread_index());
    });
    EXPECT_EQ(count, 5u + 2 * 192);
    EXPECT_EQ(wide, (1ull << 40) + (192ull << 20));
    EXPECT_EQ(low, -193);
    EXPECT_EQ(real, 96.25f);
    EXPECT_EQ(most, 191u);
    std::sort(olds.begin(), olds.end());
    for (uint32_t i = 0; i < 192; ++i) EXPECT_EQ(olds[i], 5 + 2 * i);
  }
}

template <class T>
void copy_by() {
  std::vector<Quad> in(16), out(16);
  const std::vector<uint32_t> words = numbers(64);
  std::memcpy(in.data(), words.data(), 256);
  const Memory readable(in.data(), 256, Access::kReadOnly, "in");
  const Memory writable(out.data(), 256, Access::kReadWrite, "out");
  run<Nothing>({}, [&](Nothing&) {
    for (size_t i = thread_index(); i < 256 / sizeof(T); i += kWarp)
      store(reinterpret_cast<T*>(out.data()) + i, load(reinterpret_cast<const T*>(in.data()) + i));
  });
  EXPECT_EQ(std::memcmp(in.data(), out.data(), 256), 0) << sizeof(T);
}

TEST(Executor, AccessesOfEverySize) {
  copy_by<uint8_t>();
  copy_by<uint16_t>();
  copy_by<uint32_t>();
  copy_by<uint64_t>();
  copy_by<Quad>();
}

struct Mixed {
  union {
    uint8_t bytes[8];
    uint64_t all_bytes;
  };
  union {
    uint16_t halves[4];
    uint32_t pairs[2];
  };
  union {
    uint64_t wide;
    uint8_t wide_bytes[8];
  };
  Quad quad;
};

// Neighbouring bytes are different places; a word is all of its bytes.
TEST(Executor, SharedAccessesOfEverySize) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run<Mixed>({.threads = 64, .seed = seed}, [](Mixed& shared) {
      const uint32_t t = thread_index();
      for (int round = 0; round < 3; ++round) {
        if (t < 8) shared_store(shared.bytes[t], static_cast<uint8_t>(t + 1));
        if (t >= 40 && t < 44) shared_store(shared.halves[t - 40], static_cast<uint16_t>(t));
        if (t == 9) shared_store(shared.wide, uint64_t{0x0123456789abcdef});
        if (t == 50) shared_store(shared.quad, Quad{{1, 2, 3, 4}});
        sync_block();
        EXPECT_EQ(shared_load(shared.all_bytes), 0x0807060504030201u);
        EXPECT_EQ(shared_load(shared.pairs[1]), 43u << 16 | 42u);
        EXPECT_EQ(shared_load(shared.wide_bytes[2]), 0xab);
        EXPECT_EQ(shared_load(shared.wide_bytes[6]), 0x23);
        EXPECT_EQ(shared_load(shared.quad).word[3], 4u);
        sync_block();
        if (t == 33) shared_store(shared.all_bytes, uint64_t{0});
        sync_block();
        EXPECT_EQ(shared_load(shared.bytes[t % 8]), 0);
        sync_block();
      }
    });
  }
}

// Neighbours' values by way of shared memory, with no barrier but the warp's.
TEST(Executor, WarpsSyncBySyncWarp) {
  struct Shared {
    uint32_t of[128];
  };
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    run<Shared>({.threads = 128, .seed = seed}, [](Shared& shared) {
      const uint32_t t = thread_index();
      for (uint32_t round = 0; round < 5; ++round) {
        shared_store(shared.of[t], t * 10 + round);
        sync_warp();
        EXPECT_EQ(shared_load(shared.of[t ^ 1]), (t ^ 1) * 10 + round);
        EXPECT_EQ(shared_load(shared.of[t ^ 16]), (t ^ 16) * 10 + round);
        sync_warp();
      }
    });
  }
}

TEST(Executor, SharedMemoryBeginsAsGarbage) {
  struct Shared {
    uint32_t words[64];
  };
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    run<Shared>({.blocks = 2, .threads = 1, .seed = seed}, [&](Shared& shared) {
      seen.insert(std::begin(shared.words), std::end(shared.words));
    });
  }
  EXPECT_GT(seen.size(), 500u);
}

// In which order the threads of all blocks come by.
std::vector<uint32_t> trace(uint64_t seed) {
  std::vector<uint32_t> order;
  uint32_t somewhere = 0;
  run<Nothing>({.blocks = 5, .threads = 64, .seed = seed}, [&](Nothing&) {
    for (int i = 0; i < 20; ++i) {
      load(&somewhere);
      order.push_back(block_index() * 1000 + thread_index());
    }
    sync_block();
    order.push_back(block_index() * 1000 + thread_index());
  });
  return order;
}

TEST(Executor, OrderComesFromTheSeed) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<uint32_t> order = trace(seed);
    EXPECT_EQ(order, trace(seed));
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 20u);
}

TEST(Executor, AnyBlockMayBeFirst) {
  std::set<uint32_t> firsts;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) firsts.insert(trace(seed)[0] / 1000);
  EXPECT_EQ(firsts, (std::set<uint32_t>{0, 1, 2, 3, 4}));
}

// Accesses to memory are places to switch, though not each is one: additions get lost.
TEST(Executor, ThreadsStopBetweenAccesses) {
  std::set<uint32_t> sums;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    uint32_t sum = 0;
    run<Nothing>({.seed = seed}, [&](Nothing&) {
      for (int i = 0; i < 10; ++i) store(&sum, load(&sum) + 1);
    });
    sums.insert(sum);
  }
  EXPECT_EQ(*sums.rbegin(), 320u);
  EXPECT_LT(*sums.begin(), 200u);
  EXPECT_GT(sums.size(), 20u);
}

TEST(Executor, WarpsRunFarAhead) {
  int far = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    std::array<int, 2> rounds = {};
    int lead = 0;
    run<Nothing>({.threads = 64, .seed = seed}, [&](Nothing&) {
      for (int i = 0; i < 50; ++i) {
        sync_warp();
        if (thread_index() % kWarp == 0) ++rounds[thread_index() / kWarp];
        lead = std::max(lead, std::abs(rounds[0] - rounds[1]));
      }
    });
    far += lead >= 40;
  }
  EXPECT_GT(far, 5);
  EXPECT_LT(far, 95);
}

// A missing barrier changes results by itself, where nothing watches: through global memory.
TEST(Executor, RandomOrderShowsAMissingBarrier) {
  const auto wrong_results = [](bool barrier) {
    int wrong = 0;
    for (uint64_t seed = 0; seed < kSeeds; ++seed) {
      std::array<uint32_t, 64> data = {}, out = {};
      run<Nothing>({.threads = 64, .seed = seed}, [&](Nothing&) {
        const uint32_t t = thread_index();
        store(&data[t], t + 1);
        if (barrier) sync_block();
        store(&out[t], load(&data[63 - t]));
      });
      for (uint32_t t = 0; t < 64; ++t) {
        if (out[t] == 64 - t) continue;
        ++wrong;
        break;
      }
    }
    return wrong;
  };
  EXPECT_EQ(wrong_results(true), 0);
  EXPECT_GT(wrong_results(false), 50);
}

TEST(Executor, WorksInSeveralOsThreadsAtOnce) {
  std::vector<std::thread> threads;
  std::array<uint32_t, 3> counts = {};
  for (uint32_t& count : counts)
    threads.emplace_back([&count] {
      const Memory memory(&count, sizeof(count), Access::kReadWrite, "count");
      for (uint64_t seed = 0; seed < 10; ++seed)
        run<Nothing>({.blocks = 2, .threads = 128, .seed = seed}, [&](Nothing&) {
          sync_block();
          atomic_add(&count, 1u);
        });
    });
  for (std::thread& thread : threads) thread.join();
  for (const uint32_t count : counts) EXPECT_EQ(count, 2560u);
}

TEST(Executor, RefusesBadLaunches) {
  const auto nothing = [](Nothing&) {};
  EXPECT_THROW(run<Nothing>({.blocks = 0}, nothing), std::invalid_argument);
  EXPECT_THROW(run<Nothing>({.threads = 0}, nothing), std::invalid_argument);
  EXPECT_THROW(run<Nothing>({.threads = 1025}, nothing), std::invalid_argument);
}

}  // namespace
}  // namespace terse::simt
