// A part of host_ops.cc: codecs whose levels are in a table.
#pragma once

#include "codec/host/blocks.h"
#include "codec/host/coders.h"
#include "codec/host/lut.h"
#include "codec/host/lut_decode.h"
#include "codec/host/random.h"
#include "codec/host/statistics.h"

namespace terse::codec::TERSE_ISA {
namespace {

// First the levels of all elements: where there may be more codes than elements.
template <class T, class Codec, bool accumulate, int bits>
TERSE_INLINE void decode_by_levels(const uint8_t* codes, size_t n, const float* levels,
                                   const typename Codec::Dequantizer& d, void* __restrict out) {
  constexpr bool kPasses = accumulate || sizeof(T) != sizeof(float);  // by way of x
  float x[kMaxBlock];
  char* const values = kPasses ? reinterpret_cast<char*>(x) : static_cast<char*>(out);
  size_t i = look_up<size_t{1} << bits>(levels, codes, n, [&](size_t at, auto level) {
    const auto value = Codec::value(level, d);
    std::memcpy(values + at * sizeof(float), &value, sizeof value);
  });
  for (; i < n; ++i) write(values, i, Codec::value(levels[codes[i]], d));
  if constexpr (accumulate) {
    for (i = 0; i < n; ++i) write(out, i, add(read<T>(out, i), x[i]));
  } else if constexpr (kPasses) {
    from_floats<T>(x, n, out);
  }
}

// Decodes by the values of all codes, if these are few, or if there are enough elements for it to
// pay.
template <class T, class Codec, bool accumulate, int bits>
TERSE_INLINE void decode_learned(const uint8_t* codes, size_t n, const float* levels,
                                 const typename Codec::Dequantizer& d, void* out) {
  constexpr size_t kCodes = size_t{1} << bits;
  using OfCodes = Values<T, accumulate, kCodes>;
  if (kCodes > kMaxAsNumbers && n < 2 * kCodes)
    return decode_by_levels<T, Codec, accumulate, bits>(codes, n, levels, d, out);
  alignas(64) float values[kCodes];
  alignas(64) typename OfCodes::Entry table[kCodes];
  for_each_code<kCodes>([&](size_t k) { values[k] = Codec::value(levels[k], d); });
  OfCodes::look_up(OfCodes::entries(values, kCodes, table), codes, n, out);
}

// Values of symmetric codes.
template <int bits>
struct Integers {
  float of[1 << bits];

