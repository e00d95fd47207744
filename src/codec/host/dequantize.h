// A part of host_ops.cc: codes and parameters to elements.
#pragma once

#include "codec/host/blocks.h"
#include "codec/host/elements.h"

namespace terse::codec::TERSE_ISA {
namespace {

template <class T, class Codec, bool accumulate>
TERSE_INLINE void decode(const uint8_t* __restrict codes, size_t n, const Form& form,
                         const typename Codec::Dequantizer& d, void* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    const float v = Codec::value(read<Code<Codec>>(codes, i), d, form);
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
    constexpr size_t kFine = Codec::kDescriptor.fine;
    const uint8_t* fine = params + params_bytes<Codec>(form.scale);
    for (size_t i = 0; i < n; i += kFine)
      decode<T, Codec, accumulate>(codes + i, block_at(i, n, kFine), form,
                                   Codec::dequantizer(p, fine[i / kFine], form),
                                   static_cast<char*>(out) + i * sizeof(T));
  } else {
    decode<T, Codec, accumulate>(codes, n, form, Codec::dequantizer(p, form), out);
  }
}

template <class T, class Codec, bool accumulate>
void dequantize_blocks(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                       float factor, void* out) {
  const Form form = known_form<Codec>(spec.bits, spec.scale, Rounding::kNearest);
  const size_t block = block_of<Codec>(spec), stride = params_stride<Codec>(spec);
  for (size_t i = 0; i < n; i += block, params += stride)
    dequantize_block<T, Codec, accumulate>(codes + i * sizeof(Code<Codec>), block_at(i, n, block),
                                           form, params, factor,
                                           static_cast<char*>(out) + i * sizeof(T));
}

template <class T, class Codec, bool accumulate>
void dequantize(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                float factor, void* out) {
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
  } else if constexpr (kConvertsHalves<T>) {
    const size_t at_once = kFloats / spec.block * spec.block;
    float x[kFloats];
    for (size_t i = 0; i < n; i += at_once) {
      const size_t some = block_at(i, n, at_once);
      dequantize<float, Codec, false>(codes + i * sizeof(Code<Codec>), some, spec,
                                      params + i / spec.block * params_stride<Codec>(spec), factor,
                                      x);
      from_floats<T>(x, some, static_cast<char*>(out) + i * sizeof(T));
    }
  } else {
    dequantize_blocks<T, Codec, accumulate>(codes, n, spec, params, factor, out);
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
