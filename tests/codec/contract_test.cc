// What every scheme promises of its values: FORMAT.md, section 4.
#include <gtest/gtest.h>

#include <bit>
#include <cfloat>
#include <limits>
#include <span>

#include "support.h"

namespace terse::codec {
namespace {

template <class Body>
void for_every_scheme(Body body) {
  for (const Spec& spec : every_spec(64)) {
    SCOPED_TRACE(describe(spec));
    body(spec);
  }
}

// What integers promise beyond the others, without a transform.
template <class Body>
void for_every_integer_scheme(Body body) {
  for (Kind kind : kIntegerKinds)
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
      const Spec spec = make_spec(kind, bits, 64);
      SCOPED_TRACE(describe(spec));
      body(spec);
    }
}

bool is_cast(const Spec& s) { return descriptor(s.codec).params == 0; }

// How far off an element may be, as a share of its block's absmax: a step, or where the absmax is
// not exact, that.
double coarsest(const Spec& s) {
  const std::string_view name = descriptor(s.codec).name;
  if (name == "bf16") return 0x1p-7;
  if (name == "fp16") return 0x1p-10;
  if (name == "fp8e5m2") return 1.0 / 7;
  if (name == "fp8e4m3" || name == "mxfp8" || name == "mxfp6") return 1.0 / 8;
  if (name == "mxfp4" || name == "nvfp4") return 1.0 / 3;
  if (name == "exp8") return 1.0 / 2 + 0x1p-8;
  // Of what lies beyond the codes, and of the side that has a code less.
  if (s.codec == kFitted) return 2.5 / ((1 << (s.bits - 1)) + 1.5) + 0x1p-7;
  const double steps = (1 << (s.bits - 1)) - 1;  // of wide blocks' grid, on one side
  return s.scale == Number::kBf16 ? (1 + 0x1p-7) / steps + 0x1p-8 : 1 / steps;
}

TEST(Contract, NonFiniteBlocksAreNanInEveryType) {
  for_every_scheme([](const Spec& spec) {
    if (is_cast(spec)) return;
    for (float bad : {std::numeric_limits<float>::quiet_NaN(), INFINITY, -INFINITY}) {
      Floats x = gaussian(200, 41);
      const size_t at = 64 + 17, first = at / spec.block * spec.block;
      x[at] = bad;
      const Bytes body = encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x));
      const Bytes nans[] = {{0, 0, 0xc0, 0x7f}, {0, 0x7e}, {0xc0, 0x7f}};
      for (Dtype dtype : kAllDtypes) {
        const Bytes memory = decode(spec, body, x.size(), dtype);
        const size_t size = dtype_size(dtype);
        for (size_t i = 0; i < x.size(); ++i) {
          const Bytes value(memory.begin() + i * size, memory.begin() + (i + 1) * size);
          ASSERT_EQ(value == nans[static_cast<int>(dtype)], i >= first && i < first + spec.block)
              << name_of(dtype) << " element " << i << " of a block with " << bad;
        }
      }
    }
  });
}

// Casts keep each element's own infinity or NaN, and nobody else's.
TEST(Contract, CastsKeepWhatIsNotFinite) {
  for_every_scheme([](const Spec& spec) {
    if (!is_cast(spec)) return;
    Floats x = gaussian(200, 48);
    x[3] = INFINITY, x[70] = -INFINITY, x[71] = std::bit_cast<float>(0xff812345),
    x[199] = -INFINITY;
    const Floats got = round_trip(spec, {.seed = 7}, x);
    for (size_t i = 0; i < x.size(); ++i) {
      if (std::isfinite(x[i]))
        ASSERT_LE(std::fabs(got[i] - x[i]), coarsest(spec) * std::fabs(x[i])) << i;
      else if (i == 71)
        ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), 0x7fc00000u);
      else
        ASSERT_EQ(got[i], x[i]) << i;
    }
  });
}

TEST(Contract, NanSurvivesEverySum) {
  for_every_scheme([](const Spec& spec) {
    Floats x = gaussian(64, 42);
    const Bytes good = encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x));
    x[5] = NAN;
    const Bytes bad = encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x));
    const Source sources[] = {{good.data(), spec}, {bad.data(), spec}, {good.data(), spec}};
    Bytes total(good.size());
    combine({.sources = sources, .target = {total.data(), spec}, .total = 64, .count = 64});
    const Floats got = oracle::decode(spec, total, 64);
    for (size_t i = 0; i < 64; ++i)
      ASSERT_EQ(std::isnan(got[i]), is_cast(spec) ? i == 5 : i < spec.block) << i;
  });
}

