// The kernels that look at memory, at any address, against the host's loops: what levels are
// learned of, how far buffers are apart, and the check of what they hold. "Short" as in
// parity_test.cc.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "codec/codebook.h"
#include "device_buffer.h"
#include "kernels/launch.h"
#include "support.h"

namespace terse::gpu {
namespace {

using codec::Bytes;
using codec::Dtype;
using codec::Random;

const cuda::Launcher& launcher() {
  static const cuda::Launcher all{cuda::Device(0)};
  return all;
}

void synchronize() { check(cudaDeviceSynchronize(), "the kernels"); }

// Elements on the GPU, `offset` bytes past an aligned address.
class Elements {
 public:
  Elements(const Bytes& elements, size_t offset)
      : buffer_(offset + elements.size()), offset_(offset) {
    buffer_.put(elements.data(), elements.size(), offset);
  }
  const uint8_t* data() const { return buffer_.data() + offset_; }

 private:
  DeviceBuffer buffer_;
  size_t offset_;
};

// Memory of the host that kernels write to, full of garbage.
template <class T>
class Visible {
 public:
  explicit Visible(size_t n) {
    check(cudaHostAlloc(&data_, n * sizeof(T), cudaHostAllocPortable), "cudaHostAlloc");
    std::memset(data_, 0x5A, n * sizeof(T));
  }
  ~Visible() { cudaFreeHost(data_); }
  Visible(const Visible&) = delete;
  Visible& operator=(const Visible&) = delete;
  T* data() const { return static_cast<T*>(data_); }

