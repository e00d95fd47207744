// A rank for whose call there is no memory is not at the same call as the others any more. Its own
// program, for it replaces operator new.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>
#include <vector>

#include "ranks.h"
#include "scheme_handle.h"
#include "terse/terse.h"

namespace {

thread_local int t_left = -1;  // allocations until one fails; negative: none will

void* granted(void* memory) {
  if (memory == nullptr || t_left-- == 0) {
    std::free(memory);
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace

#pragma GCC visibility push(default)  // the library's own code takes them, too
void* operator new(size_t bytes) { return granted(std::malloc(bytes != 0 ? bytes : 1)); }
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return std::malloc(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#pragma GCC visibility pop

namespace terse::test {
namespace {

constexpr size_t kCount = 4000;

class Sums {
 public:
  Sums(ncclComm_t whole, int rank, const SchemeHandle& scheme) : scheme_(scheme) {
    EXPECT_EQ(ncclCommSplit(whole, 0, rank, &comm_, nullptr), ncclSuccess);
    EXPECT_EQ(hostncclStreamCreate(&stream_), ncclSuccess);
  }
  ~Sums() {
    EXPECT_EQ(terseCommAbort(comm_), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm_), ncclSuccess);
    EXPECT_EQ(hostncclStreamDestroy(stream_), ncclSuccess);
  }

  // `fails`: which of the call's allocations; negative: none.
  ncclResult_t grouped(const std::vector<float>& in, std::vector<float>& out,
                       int fails = -1) const {
    EXPECT_EQ(terseGroupStart(), ncclSuccess);
    t_left = fails;
    const ncclResult_t called = terseAllReduce(in.data(), out.data(), kCount, ncclFloat32, ncclSum,
                                               scheme_.get(), comm_, stream_);
    t_left = -1;
    const ncclResult_t ended = terseGroupEnd();
    return called != ncclSuccess ? called : ended;
  }
  ncclResult_t finish() const { return hostncclStreamSynchronize(stream_); }

 private:
  const SchemeHandle& scheme_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

// Rank 1 lacks memory in the first of two sums. Its second one must not meet the other's first.
void lack_memory(bool known_before, int allocation) {
  run_ranks(2, [&](int rank, ncclComm_t whole) {
    const SchemeHandle scheme("int8");
    const Sums sums(whole, rank, scheme);
    const std::vector<float> first(kCount, 1), second(kCount, 100);
    std::vector<float> out(kCount);
    if (known_before) {
      ASSERT_EQ(sums.grouped(first, out), ncclSuccess);
      ASSERT_EQ(sums.finish(), ncclSuccess);
    }
    const ncclResult_t one = sums.grouped(first, out, rank == 1 ? allocation : -1);
    std::ranges::fill(out, 0.0f);
    const ncclResult_t two = sums.grouped(second, out);
    if (rank == 0) return (void)sums.finish();  // which may not end before the other one gives up
    if (one != ncclSuccess) {
      EXPECT_NE(two, ncclSuccess) << "after allocation " << allocation << " has failed";
    } else {
      EXPECT_EQ(two, ncclSuccess);
      EXPECT_EQ(sums.finish(), ncclSuccess);
      EXPECT_EQ(out[7], 200) << allocation;
    }
  });
}

TEST(MemoryShortage, OfOneRankInAGroupLosesTheCommunicator) {
  for (int allocation = 0; allocation < 20; ++allocation) lack_memory(true, allocation);
}

TEST(MemoryShortage, OfOneRankAtTheFirstUseLosesTheCommunicator) {
  for (int allocation = 0; allocation < 20; ++allocation) lack_memory(false, allocation);
}

}  // namespace
}  // namespace terse::test
