// The kernel that compares two buffers, on the SIMT executor, against the host's loop and against
// sums in another precision.
#include "codec/difference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "batch.h"
#include "cpu_kernels.h"

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
  std::normal_distribution<float> normal;
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

void expect_equal(const codec::Difference& got, const codec::Difference& want) {
  EXPECT_NEAR(got.squares, want.squares, 1e-12 * want.squares);
  EXPECT_NEAR(got.exact_squares, want.exact_squares, 1e-12 * want.exact_squares);
  EXPECT_EQ(got.largest, want.largest);
  EXPECT_EQ(got.lost, want.lost);
  EXPECT_EQ(got.spread, want.spread);
}

template <class T>
void check(Dtype dtype, size_t count, size_t offset, bool special) {
  SCOPED_TRACE(testing::Message() << "type " << static_cast<int>(dtype) << " count " << count
                                  << " offset " << offset << (special ? " special" : ""));
  const Buffers b = buffers<T>(count, offset, special);
  const codec::Difference want = plainly<T>(b, count);
  const codec::Difference garbage{1e300, 1e300, 1e300, ~0ull, ~0ull};
  std::vector<codec::Difference> parts(codec::kDifferenceParts, garbage);
  const codec::Comparison work{b.at(b.value), b.at(b.exact), count, dtype, parts.data()};
  codec::compare(work);
  expect_equal(codec::total(parts.data()), want);
  parts.assign(parts.size(), garbage);
  cpu_compare(work, {.blocks = codec::kDifferenceParts, .threads = kThreads, .seed = count});
  expect_equal(codec::total(parts.data()), want);
}

TEST(Difference, KernelAndHostSeeTheSame) {
  for (const size_t count : {size_t{0}, size_t{1}, size_t{300}, size_t{40'001}})
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

}  // namespace
}  // namespace terse::kernels
