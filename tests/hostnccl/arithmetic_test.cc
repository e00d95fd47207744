// The narrow floats, code by code, against a reference that knows only their definition.
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include <cfenv>
#include <cmath>
#include <cstring>
#include <string_view>

#include "reference.h"

namespace hostnccl_test {
namespace {

// Equal values; any NaN equals any other.
void expect_code(ncclDataType_t type, double expected, const char* actual,
                 const std::string& what) {
  char code[8];
  encode(type, expected, code);
  const double want = decode(type, code), got = decode(type, actual);
  if (std::isnan(want)) {
    ASSERT_TRUE(std::isnan(got)) << what << " is " << got;
  } else {
    ASSERT_EQ(want, got) << what;
    ASSERT_EQ(std::signbit(want), std::signbit(got)) << what;
  }
}

class Fp8 : public ::testing::TestWithParam<ncclDataType_t> {};

TEST_P(Fp8, AllPairs) {
  const ncclDataType_t type = GetParam();
  const Clique clique(2);
  std::vector<uint8_t> a(65536), b(65536), sum[2] = {a, a};
  for (size_t i = 0; i < a.size(); ++i) {
    a[i] = static_cast<uint8_t>(i);
    b[i] = static_cast<uint8_t>(i >> 8);
  }
  for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin}) {
    ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
      return ncclAllReduce(r == 0 ? a.data() : b.data(), sum[r].data(), a.size(), type, op, comm,
                           nullptr);
    }));
    for (size_t i = 0; i < a.size(); ++i) {
      const double x = decode(type, &a[i]), y = decode(type, &b[i]);
      const bool nan = std::isnan(x) || std::isnan(y);
      if (!nan && x == y && (op == ncclMax || op == ncclMin)) continue;  // +0 and -0
      const double expected = op == ncclSum    ? x + y
                              : op == ncclProd ? x * y
                              : nan            ? NAN
                              : op == ncclMax  ? std::fmax(x, y)
                                               : std::fmin(x, y);
      expect_code(type, expected, reinterpret_cast<char*>(&sum[0][i]),
                  std::to_string(x) + " op " + std::to_string(op) + " " + std::to_string(y));
      if (HasFatalFailure()) return;
    }
    EXPECT_EQ(sum[0], sum[1]);
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Fp8, ::testing::Values(ncclFloat8e4m3, ncclFloat8e5m2));

class Half : public ::testing::TestWithParam<ncclDataType_t> {};

// One rank multiplies: every code times a factor that rounds, and by factors that over- and
// underflow.
TEST_P(Half, AllCodesScaled) {
  const ncclDataType_t type = GetParam();
  const Clique clique(1);
  std::vector<uint16_t> in(65536), out(65536);
  for (size_t i = 0; i < in.size(); ++i) in[i] = static_cast<uint16_t>(i);
  for (const double factor : {1.0, 1.0 / 3, 1.0009765625, 300.0, 0.0001}) {
    char scalar[8];
    encode(type, factor, scalar);
    const double rounded = decode(type, scalar);
    ncclRedOp_t op;
    ASSERT_NCCL(ncclRedOpCreatePreMulSum(&op, scalar, type, ncclScalarHostImmediate, clique[0]));
    ASSERT_NCCL(ncclAllReduce(in.data(), out.data(), in.size(), type, op, clique[0], nullptr));
    ASSERT_NCCL(ncclRedOpDestroy(op, clique[0]));
    for (size_t i = 0; i < in.size(); ++i) {
      // As in hardware: first to float, then to the type.
      const double product = static_cast<float>(static_cast<float>(decode(type, &in[i])) *
                                                static_cast<float>(rounded));
      expect_code(type, product, reinterpret_cast<char*>(&out[i]),
                  std::to_string(i) + " * " + std::to_string(rounded));
      if (HasFatalFailure()) return;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Half, ::testing::Values(ncclFloat16, ncclBfloat16));

TEST(Arithmetic, NanStaysNan) {
  const Clique clique(3);
  for (const ncclDataType_t type : kAllTypes) {
    if (!is_float(type)) continue;
    for (const ncclRedOp_t op : {ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg}) {
      std::vector<Buffer> data(3, Buffer(type, 3));
      for (size_t r = 0; r < 3; ++r) data[r].fill([&](size_t i) { return i == r ? NAN : 1; });
      ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
        return ncclAllReduce(data[r].data(), data[r].data(), 3, type, op, comm, nullptr);
      }));
      for (const Buffer& buffer : data) {
        for (size_t i = 0; i < 3; ++i) EXPECT_TRUE(std::isnan(buffer[i])) << type << " " << op;
      }
    }
  }
}

TEST(Arithmetic, IntegersWrapAndAveragesTruncate) {
  const Clique clique(2);
  std::vector<int8_t> values[2] = {{127, -128, -3, 3}, {1, -1, -2, 2}};
  std::vector<int8_t> sum[2] = {values[0], values[0]};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(values[r].data(), sum[r].data(), 4, ncclInt8, ncclSum, comm, nullptr);
  }));
  EXPECT_EQ(sum[0], (std::vector<int8_t>{-128, 127, -5, 5}));
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce(values[r].data(), sum[r].data(), 4, ncclInt8, ncclAvg, comm, nullptr);
  }));
  EXPECT_EQ(sum[1], (std::vector<int8_t>{-64, 63, -2, 2}));
}

// In which a thread computes that makes communicators: theirs compute as every rank's do.
class FloatMode : public ::testing::TestWithParam<const char*> {};

void set_mode(std::string_view mode) {
  if (mode == "upward") std::fesetround(FE_UPWARD);
  if (mode == "trapping") feenableexcept(FE_OVERFLOW | FE_UNDERFLOW);
#if defined(__SSE2__)
  constexpr unsigned kFlushes = 0x8040;  // of MXCSR: results, and what is read
  if (mode == "flushing") _mm_setcsr(_mm_getcsr() | kFlushes);
#elif defined(__aarch64__)
  constexpr unsigned kFlushes = 1u << 24;  // of FPCR: results, and what is read
  if (mode == "flushing") __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | kFlushes);
#endif
}

TEST_P(FloatMode, OfTheProgramDoesNotMatter) {
  std::fenv_t before;
  std::fegetenv(&before);
  set_mode(GetParam());
  const Clique clique(2);
  std::fesetenv(&before);
  const float subnormal = 0x1p-140f, large = 3e38f;
  const std::vector<float> in = {subnormal, 1, large}, other = {subnormal, 1e-9f, large};
  std::vector<float> sums[2] = {in, in};
  ASSERT_NCCL(clique.each([&](int r, ncclComm_t comm) {
    return ncclAllReduce((r == 0 ? in : other).data(), sums[r].data(), in.size(), ncclFloat32,
                         ncclSum, comm, nullptr);
  }));
  for (const auto& sum : sums) EXPECT_EQ(sum, (std::vector<float>{0x1p-139f, 1, HUGE_VALF}));
}

INSTANTIATE_TEST_SUITE_P(Modes, FloatMode, ::testing::Values("upward", "flushing", "trapping"));

}  // namespace
}  // namespace hostnccl_test