// Whatever is finite decodes to what is finite, and to within a step, also at the ends of fp32. Not
// casts, which overflow as the types do; nor sums of a transform, from 2^120 on.
TEST(Contract, BlocksAtTheEndsOfFp32) {
  for_every_scheme([](const Spec& spec) {
    if (is_cast(spec)) return;
    Random random(40);
    const double bound = coarsest(spec) * (spec.hadamard != 0 ? 32 : 1);
    for (const float end : {FLT_MAX, 0x1.8p127f, 0x1p127f, 0x1p126f, 0x1.fp125f})
      for (const float low : {-1.0f, 0.0f, 0.75f, 0.999f})
        for (const float sign : {1.0f, -1.0f}) {
          const float absmax = spec.hadamard != 0 ? end * 0x1p-8f : end;
          Floats x(64);
          for (float& value : x)
            value = sign * absmax * (low + (1 - low) * static_cast<float>(random.uniform()));
          x[5] = sign * absmax;
          x[6] = sign * absmax * low;
          const Floats got = round_trip(spec, {.seed = random.next()}, x);
          for (size_t i = 0; i < x.size(); ++i)
            ASSERT_LE(std::fabs(double{got[i]} - x[i]), absmax * bound * (1 + 1e-5))
                << i << " of " << absmax << " from " << low;
        }
  });
}

Floats mean_of(std::span<const Source> sources, size_t count) {
  Floats mean(count);
  combine({.sources = sources,
           .target = {mean.data(), Dtype::kFloat32},
           .factor = 1.0f / static_cast<float>(sources.size()),
           .total = count,
           .count = count});
  return mean;
}

// As NCCL's: what is averaged is divided before it is summed.
TEST(Contract, MeansOfFiniteBlocksAreFinite) {
  for_every_scheme([](const Spec& spec) {
    if (descriptor(spec.codec).name == "fp16" || spec.hadamard != 0) return;
    for (const float x : {1.5e38f, -1.5e38f, 0x1p126f}) {
      Floats block(64, x);
      block[9] = x / 2;
      const Bytes body =
          encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, block));
      const Bytes memory = oracle::to_memory(Dtype::kFloat32, block);
      const Source sources[] = {{body.data(), spec},
                                {memory.data(), Dtype::kFloat32},
                                {body.data(), spec},
                                {body.data(), spec}};
      const Floats mean = mean_of(sources, 64);
      const double step = std::fabs(x) * coarsest(spec) * (1 + 1e-6);
      for (size_t i = 0; i < 64; ++i) ASSERT_LE(std::fabs(double{mean[i]} - block[i]), step) << i;
    }
  });
}

// The smallest number there is, a block's lowest, has no half: it must not become a mark of -0.
TEST(Contract, MeansOfBlocksFromNextToNothingAreRight) {
  for_every_integer_scheme([](const Spec& spec) {
    Floats block(64);
    for (size_t i = 0; i < 64; ++i) block[i] = static_cast<float>(i) / 63;
    block[0] = -0x1p-149f;
    const Bytes body = encode(spec, {}, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, block));
    const Source sources[] = {{body.data(), spec}, {body.data(), spec}};
    const Floats mean = mean_of(sources, 64);
    const double step = coarsest(spec) * (1 + 1e-6);
    for (size_t i = 0; i < 64; ++i) ASSERT_LE(std::fabs(double{mean[i]} - block[i]), step) << i;
  });
}

TEST(Contract, ConstantsAreExact) {
  for_every_integer_scheme([](const Spec& spec) {
    Random random(43);
    for (int repeat = 0; repeat < 300; ++repeat) {
      const float magnitude = std::fabs(numbers(Kin::kWide, 1, random)[0]);
      if (magnitude < 0x1p-118f) continue;
      const float c = repeat % 2 ? magnitude : -magnitude;
      const Stream stream{.seed = random.next()};
      ASSERT_EQ(round_trip(spec, stream, Floats(64, c)), Floats(64, c)) << c;
    }
  });
}

