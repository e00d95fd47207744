// Accesses to global memory that are not allowed are noticed.
#include "simt/global_memory.h"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>

#include "expect_fault.h"

namespace terse::simt {
namespace {

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

TEST_F(GlobalMemory, CountsWhatIsReadAndWritten) {
  const Traffic before = traffic;
  run<Nothing>({.threads = 5}, [&](Nothing&) {
    const uint32_t t = thread_index();
    const uint8_t byte = load(in_);  // each asks for it
    store(as<uint32_t>(out_) + t, uint32_t{byte});
    atomic_add(as<uint64_t>(out_ + 32), uint64_t{1});
    if (t == 0) atomic_max(as<uint32_t>(out_ + 40), 1u);
  });
  EXPECT_EQ(traffic.read - before.read, 5u * (1 + 8) + 4);
  EXPECT_EQ(traffic.written - before.written, 5u * (4 + 8) + 4);
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
  expect_fault({}, "atomic_max of 4 bytes at offset 4 of \"in\" (60 bytes, read-only), which is re",
               [&](Nothing&) { atomic_max(as<uint32_t>(in + 4), 1u); });
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

}  // namespace
}  // namespace terse::simt