  constexpr Integers() : of() {
    constexpr int kCodes = 1 << bits;
    for (int i = 0; i < kCodes; ++i) of[i] = static_cast<float>(i < kCodes / 2 ? i : i - kCodes);
  }
};

template <class T, class Codec, bool accumulate, int bits>
void dequantize_by_table(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                         float factor, void* out, const float* codebook) {
  static constexpr Integers<bits> kIntegers;
  const Form form = known_form<Codec>(spec, Rounding::kNearest);
  const size_t stride = params_stride<Codec>(spec);
  for (size_t i = 0; i < n; i += spec.block, params += stride) {
    const size_t length = block_at(i, n, spec.block);
    char* const at = static_cast<char*>(out) + i * sizeof(T);
    const Params p = scaled(load_params<Codec>(params, form.scale), factor);
    if (is_finite(p.first) && is_finite(p.second)) {
      const float* const levels = MinMax::symmetric(p.first) ? kIntegers.of : codebook;
      decode_learned<T, Codec, accumulate, bits>(codes + i, length, levels,
                                                 Codec::dequantizer(p, form), at);
    } else {
      for (size_t k = 0; k < length; ++k) write(at, k, from_float<T>(bits_float(kNanBits)));
    }
  }
}

template <class T, class Codec, Rounding rounding, int bits>
void quantize_by_table(const void* in, size_t n, const Spec& spec, const Draw& draw, uint64_t first,
                       uint8_t* codes, uint8_t* params, const float* codebook) {
  constexpr uint32_t kCodes = 1u << bits;
  constexpr bool kDraws = rounding == Rounding::kStochastic;
  const float* const numbers = kDraws ? codebook : codebook + kCodes;  // or the middles
  const Search<kCodes> search(numbers);
  const Form form = known_form<Codec>(spec, rounding);
  const size_t stride = params_stride<Codec>(spec);
  const size_t at_once = kMaxBlock / spec.block * spec.block;
  uint16_t random[kMaxBlock];
  float v[kMaxBlock], level[kMaxBlock], inverse[kMaxBlock];
  for (size_t i = 0; i < n; i += spec.block, params += stride) {
    const size_t length = block_at(i, n, spec.block);
    const char* const x = static_cast<const char*>(in) + i * sizeof(T);
    uint8_t* const out = codes + i;
    if (kDraws && i % at_once == 0) draw_elements(draw, first + i, block_at(i, n, at_once), random);
    typename Codec::Stats observed;
    stats<T>(x, length, observed);
    const Params p = Codec::params(observed, form, 0);
    store_params<Codec>(p, form.scale, params);
    if (Codec::flat(p) || !is_finite(p.first)) {
      std::memset(out, 0, length);
      continue;
    }
    const auto quantizer = Codec::quantizer(p, form);
    if (MinMax::symmetric(p.first)) {
      const auto coder = MinMax::coder<rounding>(quantizer, form);
      encode<T, MinMax, rounding>(
          x, length, [&](size_t) { return coder; }, random + i % at_once, out);
      continue;
    }
    for (size_t k = 0; k < length; ++k) v[k] = quantizer.scaled(to_float(read<T>(x, k)));
    for (size_t k = search.find(v, length, out); k < length; ++k)
      out[k] = static_cast<uint8_t>(count_not_above(v[k], numbers, kCodes));
    if constexpr (kDraws) {
      const float* const inverses = codebook + 2 * kCodes;
      size_t k = look_up_registers<kCodes, int32_t>(codebook, out, length, level);
      look_up_registers<kCodes, int32_t>(inverses, out, length, inverse);
      for (; k < length; ++k) level[k] = codebook[out[k]], inverse[k] = inverses[out[k]];
      const uint16_t* const drawn = random + i % at_once;
      for (k = 0; k < length; ++k)
        out[k] = static_cast<uint8_t>(out[k] +
                                      (Codec::rises(v[k], level[k], inverse[k], drawn[k]) ? 1 : 0));
    }
  }
}

// Dispatches by bits.
template <class T, class Codec, bool accumulate>
constexpr decltype(CodecOps::dequantize_add) kDequantizeByTable[] = {
    nullptr,
    nullptr,
    &dequantize_by_table<T, Codec, accumulate, 2>,
    &dequantize_by_table<T, Codec, accumulate, 3>,
    &dequantize_by_table<T, Codec, accumulate, 4>,
    &dequantize_by_table<T, Codec, accumulate, 5>,
    &dequantize_by_table<T, Codec, accumulate, 6>,
    &dequantize_by_table<T, Codec, accumulate, 7>,
    &dequantize_by_table<T, Codec, accumulate, 8>};

template <class T, class Codec, Rounding rounding>
constexpr std::remove_reference_t<decltype(CodecOps::quantize[0][0][0])> kQuantizeByTable[] = {
    nullptr,
    nullptr,
    &quantize_by_table<T, Codec, rounding, 2>,
    &quantize_by_table<T, Codec, rounding, 3>,
    &quantize_by_table<T, Codec, rounding, 4>,
    &quantize_by_table<T, Codec, rounding, 5>,
    &quantize_by_table<T, Codec, rounding, 6>,
    &quantize_by_table<T, Codec, rounding, 7>,
    &quantize_by_table<T, Codec, rounding, 8>};

}  // namespace
}  // namespace terse::codec::TERSE_ISA
