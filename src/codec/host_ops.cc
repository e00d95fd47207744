// The host's block operations. This file is compiled once for each instruction set, with
// TERSE_ISA naming it: plain loops that the compiler vectorises. It calls no inline function of the
// standard library: the linker could keep this file's copy for the whole program.
#include "codec/host_ops.h"

#include "codec/block.h"
#include "codec/float16.h"
#include "codec/pack.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Integers of an element's width.
template <class T>
struct IntegerOf {
  using type = int16_t;
};
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <class T>
using Integer = typename IntegerOf<T>::type;

template <class T>
TERSE_INLINE T read(const void* in, size_t i) {
  T x;
  std::memcpy(&x, static_cast<const char*>(in) + i * sizeof(T), sizeof(T));
  return x;
}

template <class T>
TERSE_INLINE void write(void* out, size_t i, T x) {
  std::memcpy(static_cast<char*>(out) + i * sizeof(T), &x, sizeof(T));
}

template <class T, bool accumulate>
void load(const void* in, size_t n, float* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    const float x = to_float(read<T>(in, i));
    out[i] = accumulate ? add(out[i], x) : x;
  }
}

template <class T>
void store(const float* __restrict in, size_t n, void* __restrict out) {
  for (size_t i = 0; i < n; ++i) write(out, i, from_float<T>(in[i]));
}

// The statistics are taken of the elements as integers, which order as the numbers do: the compiler
// vectorises that without leave to reassociate, and does not have to widen.
template <class T>
constexpr Integer<T> kMagnitude = static_cast<Integer<T>>(~(uint64_t{1} << (8 * sizeof(T) - 1)));

template <class T>
TERSE_INLINE float as_float(Integer<T> bits) {
  return to_float(__builtin_bit_cast(T, bits));
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, Symmetric::Stats& result) {
  Integer<T> peak = 0;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> magnitude = read<Integer<T>>(in, i) & kMagnitude<T>;
    peak = magnitude > peak ? magnitude : peak;
  }
  Symmetric::observe(result, as_float<T>(peak));
}

