// A part of host_ops.cc: codes and parameters to elements.
#pragma once

#include "codec/host/blocks.h"
#include "codec/host/by_table.h"
#include "codec/host/elements.h"

namespace terse::codec::TERSE_ISA {
namespace {

// `dequantizer(i)`: that of element i.
template <class T, class Codec, bool accumulate, class Dequantizer>
TERSE_INLINE void decode(const uint8_t* __restrict codes, size_t n, const Form& form,
                         const Dequantizer& dequantizer, void* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    const float v = Codec::value(read<Code<Codec>>(codes, i), dequantizer(i), form);
    if constexpr (accumulate)
      write(out, i, add(read<T>(out, i), v));
    else if constexpr (Codec::kNanCodes)
      write(out, i, from_float<T>(v));
    else
      write(out, i, from_number<T>(v));
  }
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
    typename Codec::Dequantizer dequantizers[kMostGroups<Codec>];
    for (size_t i = 0; i < groups_of<Codec>(n); ++i)
      dequantizers[i] = Codec::dequantizer(p, fine[i], form);
    spread<Codec>(dequantizers, n, [&](size_t first, size_t some, const auto* of_element) {
      decode<T, Codec, accumulate>(
          codes + first, some, form, [&](size_t i) { return of_element[i]; },
          static_cast<char*>(out) + first * sizeof(T));
    });
  } else {
    const auto d = Codec::dequantizer(p, form);
    decode<T, Codec, accumulate>(
        codes, n, form, [&](size_t) { return d; }, out);
  }
}

template <class T, class Codec, bool accumulate>
void dequantize_blocks(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                       float factor, void* out) {
  const Form form = known_form<Codec>(spec, Rounding::kNearest);
  const size_t block = block_of<Codec>(spec), stride = params_stride<Codec>(spec);
  for (size_t i = 0; i < n; i += block, params += stride) {
    const size_t length = block_at(i, n, block);
    const uint8_t* const from = codes + i * sizeof(Code<Codec>);
    char* const to = static_cast<char*>(out) + i * sizeof(T);
    if (length == kSmallBlock<Codec>)
      dequantize_block<T, Codec, accumulate>(from, kSmallBlock<Codec>, form, params, factor, to);
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