// q / absmax rounds down for this absmax, and element 1466 draws the largest number: the sum must
// not reach the next code.
TEST(Contract, TheAbsmaxIsExactWhateverIsDrawn) {
  const Spec spec = make_spec({kSymmetric, Rounding::kStochastic}, 8, 4096);
  const Stream stream{.sequence = 44};
  ASSERT_EQ(oracle::random16(stream, 1466), 65535u);
  for (float c : {-0x1.002efap+0f, 0x1.002efap+0f})
    EXPECT_EQ(round_trip(spec, stream, Floats(4096, c)), Floats(4096, c));
}

TEST(Contract, ConstantMagnitudesAreExact) {
  for_every_integer_scheme([](const Spec& spec) {
    if (spec.codec != kSymmetric) return;
    Random random(44);
    Floats x(640);
    for (float& value : x) value = random.below(2) ? 0.7f : -0.7f;
    EXPECT_EQ(round_trip(spec, {}, x), x);
  });
}

// Blocks of both signs, of each, wide ones, and a short one: a fifth of all elements is a zero of
// one sign, a fifth of the other.
Floats with_zeros(float widest) {
  Floats x = gaussian(5 * 64 + 17, 45);
  for (size_t i = 64; i < 128; ++i) x[i] = std::fabs(x[i]);
  for (size_t i = 128; i < 192; ++i) x[i] = -std::fabs(x[i]);
  for (size_t i = 192; i < 256; ++i) x[i] *= widest;
  for (size_t i = 0; i < x.size(); i += 5) x[i] = 0.0f, x[i + 1] = -0.0f;
  return x;
}

// An element that is zero on all ranks is zero in their mean: so Adam does not move it.
TEST(Contract, ZerosStayZeros) {
  for_every_scheme([](const Spec& spec) {
    if (spec.hadamard != 0) return;  // it makes one number of 32 elements
    for (const Dtype dtype : kAllDtypes) {
      const Floats x = with_zeros(dtype == Dtype::kFloat16 ? 1 : 0x1p125f);
      const Bytes memory = oracle::to_memory(dtype, x);
      for (const size_t ranks : {1, 3, 5}) {
        std::vector<Bytes> bodies(ranks);
        std::vector<Source> sources;
        for (size_t i = 0; i < ranks; ++i)
          bodies[i] = encode(spec, {.seed = i, .rank = 2}, dtype, memory);
        for (const Bytes& body : bodies) sources.push_back({body.data(), spec});
        sources.push_back({memory.data(), dtype});
        Bytes mean(body_size(spec, x.size()));
        combine({.sources = sources,
                 .target = {mean.data(), spec, draw_of({.seed = 9})},
                 .factor = 1.0f / static_cast<float>(ranks + 1),
                 .total = x.size(),
                 .count = x.size()});
        const Floats got = oracle::from_memory(dtype, decode(spec, mean, x.size(), dtype));
        for (size_t i = 0; i < x.size(); ++i) {
          if (x[i] != 0) continue;
          ASSERT_EQ(got[i], 0.0f) << name_of(dtype) << " element " << i << " of " << ranks;
          ASSERT_FALSE(descriptor(spec.codec).name == "int" && std::signbit(got[i])) << i;
        }
      }
    }
  });
}