// Negative numbers' magnitude bits inverted: as integers they order as numbers, NaN outermost, so
// that one shows in the lowest or the highest.
template <class T>
TERSE_INLINE Integer<T> ordered(Integer<T> bits) {
  return bits ^ (bits >> (8 * sizeof(T) - 1) & kMagnitude<T>);
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, MinMax::Stats& result) {
  Integer<T> low = kMagnitude<T>, high = ~kMagnitude<T>;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> x = ordered<T>(read<Integer<T>>(in, i));
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  MinMax::observe(result, as_float<T>(ordered<T>(low)));
  MinMax::observe(result, as_float<T>(ordered<T>(high)));
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

template <class T, class Family, Rounding rounding>
TERSE_INLINE void quantize_block(const void* in, size_t n, int bits, const Draw& draw,
                                 uint64_t first, uint8_t* __restrict codes, uint8_t* params) {
  float shift = 0;
  if constexpr (rounding == Rounding::kShift)
    shift = uniform(draw_bits(draw_group(draw, first / kElementsPerDraw), first)) - 0.5f;
  typename Family::Stats observed;
  stats<T>(in, n, observed);
  const Params p = Family::params(observed, bits, shift);
  const float wire[2] = {p.first, p.second};
  std::memcpy(params, wire, params_per_block(Family::kWire) * 4);
  if (Family::flat(p) || !is_finite(p.first)) {
    std::memset(codes, 0, n);
    return;
  }
  const auto q = Family::quantizer(p, bits);
  const Range range = q.range(bits);
  if constexpr (rounding == Rounding::kStochastic) {
    uint16_t random[kMaxBlock];
    draw_block(draw, first, n, random);
    for (size_t i = 0; i < n; ++i)
      codes[i] =
          static_cast<uint8_t>(code_stochastic(to_float(read<T>(in, i)), q, range, random[i]));
  } else if constexpr (rounding == Rounding::kShift) {
    for (size_t i = 0; i < n; ++i)
      codes[i] = static_cast<uint8_t>(code_shifted(to_float(read<T>(in, i)), q, range));
  } else {
    for (size_t i = 0; i < n; ++i)
      codes[i] = static_cast<uint8_t>(code_nearest(to_float(read<T>(in, i)), q));
  }
}

// The elements of the block that begins at i.
TERSE_INLINE size_t block_at(size_t i, size_t n, size_t block) {
  return n - i < block ? n - i : block;
}

template <class T, class Family, Rounding rounding>
void quantize(const void* in, size_t n, size_t block, int bits, const Draw& draw, uint64_t first,
              uint8_t* codes, uint8_t* params) {
  for (size_t i = 0; i < n; i += block, params += params_per_block(Family::kWire) * 4) {
    const char* x = static_cast<const char*>(in) + i * sizeof(T);
    const size_t length = block_at(i, n, block);
    quantize_block<T, Family, rounding>(x, length, bits, draw, first + i, codes + i, params);
  }
}

template <class T, class Family, bool accumulate>
TERSE_INLINE void dequantize_block(const uint8_t* __restrict codes, size_t n, int bits,
                                   const uint8_t* params, float factor, void* __restrict out) {
  float wire[2] = {0, 0};
  std::memcpy(wire, params, params_per_block(Family::kWire) * 4);
  const Params p = scaled({wire[0], wire[1]}, factor);
  if (!is_finite(p.first) || !is_finite(p.second)) {
    for (size_t i = 0; i < n; ++i) write(out, i, from_float<T>(bits_float(kNanBits)));
    return;
  }
  const typename Family::Dequantizer d = Family::dequantizer(p, bits);  // finite: gives no NaN
  for (size_t i = 0; i < n; ++i) {
    const float v = Family::value(codes[i], d, bits);
    if constexpr (accumulate) {
      write(out, i, add(read<T>(out, i), v));
    } else {
      write(out, i, from_number<T>(v));
    }
  }
}

template <class T, class Family, bool accumulate>
void dequantize(const uint8_t* codes, size_t n, size_t block, int bits, const uint8_t* params,
                float factor, void* out) {
  for (size_t i = 0; i < n; i += block, params += params_per_block(Family::kWire) * 4)
    dequantize_block<T, Family, accumulate>(codes + i, block_at(i, n, block), bits, params, factor,
                                            static_cast<char*>(out) + i * sizeof(T));
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

#define TERSE_STRING(x) #x
#define TERSE_NAME(x) TERSE_STRING(x)

template <class T, class Family>
constexpr auto kNearest = &quantize<T, Family, Rounding::kNearest>;
template <class T, class Family>
constexpr auto kStochastic = &quantize<T, Family, Rounding::kStochastic>;
template <class T, class Family>
constexpr auto kShift = &quantize<T, Family, Rounding::kShift>;

}  // namespace

extern const HostOps kOps;
const HostOps kOps = {
    TERSE_NAME(TERSE_ISA),
    {&load<float, false>, &load<half_t, false>, &load<bfloat_t, false>},
    {&load<float, true>, &load<half_t, true>, &load<bfloat_t, true>},
    {&store<float>, &store<half_t>, &store<bfloat_t>},
    {{{kNearest<float, Symmetric>, kStochastic<float, Symmetric>, nullptr},
      {kNearest<float, MinMax>, kStochastic<float, MinMax>, kShift<float, MinMax>}},
     {{kNearest<half_t, Symmetric>, kStochastic<half_t, Symmetric>, nullptr},
      {kNearest<half_t, MinMax>, kStochastic<half_t, MinMax>, kShift<half_t, MinMax>}},
     {{kNearest<bfloat_t, Symmetric>, kStochastic<bfloat_t, Symmetric>, nullptr},
      {kNearest<bfloat_t, MinMax>, kStochastic<bfloat_t, MinMax>, kShift<bfloat_t, MinMax>}}},
    {{&dequantize<float, Symmetric, false>, &dequantize<float, MinMax, false>},
     {&dequantize<half_t, Symmetric, false>, &dequantize<half_t, MinMax, false>},
     {&dequantize<bfloat_t, Symmetric, false>, &dequantize<bfloat_t, MinMax, false>}},
    {&dequantize<float, Symmetric, true>, &dequantize<float, MinMax, true>},
    {nullptr, nullptr, &pack<2>, &pack<3>, &pack<4>, &pack<5>, &pack<6>, &pack<7>, &pack<8>},
    {nullptr, nullptr, &unpack<2>, &unpack<3>, &unpack<4>, &unpack<5>, &unpack<6>, &unpack<7>,
     &unpack<8>},
    &scale,
    &check,
};

}  // namespace terse::codec::TERSE_ISA