 private:
  void* data_ = nullptr;
};

Bytes some_elements(Dtype dtype, codec::Kin kin, size_t count, Random& random) {
  return oracle::to_memory(dtype, codec::numbers(kin, count, random));
}

// ---- What levels are learned of ----

// All stages, one after the other, into memory that holds garbage before.
void expect_learned(Dtype dtype, int bits, codec::Rounding rounding, uint32_t block,
                    const Bytes& elements, size_t offset) {
  using codec::Learning;
  using enum Learning::Stage;
  const Elements data(elements, offset);
  const DeviceBuffer state(sizeof(codec::LearningState)), table(codec::codebook_bytes(bits));
  state.fill(0x5A);
  table.fill(0x5A);
  codec::LearningState found, own;
  codec::Floats found_table(codec::codebook_floats(bits)), own_table(found_table.size());
  table.get(own_table.data(), table.size());
  Learning work{kWidest,
                dtype,
                static_cast<uint8_t>(bits),
                rounding,
                block,
                elements.size() / codec::dtype_size(dtype),
                data.data(),
                reinterpret_cast<codec::LearningState*>(state.data()),
                reinterpret_cast<float*>(table.data())};
  Learning own_work = work;
  own_work.data = elements.data();
  own_work.state = &own;
  own_work.table = own_table.data();
  for (const Learning::Stage stage : {kWidest, kHistogram, kFit}) {
    work.stage = own_work.stage = stage;
    launcher().learn(nullptr, work);
    codec::learn(own_work);
    synchronize();
    state.get(&found, sizeof found);
    EXPECT_EQ(found.widest, own.widest);
    EXPECT_EQ(std::memcmp(found.bins, own.bins, sizeof own.bins), 0);
  }
  table.get(found_table.data(), table.size());
  EXPECT_EQ(std::memcmp(found_table.data(), own_table.data(), table.size()), 0);
}

void learn_all(size_t count, uint64_t seed) {
  Random random(seed);
  for (const Dtype dtype : codec::kAllDtypes)
    for (const size_t offset : {0, 1, 2})
      for (const codec::Kin kin : {codec::Kin::kGaussian, codec::Kin::kPlanted}) {
        SCOPED_TRACE(testing::Message() << codec::name_of(dtype) << " " << count << " at " << offset
                                        << ", kin " << static_cast<int>(kin));
        const auto rounding =
            offset == 0 ? codec::Rounding::kStochastic : codec::Rounding::kNearest;
        expect_learned(dtype, offset == 2 ? codec::kMaxBits : 4, rounding, 160,
                       some_elements(dtype, kin, count, random), offset);
      }
}

TEST(Short, Learning) { learn_all(5'003, 6); }

TEST(Parity, Learning) { learn_all(300'003, 7); }

// ---- How far buffers are apart ----

bool near(double found, double wanted) { return std::fabs(found - wanted) <= 1e-11 * wanted; }

void expect_compared(Dtype dtype, const Bytes& value, const Bytes& exact, size_t offset) {
  const Elements gpu_value(value, offset), gpu_exact(exact, 0);
  const Visible<codec::Difference> parts(codec::kDifferenceParts);
  std::vector<codec::Difference> own_parts(codec::kDifferenceParts);
  const uint64_t count = value.size() / codec::dtype_size(dtype);
  launcher().compare(nullptr, {gpu_value.data(), gpu_exact.data(), count, dtype, parts.data()});
  codec::compare({value.data(), exact.data(), count, dtype, own_parts.data()});
  synchronize();
  const codec::Difference found = codec::total(parts.data()), own = codec::total(own_parts.data());
  EXPECT_TRUE(near(found.squares, own.squares)) << found.squares << " for " << own.squares;
  EXPECT_TRUE(near(found.exact_squares, own.exact_squares));
  EXPECT_EQ(found.largest, own.largest);
  EXPECT_EQ(found.lost, own.lost);
  EXPECT_EQ(found.spread, own.spread);
}

void compare_all(size_t count, uint64_t seed) {
  Random random(seed);
  for (const Dtype dtype : codec::kAllDtypes)
    for (const size_t offset : {0, 1, 4}) {
      SCOPED_TRACE(testing::Message() << codec::name_of(dtype) << " " << count << " at " << offset);
      expect_compared(dtype, some_elements(dtype, codec::Kin::kPlanted, count, random),
                      some_elements(dtype, codec::Kin::kPlanted, count, random), offset);
    }
}

TEST(Short, Comparison) { compare_all(5'003, 8); }

TEST(Parity, Comparison) { compare_all(300'003, 9); }

// ---- What they hold ----

// As a rank's copy of all weights is checked: pieces of which its own lies elsewhere.
codec::Checksum check_of(const uint8_t* pieces, uint64_t bytes, Dtype dtype) {
  const uint64_t words = codec::check_words(bytes);
  return {.of = {{pieces, bytes, 2, 0},
                 {pieces + 3 * bytes, bytes, 1, 2 * words},
                 {pieces + 2 * bytes, bytes, 1, 3 * words}},
          .count = 3,
          .bits = codec::extreme_bits(dtype)};
}

struct Seen {
  uint64_t sum;
  bool extreme;
};

Seen on_host(const Bytes& pieces, Dtype dtype) {
  std::vector<uint64_t> parts(codec::kCheckParts);
  std::vector<uint32_t> extreme(codec::kCheckParts);
  codec::Checksum work = check_of(pieces.data(), pieces.size() / 4, dtype);
  work.parts = parts.data();
  work.extreme = extreme.data();
  codec::checksum(work);
  return {codec::total(parts.data()), codec::any_extreme(work)};
}

// Parts that the host reads, with and without what is not finite.
void expect_visible(codec::Checksum work, const Seen& wanted) {
  for (const bool asked : {true, false}) {
    const Visible<uint64_t> parts(codec::kCheckParts);
    const Visible<uint32_t> extreme(codec::kCheckParts);
    work.parts = parts.data();
    work.extreme = asked ? extreme.data() : nullptr;
    launcher().checksum(nullptr, work);
    synchronize();
    EXPECT_EQ(codec::total(work.parts), wanted.sum);
    EXPECT_TRUE(!asked || codec::any_extreme(work) == wanted.extreme);
  }
}

// Parts that kernels read.
void expect_on_device(codec::Checksum work, const Seen& wanted) {
  std::vector<uint64_t> parts(codec::kCheckParts);
  const DeviceBuffer memory(parts.size() * sizeof parts[0]);
  memory.fill(0x5A);
  work.parts = reinterpret_cast<uint64_t*>(memory.data());
  launcher().checksum(nullptr, work);
  synchronize();
  memory.get(parts.data(), memory.size());
  EXPECT_EQ(codec::total(parts.data()), wanted.sum);
}

void expect_checked(const Bytes& pieces, Dtype dtype, bool finite) {
  const Seen wanted = on_host(pieces, dtype);
  EXPECT_EQ(wanted.extreme, !finite);
  for (const size_t offset : {0, 1, 2}) {
    SCOPED_TRACE(testing::Message() << codec::name_of(dtype) << " " << pieces.size() << " bytes at "
                                    << offset << (finite ? "" : ", not finite"));
    const Elements on_gpu(pieces, offset);
    const codec::Checksum work = check_of(on_gpu.data(), pieces.size() / 4, dtype);
    expect_visible(work, wanted);
    expect_on_device(work, wanted);
  }
}

void check_all(size_t count, uint64_t seed) {
  Random random(seed);
  codec::Floats x = codec::numbers(codec::Kin::kGaussian, 4 * count, random);
  for (const Dtype dtype : codec::kAllDtypes)
    expect_checked(oracle::to_memory(dtype, x), dtype, true);
  x[random.below(x.size())] = -std::numeric_limits<float>::infinity();
  for (const Dtype dtype : codec::kAllDtypes)
    expect_checked(oracle::to_memory(dtype, x), dtype, false);
}

TEST(Short, Check) { check_all(5'003, 10); }

// More than a round of the largest grid.
TEST(Parity, Check) { check_all(1'500'003, 11); }

}  // namespace
}  // namespace terse::gpu
