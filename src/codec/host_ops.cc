// The host's block operations. This file is compiled once for each instruction set, with
// TERSE_ISA naming it: plain loops that the compiler vectorises. It calls no inline function of the
// standard library: the linker could keep this file's copy for the whole program.
#include "codec/host_ops.h"

#include "codec/block.h"
#include "codec/float16.h"
#include "codec/pack.h"

namespace terse::codec::TERSE_ISA {
namespace {

template <class T>
void load(const void* in, size_t n, float* out) {
  const char* bytes = static_cast<const char*>(in);
  for (size_t i = 0; i < n; ++i) {
    T x;
    std::memcpy(&x, bytes + i * sizeof(T), sizeof(T));
    out[i] = to_float(x);
  }
}

template <class T>
void store(const float* in, size_t n, void* out) {
  char* bytes = static_cast<char*>(out);
  for (size_t i = 0; i < n; ++i) {
    const T x = from_float<T>(in[i]);
    std::memcpy(bytes + i * sizeof(T), &x, sizeof(T));
  }
}

// Independent lanes, in an array for each member of the statistics, let the reductions vectorise
// without reassociation.
constexpr size_t kLanes = 32;

void stats(const float* in, size_t n, Symmetric::Stats& result) {
  uint32_t peak[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) peak[j] = Symmetric::larger(peak[j], in[i + j]);
  for (size_t j = 0; j < kLanes; ++j) Symmetric::merge(result, {peak[j]});
  for (; i < n; ++i) Symmetric::observe(result, in[i]);
}

void stats(const float* in, size_t n, MinMax::Stats& result) {
  float low[kLanes], high[kLanes];
  uint32_t peak[kLanes] = {};
  for (size_t j = 0; j < kLanes; ++j) {
    low[j] = result.low;
    high[j] = result.high;
  }
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (size_t j = 0; j < kLanes; ++j) {
      const float x = in[i + j];
      low[j] = x < low[j] ? x : low[j];
      high[j] = x > high[j] ? x : high[j];
      peak[j] = Symmetric::larger(peak[j], x);
    }
  for (size_t j = 0; j < kLanes; ++j) MinMax::merge(result, {low[j], high[j], peak[j]});
  for (; i < n; ++i) MinMax::observe(result, in[i]);
}

// The 16-bit numbers of elements first .. first + n, n rounded up to a multiple of 128.
void draw_block(const Draw& draw, uint64_t first, size_t n, uint16_t* random) {
  constexpr size_t kGroups = 16;
  for (size_t i = 0; i < n; i += kGroups * kElementsPerDraw) {
    const uint64_t group = (first + i) / kElementsPerDraw;
    uint32_t words[4][kGroups];
    for (size_t j = 0; j < kGroups; ++j) {
      const PhiloxWords w = draw_group(draw, group + j);
      for (int k = 0; k < 4; ++k) words[k][j] = w.w[k];
    }
    for (size_t j = 0; j < kGroups; ++j)
      for (int k = 0; k < 4; ++k) {
        random[i + j * 8 + 2 * k] = static_cast<uint16_t>(words[k][j]);
        random[i + j * 8 + 2 * k + 1] = static_cast<uint16_t>(words[k][j] >> 16);
      }
  }
}

template <class Family, Rounding rounding>
void quantize(const float* in, size_t n, int bits, const Draw& draw, uint64_t first, uint8_t* codes,
              float* params) {
  float shift = 0;
  if constexpr (rounding == Rounding::kShift)
    shift = uniform(draw_bits(draw_group(draw, first / kElementsPerDraw), first)) - 0.5f;
  typename Family::Stats observed;
  stats(in, n, observed);
  const Params p = Family::params(observed, bits, shift);
  const float wire[2] = {p.first, p.second};
  std::memcpy(params, wire, params_per_block(Family::kWire) * 4);
  if (Family::flat(p) || !is_finite(p.first)) {
    std::memset(codes, 0, n);
    return;
  }
  const Quantizer q = Family::quantizer(p, bits);
  if constexpr (rounding == Rounding::kStochastic) {
    uint16_t random[kMaxBlock];
    draw_block(draw, first, n, random);
    for (size_t i = 0; i < n; ++i)
      codes[i] = static_cast<uint8_t>(code_stochastic(in[i], q, random[i]));
  } else {
    for (size_t i = 0; i < n; ++i) codes[i] = static_cast<uint8_t>(code_nearest(in[i], q));
  }
}

template <class Family, bool accumulate>
void dequantize(const uint8_t* codes, size_t n, int bits, const float* params, float* out) {
  Params p{0, 0};
  float wire[2] = {0, 0};
  std::memcpy(wire, params, params_per_block(Family::kWire) * 4);
  p = {wire[0], wire[1]};
  if (!is_finite(p.first) || !is_finite(p.second)) {
    for (size_t i = 0; i < n; ++i) out[i] = bits_float(kNanBits);
    return;
  }
  const typename Family::Dequantizer d = Family::dequantizer(p, bits);
  for (size_t i = 0; i < n; ++i) {
    const float v = Family::value(codes[i], d);
    out[i] = accumulate ? codec::add(out[i], v) : v;
  }
}

void add(const float* in, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = codec::add(out[i], in[i]);
}

void scale(float factor, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = mul(out[i], factor);
}

uint64_t check(const uint8_t* in, size_t words, size_t first) {
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word;
    std::memcpy(&word, in + 4 * i, 4);
    sum += static_cast<uint64_t>(word ^ 0x9E3779B9u) * (2 * (first + i) + 1);
  }
  return sum;
}

template <class Family>
constexpr auto kNearest = &quantize<Family, Rounding::kNearest>;
template <class Family>
constexpr auto kStochastic = &quantize<Family, Rounding::kStochastic>;
template <class Family>
constexpr auto kShift = &quantize<Family, Rounding::kShift>;

#define TERSE_STRING(x) #x
#define TERSE_NAME(x) TERSE_STRING(x)

}  // namespace

extern const HostOps kOps;
const HostOps kOps = {
    TERSE_NAME(TERSE_ISA),
    {&load<float>, &load<half_t>, &load<bfloat_t>},
    {&store<float>, &store<half_t>, &store<bfloat_t>},
    {{kNearest<Symmetric>, kStochastic<Symmetric>, nullptr},
     {kNearest<MinMax>, kStochastic<MinMax>, kShift<MinMax>}},
    {&dequantize<Symmetric, false>, &dequantize<MinMax, false>},
    {&dequantize<Symmetric, true>, &dequantize<MinMax, true>},
    {nullptr, nullptr, &pack<2>, &pack<3>, &pack<4>, &pack<5>, &pack<6>, &pack<7>, &pack<8>},
    {nullptr, nullptr, &unpack<2>, &unpack<3>, &unpack<4>, &unpack<5>, &unpack<6>, &unpack<7>,
     &unpack<8>},
    &add,
    &scale,
    &check,
};

}  // namespace terse::codec::TERSE_ISA