// From the block's end that is nearer to zero to the other one: squares stay squares.
TEST(Contract, ShiftLeavesNoBlockOfOneSign) {
  Random random(49);
  for (int bits = kMinBits; bits <= kMaxBits; ++bits)
    for (const Dtype dtype : kAllDtypes)
      for (const float near : {0.0f, 0x1p-14f, 0.3f, 0.998f})
        for (const float far : {1.0f, -1.0f, 0x1p-9f, -777.0f})
          for (const float factor : {1.0f, 1.0f / 3}) {
            const Spec spec = make_spec({kMinMax, Rounding::kShift}, bits, 64);
            Floats x(64 * 40 + 17);
            for (float& value : x)
              value = far * (near + (1 - near) * static_cast<float>(random.uniform()));
            const Bytes memory = oracle::to_memory(dtype, x);
            x = oracle::from_memory(dtype, memory);
            const Bytes body = encode(spec, {.seed = random.next()}, dtype, memory);
            Bytes decoded(memory.size());
            const Source source{body.data(), spec};
            combine({.sources = {&source, 1},
                     .target = {decoded.data(), dtype},
                     .factor = factor,
                     .total = x.size(),
                     .count = x.size()});
            const Floats got = oracle::from_memory(dtype, decoded);
            SCOPED_TRACE(describe(spec) + " " + name_of(dtype));
            for (size_t i = 0; i < x.size(); ++i) {
              const auto begin = x.begin() + i / 64 * 64;
              const auto end = x.end() - begin < 64 ? x.end() : begin + 64;
              const auto [least, most] = std::minmax_element(
                  begin, end, [](float a, float b) { return std::fabs(a) < std::fabs(b); });
              const float sign = std::copysign(1.0f, far), value = sign * got[i];
              const auto rounded = [&](float bound) {
                return sign * oracle::from_memory(dtype, oracle::to_memory(dtype, {bound}))[0];
              };
              ASSERT_GE(value, rounded(*least * factor)) << i << " from " << near << " to " << far;
              ASSERT_LE(value, rounded(*most * factor * (1 + 0x1p-21f))) << i;
            }
          }
}

TEST(Contract, BlocksOfZerosAndSubnormalsAreZeros) {
  for_every_scheme([](const Spec& spec) {
    if (is_cast(spec)) return;
    for (float c : {0.0f, -0.0f, FLT_MIN / 2, -FLT_TRUE_MIN, std::nextafter(0x1p-118f, 0.0f)}) {
      Floats x(64, 0.0f);
      x[3] = c;
      for (const Floats& block : {x, Floats(64, c)}) {
        for (float value : round_trip(spec, {}, block))
          ASSERT_EQ(std::bit_cast<uint32_t>(value), 0u) << c;
      }
    }
  });
}

// Half a step for nearest and a grid that is shifted, a step for others, and two roundings.
TEST(Contract, ErrorsAreBounded) {
  for_every_integer_scheme([](const Spec& spec) {
    Random random(46);
    for (Kin kin : {Kin::kGaussian, Kin::kUniform, Kin::kSparse}) {
      const Floats x = numbers(kin, 64 * 50, random);
      const Floats got = round_trip(spec, {.seed = random.next()}, x);
      for (size_t first = 0; first < x.size(); first += 64) {
        double min = 0, max = 0, absmax = 0;
        bool zero = false;
        for (size_t i = first; i < first + 64; ++i) {
          min = i == first ? x[i] : std::min<double>(min, x[i]);
          max = i == first ? x[i] : std::max<double>(max, x[i]);
          absmax = std::max<double>(absmax, std::fabs(x[i]));
          zero = zero || x[i] == 0;
        }
        const bool both = min < 0 && max > 0;
        const bool symmetric = spec.codec == kSymmetric || (both && zero);
        const double range = symmetric ? 2 * absmax : max - min;
        const double step = range / ((1 << spec.bits) - (symmetric ? 2 : 1));
        const bool halves = spec.rounding == Rounding::kNearest ||
                            (spec.rounding == Rounding::kShift && both && !zero);
        const double bound = halves ? step / 2 : step;
        for (size_t i = first; i < first + 64; ++i)
          ASSERT_LE(std::fabs(double{got[i]} - x[i]), bound + 4 * absmax * 0x1p-24)
              << "element " << i;
      }
    }
  });
}

// What is decoded lies on the grid: another encoding (nearest) gives the same codes.
TEST(Contract, EncodingAgainChangesNothing) {
  for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
    const Spec spec = make_spec({kSymmetric, Rounding::kNearest}, bits, 128);
    const Floats once = round_trip(spec, {}, gaussian(4096, 47));
    EXPECT_EQ(round_trip(spec, {}, once), once) << describe(spec);
  }
}

TEST(Contract, TooLargeForTheTypeIsInfinity) {
  const Spec spec = make_spec({kSymmetric, Rounding::kNearest}, 8, 64);
  const Bytes body = oracle::encode(spec, {}, Floats{1e6f, -1e6f, 0});
  EXPECT_EQ(decode(spec, body, 3, Dtype::kFloat16), (Bytes{0, 0x7c, 0, 0xfc, 0, 0}));
}

}  // namespace
}  // namespace terse::codec
