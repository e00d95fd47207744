// The kernel that compares two buffers, on the SIMT executor, against the host's loop and against
// sums in another precision.
#include "codec/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "kernels/device/batch.h"
#include "kernels/device/partial_sums.h"
#include "normal.h"
#include "simt/global_memory.h"

namespace terse::kernels {
namespace {

using codec::Dtype;

struct Buffers {
  std::vector<char> value, exact;
  size_t offset;
  const char* at(const std::vector<char>& buffer) const { return buffer.data() + offset; }
};

template <class T>
Buffers buffers(size_t count, size_t offset, bool special) {
  std::mt19937 random(static_cast<unsigned>(count));
  const test::Normal normal;
  Buffers b{std::vector<char>(count * sizeof(T) + offset),
            std::vector<char>(count * sizeof(T) + offset), offset};
  for (size_t i = 0; i < count; ++i) {
    float exact = normal(random), value = exact + 0.01f * normal(random);
    if (special && i % 7 == 0) exact = std::numeric_limits<float>::quiet_NaN();
    if (special && i % 5 == 0) value = -std::numeric_limits<float>::infinity();
    const T v = codec::from_float<T>(value), e = codec::from_float<T>(exact);
    std::memcpy(b.value.data() + offset + i * sizeof(T), &v, sizeof(T));
    std::memcpy(b.exact.data() + offset + i * sizeof(T), &e, sizeof(T));
  }
  return b;
}

template <class T>
codec::Difference plainly(const Buffers& b, size_t count) {
  long double squares = 0, exact_squares = 0, largest = 0;
  codec::Difference d;
  for (size_t i = 0; i < count; ++i) {
    T v, e;
    std::memcpy(&v, b.at(b.value) + i * sizeof(T), sizeof(T));
    std::memcpy(&e, b.at(b.exact) + i * sizeof(T), sizeof(T));
    const long double value = codec::to_float(v), exact = codec::to_float(e);
    d.lost += std::isfinite(value) && !std::isfinite(exact);
    d.spread += !std::isfinite(value) && std::isfinite(exact);
    if (!std::isfinite(value) || !std::isfinite(exact)) continue;
    squares += (value - exact) * (value - exact);
    exact_squares += exact * exact;
    largest = std::max(largest, std::fabs(value - exact));
  }
  d.squares = static_cast<double>(squares);
  d.exact_squares = static_cast<double>(exact_squares);
  d.largest = static_cast<double>(largest);
  return d;
}

bool near(double got, double want) { return std::fabs(got - want) <= 1e-11 * want; }

bool equal(const codec::Difference& got, const codec::Difference& want) {
  return near(got.squares, want.squares) && near(got.exact_squares, want.exact_squares) &&
         got.largest == want.largest && got.lost == want.lost && got.spread == want.spread;
}

// Into parts that hold garbage before.
template <class Compare>
codec::Difference total_of(const Buffers& b, size_t count, Dtype dtype, const Compare& compare) {
  const codec::Difference garbage{1e300, 1e300, 1e300, ~0ull, ~0ull};
  std::vector<codec::Difference> parts(codec::kDifferenceParts, garbage);
  const simt::Memory value(b.value.data(), b.value.size(), simt::Access::kReadOnly, "value");
  const simt::Memory exact(b.exact.data(), b.exact.size(), simt::Access::kReadOnly, "exact");
  const simt::Memory out(parts.data(), parts.size() * sizeof parts[0], simt::Access::kReadWrite,
                         "parts");
  compare(codec::Comparison{b.at(b.value), b.at(b.exact), count, dtype, parts.data()});
  return codec::total(parts.data());
}

codec::Difference on_host(const Buffers& b, size_t count, Dtype dtype) {
  return total_of(b, count, dtype, codec::compare);
}

codec::Difference on_kernel(const Buffers& b, size_t count, Dtype dtype,
                            const simt::Planter* planter = nullptr) {
  return total_of(b, count, dtype, [&](const codec::Comparison& work) {
    cpu_compare(
        work,
        {.blocks = thread_blocks(work), .threads = kThreads, .seed = count, .planter = planter});
  });
}

template <class T>
void check(Dtype dtype, size_t count, size_t offset, bool special) {
  SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(dtype) << " count " << count
                                  << " offset " << offset << (special ? " special" : ""));
  const Buffers b = buffers<T>(count, offset, special);
  const codec::Difference want = plainly<T>(b, count);
  EXPECT_TRUE(equal(on_host(b, count, dtype), want));
  EXPECT_TRUE(equal(on_kernel(b, count, dtype), want));
}

TEST(Difference, KernelAndHostSeeTheSame) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{300}, size_t{40'001}, size_t{1'200'003}})
    for (const bool special : {false, true}) {
      check<float>(Dtype::kFloat32, count, 0, special);
      check<codec::half_t>(Dtype::kFloat16, count, 0, special);
      check<codec::bfloat_t>(Dtype::kBfloat16, count, 0, special);
    }
}

TEST(Difference, BuffersMayLieAnywhere) {
  for (const size_t offset : {1, 2, 3}) check<float>(Dtype::kFloat32, 1000, offset, false);
  check<codec::half_t>(Dtype::kFloat16, 1000, 1, true);
  check<codec::bfloat_t>(Dtype::kBfloat16, 1000, 1, true);
}

TEST(Difference, NoMistakeInTheKernelGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  // Several vectors of 8 for some threads, and one that is short.
  for (size_t count = 530'000; count < 530'010; ++count) {
    const Buffers b = buffers<float>(count, count % 2, true);
    trials.emplace_back([=, want = on_host(b, count, Dtype::kFloat32)](const auto* planter) {
      return equal(on_kernel(b, count, Dtype::kFloat32, planter), want);
    });
  }
  EXPECT_EQ(expect_noticed(trials), (std::set{kNoBarrier, kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
