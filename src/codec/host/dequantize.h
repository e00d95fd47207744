// A part of host_ops.cc: codes and parameters to elements.
#pragma once

#include <type_traits>

#include "codec/host/blocks.h"
#include "codec/host/decoders.h"
#include "codec/host/elements.h"
#include "codec/host/lut_decode.h"
#include "codec/host/lut_encode.h"

namespace terse::codec::TERSE_ISA {
namespace {

// `dequantizer(i)`: that of element i. `nans`: whether values may be NaN.
template <class T, class Codec, bool accumulate, bool nans, class Dequantizer>
TERSE_INLINE void decode(const uint8_t* __restrict codes, size_t n, const Form& form,
                         const Dequantizer& dequantizer, void* __restrict out) {
  if constexpr (kDecodesByRegisters<T, Codec>)
    return decode_by_registers<T, Codec, accumulate, nans>(codes, n, form, dequantizer, out);
  for (size_t i = 0; i < n; ++i) {
    const float v = Codec::value(read<Code<Codec>>(codes, i), dequantizer(i), form);
    if constexpr (accumulate)
      write(out, i, add(read<T>(out, i), v));
    else if constexpr (nans)
      write(out, i, from_float<T>(v));
    else
      write(out, i, from_number<T>(v));
  }
}

// Codes of groups of elements, each by its dequantizer.
template <class T, class Codec, bool accumulate, bool nans>
TERSE_INLINE void decode_groups(const uint8_t* __restrict codes, size_t n, const Form& form,
                                const typename Codec::Dequantizer* dequantizers,
                                void* __restrict out) {
  if constexpr (kDecodesByRegisters<T, Codec>)
    return decode<T, Codec, accumulate, nans>(
        codes, n, form, [&](size_t i) { return dequantizers[i / kGroup<Codec>]; }, out);
  spread<Codec>(dequantizers, n, [&](size_t first, size_t some, const auto* of_element) {
    decode<T, Codec, accumulate, nans>(
        codes + first, some, form, [&](size_t i) { return of_element[i]; },
        static_cast<char*>(out) + first * sizeof(T));
  });
}

// All of blocks that are small. Where a scale is not finite it is NaN here, and so are all values:
// the canonical one, as which all but fp16 takes it.
template <class T, class Codec, bool accumulate>
TERSE_INLINE void dequantize_small_blocks(const uint8_t* codes, size_t n, const Form& form,
                                          const uint8_t* params, float factor, void* out) {
  typename Codec::Dequantizer dequantizers[kMaxGroups<Codec>];
  for (size_t i = 0; i < groups_of<Codec>(n); ++i) {
    const uint8_t* const own = params + i * params_bytes<Codec>(form.scale);
    const float scale = scaled(load_params<Codec>(own, form.scale), factor).first;
    dequantizers[i] =
        Codec::dequantizer({is_finite(scale) ? scale : bits_float(kNanBits), 0}, form);
  }
  constexpr bool kNans = Codec::kNanCodes || std::is_same_v<T, half_t>;
  decode_groups<T, Codec, accumulate, kNans>(codes, n, form, dequantizers, out);
}

template <class T, class Codec, bool accumulate>
TERSE_INLINE void dequantize_block(const uint8_t* __restrict codes, size_t n, const Form& form,
                                   const uint8_t* params, float factor, void* __restrict out) {
  const Params p = scaled(load_params<Codec>(params, form.scale), factor);
  if (!is_finite(p.first) || !is_finite(p.second)) {
    for (size_t i = 0; i < n; ++i) write(out, i, from_float<T>(bits_float(kNanBits)));
    return;
  }
  if constexpr (HasFinerScales<Codec>) {
    const uint8_t* const fine = params + params_bytes<Codec>(form.scale);
    typename Codec::Dequantizer dequantizers[kMaxGroups<Codec>];
    for (size_t i = 0; i < groups_of<Codec>(n); ++i)
      dequantizers[i] = Codec::dequantizer(p, fine[i], form);
    decode_groups<T, Codec, accumulate, Codec::kNanCodes>(codes, n, form, dequantizers, out);
  } else {
    const auto d = Codec::dequantizer(p, form);
    decode<T, Codec, accumulate, Codec::kNanCodes>(
        codes, n, form, [&](size_t) { return d; }, out);
  }
}

// Max bits of codes that are decoded by a table of all values; codes of fewer bits do not use all
// of them.
constexpr int kFewBits = 4;
constexpr size_t kFewCodes = size_t{1} << kFewBits;

// True if it pays to compute all values first, which are fewer than a block's elements: if a
// register holds them all, or if twice as many halves are looked up at a time.
template <class T, class Codec, bool accumulate>
constexpr bool kByValues =
    Codec::kDescriptor.params > 0 && Codec::kDescriptor.min_bits <= kFewBits &&
    !HasFinerScales<Codec> && (kRegister >= kFewCodes || Values<T, accumulate, kFewCodes>::kHalves);

// Decodes many blocks at a time, so that values are computed before they are looked up.
template <class T, class Codec, bool accumulate>
void dequantize_by_values(const uint8_t* codes, size_t n, const Form& form, size_t block,
                          const uint8_t* params, float factor, void* out) {
  using OfCodes = Values<T, accumulate, kFewCodes>;
  constexpr size_t kBlocks = 32;
  const size_t stride = params_bytes<Codec>(form.scale);
  alignas(64) float values[kBlocks * kFewCodes];
  alignas(64) typename OfCodes::Entry tables[kBlocks * kFewCodes];
  for (size_t begin = 0; begin < n; begin += kBlocks * block) {
    const size_t some = block_at(begin, n, kBlocks * block);
    size_t known = 0;
    for (size_t at = 0; at < some; at += block, known += kFewCodes, params += stride) {
      const Params p = scaled(load_params<Codec>(params, form.scale), factor);
      const bool sound = is_finite(p.first) && is_finite(p.second);
      const auto d = Codec::dequantizer(p, form);
      for_each_code<kFewCodes>([&](size_t k) {
        const float v = Codec::value(static_cast<uint32_t>(k), d, form);
        values[known + k] = sound ? v : bits_float(kNanBits);
      });
    }
    const auto* table = OfCodes::entries(values, known, tables);
    for (size_t at = 0; at < some; at += block, table += kFewCodes)
      OfCodes::look_up(table, codes + begin + at, block_at(at, some, block),
                       static_cast<char*>(out) + (begin + at) * sizeof(T));
  }
}

template <class T, class Codec, bool accumulate>
void dequantize_blocks(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                       float factor, void* out) {
  const Form form = known_form<Codec>(spec, Rounding::kNearest);
  const size_t block = block_of<Codec>(spec), stride = params_stride<Codec>(spec);
  if constexpr (kByValues<T, Codec, accumulate>)
    if (form.bits <= kFewBits)
      return dequantize_by_values<T, Codec, accumulate>(codes, n, form, block, params, factor, out);
  constexpr size_t kSmall = kSmallBlock<Codec>;
  constexpr size_t kBlocks = kSmall != 0 ? kMaxBlock / kSmall : 1;
  const size_t at_once = kBlocks * block;
  for (size_t i = 0; i < n; i += at_once, params += kBlocks * stride) {
    const size_t length = block_at(i, n, at_once);
    const uint8_t* const from = codes + i * sizeof(Code<Codec>);
    char* const to = static_cast<char*>(out) + i * sizeof(T);
    if constexpr (kSmall != 0)
      dequantize_small_blocks<T, Codec, accumulate>(from, length, form, params, factor, to);
    else
      dequantize_block<T, Codec, accumulate>(from, length, form, params, factor, to);
  }
}

template <class T, class Codec, bool accumulate>
void dequantize(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                float factor, void* out, const float* codebook) {
  if constexpr (kIsConversion<T, Codec>) {
    float x[kFloats];
    for (size_t i = 0; i < n; i += kFloats) {
      const size_t some = block_at(i, n, kFloats);
      to_floats<typename Codec::Element>(codes + i * sizeof(Code<Codec>), some, x);
      for (size_t k = 0; k < some; ++k) {
        const float v = mul(x[k], factor);
        write(out, i + k, accumulate ? add(read<T>(out, i + k), v) : from_float<T>(v));
      }
    }
  } else if constexpr (HasCodebook<Codec>) {
    kDequantizeByTable<T, Codec, accumulate>[spec.bits](codes, n, spec, params, factor, out,
                                                        codebook);
  } else if constexpr (kConvertsHalves<T>) {
    if (kByValues<T, Codec, accumulate> && spec.bits <= kFewBits)
      return dequantize_blocks<T, Codec, accumulate>(codes, n, spec, params, factor, out);
    const size_t at_once = kFloats / spec.block * spec.block;
    float x[kFloats];
    for (size_t i = 0; i < n; i += at_once) {
      const size_t some = block_at(i, n, at_once);
      dequantize<float, Codec, false>(codes + i * sizeof(Code<Codec>), some, spec,
                                      params + i / spec.block * params_stride<Codec>(spec), factor,
                                      x, codebook);
      from_floats<T>(x, some, static_cast<char*>(out) + i * sizeof(T));
    }
  } else {
    dequantize_blocks<T, Codec, accumulate>(codes, n, spec, params, factor, out);
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
