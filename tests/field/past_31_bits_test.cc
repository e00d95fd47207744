// Counts past 2^31 and results past 2^32 elements, in little memory.
// NVIDIA/nccl#184, open-mpi/ompi#9611.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <stdexcept>
#include <vector>

#include "programs.h"
#include "trials.h"

namespace terse::test {
namespace {

uint16_t bf16(float x) { return static_cast<uint16_t>(std::bit_cast<uint32_t>(x) >> 16); }

size_t available_bytes() {
  return static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES)) *
         static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

constexpr size_t kNeeded = size_t{9} << 30;  // mostly for what is packed

// Elements whose 64 MiB of memory repeat, up to a last part of their own.
class Repeated {
 public:
  static constexpr size_t kPeriod = size_t{64} << 20;  // bytes

  explicit Repeated(size_t bytes) : bytes_(bytes), whole_(bytes / kPeriod * kPeriod) {
    const size_t mapped = whole_ + kPeriod;
    const int file = memfd_create("repeated", 0);
    if (file < 0 || ftruncate(file, 2 * kPeriod) != 0) throw std::runtime_error("no memory");
    void* const place =
        mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (place == MAP_FAILED) throw std::runtime_error("no room");
    data_ = static_cast<char*>(place);
    for (size_t at = 0; at < mapped; at += kPeriod)
      if (mmap(data_ + at, kPeriod, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file,
               at < whole_ ? 0 : kPeriod) == MAP_FAILED)
        throw std::runtime_error("no room");
    close(file);
  }
  ~Repeated() { munmap(data_, whole_ + kPeriod); }
  Repeated(const Repeated&) = delete;
  Repeated& operator=(const Repeated&) = delete;

  char* data() { return data_; }
  std::span<uint16_t> period() { return {reinterpret_cast<uint16_t*>(data_), kPeriod / 2}; }
  std::span<uint16_t> last() {
    return {reinterpret_cast<uint16_t*>(data_ + whole_), (bytes_ - whole_) / 2};
  }

 private:
  size_t bytes_, whole_;
  char* data_;
};

// Blocks of constants, which are exact: whole numbers that go by the block, times `factor`.
void fill(std::span<uint16_t> x, float factor) {
  constexpr size_t kBlock = 128;
  for (size_t i = 0; i < x.size(); i += kBlock)
    std::ranges::fill(x.subspan(i, std::min(kBlock, x.size() - i)),
                      bf16(factor * static_cast<float>(i / kBlock * 7 % 61)));
}

void expect_filled(std::span<const uint16_t> x, float factor) {
  std::vector<uint16_t> wanted(x.size());
  fill(wanted, factor);
  EXPECT_EQ(std::memcmp(x.data(), wanted.data(), x.size_bytes()), 0) << x.size();
}

TEST(Past31Bits, AllReduce) {
  constexpr size_t kCount = (size_t{1} << 31) + 7;
  if (kSanitized || available_bytes() < kNeeded) GTEST_SKIP() << "not enough time or memory";
  on_ranks(2, "int4", [&](int, ncclComm_t comm) {
    Repeated send(2 * kCount), recv(2 * kCount);
    fill(send.period(), 1);
    std::ranges::fill(send.last(), bf16(3));
    ASSERT_EQ(send.last().size(), 7u);
    ASSERT_EQ(ncclAllReduce(send.data(), recv.data(), kCount, ncclBfloat16, ncclSum, comm, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(compressed_calls(comm), 1u);
    expect_filled(recv.period(), 2);
    EXPECT_EQ(std::ranges::count(recv.last(), bf16(6)), 7);
  });
}

// Of two ranks' 2^31 and some.
TEST(Past31Bits, AllGather) {
  constexpr size_t kCount = (size_t{1} << 31) + Repeated::kPeriod / 2 + 7;
  if (kSanitized || available_bytes() < kNeeded) GTEST_SKIP() << "not enough time or memory";
  on_ranks(2, "int4", [&](int rank, ncclComm_t comm) {
    Repeated send(2 * kCount), recv(2 * 2 * kCount);
    std::ranges::fill(send.period(), bf16(1));
    std::ranges::fill(send.last(), bf16(static_cast<float>(3 + rank)));
    ASSERT_EQ(ncclAllGather(send.data(), recv.data(), kCount, ncclBfloat16, comm, nullptr),
              ncclSuccess)
        << ncclGetLastError(comm);
    EXPECT_EQ(compressed_calls(comm), 1u);
    EXPECT_EQ(std::ranges::count(recv.last(), bf16(1)), 7);
    EXPECT_EQ(std::ranges::count(recv.last(), bf16(4)), 7);
  });
}

}  // namespace
}  // namespace terse::test
