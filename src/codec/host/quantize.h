// A part of host_ops.cc: elements to codes and parameters.
#pragma once

#include "codec/host/blocks.h"
#include "codec/host/by_table.h"
#include "codec/host/elements.h"
#include "codec/host/random.h"
#include "codec/host/statistics.h"

namespace terse::codec::TERSE_ISA {
namespace {

// What is taken in place of the parameters p, after a second look at the elements.
template <class T, class Codec>
TERSE_INLINE Params choose(const void* in, size_t n, const Form& form, const Params& p) {
  Small probed[kMaxBlock];
  const auto probe = Codec::probe(p, form);
  for (size_t i = 0; i < n; ++i) probed[i] = probe(to_float(read<T>(in, i)));
  Choice best;
  for (int candidate = 0; candidate < Codec::kCandidates; ++candidate) {
    const auto trial = Codec::trial(candidate, form);
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += trial(probed[i]);
    consider(best, candidate, Codec::cost(sum, candidate, form));
  }
  return Codec::chosen(p, best.candidate, form);
}

// A block's elements, as they are and as they are read: where the machine converts halves these are
// numbers in memory already. Statistics are of the former, of which more fit into a register.
struct Elements {
  const void *as_they_are, *read;
};

// `coder(i)`: that of element i.
template <class T, class Codec, Rounding rounding, class Coder>
TERSE_INLINE void encode(const void* in, size_t n, const Coder& coder,
                         const uint16_t* __restrict random, uint8_t* __restrict codes) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t r = rounding == Rounding::kStochastic ? random[i] : uint16_t{0};
    write(codes, i, static_cast<Code<Codec>>(coder(i)(to_float(read<T>(in, i)), r)));
  }
}

// A block's parameters need all of it, so that its elements come from memory before the first code
// is made. While codes are made, the next block's come.
template <class Raw>
TERSE_INLINE void prefetch_next(const Elements& in, size_t n, size_t first, size_t some) {
  constexpr size_t kLine = 64;
  if (n <= kPiece) return;  // codec.cc did
  const uintptr_t begin = reinterpret_cast<uintptr_t>(in.as_they_are) + (n + first) * sizeof(Raw);
  for (size_t i = 0; i < some * sizeof(Raw); i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
}

template <class Raw, class T, class Codec, Rounding rounding, class Coder>
TERSE_INLINE void encode_large_block(const Elements& in, size_t n, const Coder& coder,
                                     const uint16_t* __restrict random, uint8_t* __restrict codes) {
  for (size_t i = 0; i < n; i += kPiece) {
    const size_t some = block_at(i, n, kPiece);
    prefetch_next<Raw>(in, n, i, some);
    encode<T, Codec, rounding>(
        static_cast<const char*>(in.read) + i * sizeof(T), some, [&](size_t) { return coder; },
        random + i, codes + i * sizeof(Code<Codec>));
  }
}

// Codes of groups of elements, each by its quantizer; 0 where zero(group).
template <class Raw, class T, class Codec, Rounding rounding, class Zero>
TERSE_INLINE void encode_groups(const Elements& in, size_t n, const Form& form,
                                const typename Codec::Quantizer* quantizers,
                                const uint16_t* __restrict random, uint8_t* __restrict codes,
                                const Zero& zero) {
  spread<Codec>(quantizers, n, [&](size_t first, size_t some, const auto* of_element) {
    prefetch_next<Raw>(in, n, first, some);
    encode<T, Codec, rounding>(
        static_cast<const char*>(in.read) + first * sizeof(T), some,
        [&](size_t i) { return Codec::template coder<rounding>(of_element[i], form); },
        random + first, codes + first);
  });
  for_each_group<Codec>(n, [&](size_t i, size_t first, size_t length) {
    if (zero(i)) std::memset(codes + first, 0, length);
  });
}

// The finer scales of a block, and the codes.
template <class Raw, class T, class Codec, Rounding rounding>
TERSE_INLINE void encode_finely(const Elements& in, size_t n, const Form& form, const Params& p,
                                const uint16_t* __restrict random, uint8_t* __restrict codes,
                                uint8_t* __restrict fine) {
  float absmax[kMostGroups<Codec>];
  typename Codec::Quantizer quantizers[kMostGroups<Codec>];
  absmaxes<Raw, kGroup<Codec>>(in.as_they_are, n, absmax);
  const auto finer = Codec::finer(p, form);
  for (size_t i = 0; i < groups_of<Codec>(n); ++i) {
    const uint32_t byte = Codec::fine(finer, absmax[i], form);
    fine[i] = static_cast<uint8_t>(byte);
    quantizers[i] = Codec::quantizer(finer, byte);
  }
  encode_groups<Raw, T, Codec, rounding>(in, n, form, quantizers, random, codes,
                                         [&](size_t i) { return fine[i] == 0; });
}

// All of blocks that are small: first the parameters of all of them.
template <class Raw, class T, class Codec, Rounding rounding>
TERSE_INLINE void quantize_small_blocks(const Elements& in, size_t n, const Form& form,
                                        const uint16_t* __restrict random,
                                        uint8_t* __restrict codes, uint8_t* __restrict params) {
  float absmax[kMostGroups<Codec>];
  Params of_block[kMostGroups<Codec>];
  typename Codec::Quantizer quantizers[kMostGroups<Codec>];
  absmaxes<Raw, kGroup<Codec>>(in.as_they_are, n, absmax);
  for (size_t i = 0; i < groups_of<Codec>(n); ++i) {
    of_block[i] = Codec::params({absmax[i]}, form, 0);
    quantizers[i] = Codec::quantizer(of_block[i], form);
    store_params<Codec>(of_block[i], form.scale, params + i * params_bytes<Codec>(form.scale));
  }
  encode_groups<Raw, T, Codec, rounding>(in, n, form, quantizers, random, codes, [&](size_t i) {
    return Codec::flat(of_block[i]) || !is_finite(of_block[i].first);
  });
}

// Finds the parameters of a block, and stores them.
template <class Raw, class T, class Codec>
TERSE_INLINE Params find_params(const Elements& in, size_t n, const Form& form, float shift,
                                uint8_t* params) {
  typename Codec::Stats observed;
  stats<Raw>(in.as_they_are, n, observed);
  Params p = Codec::params(observed, form, shift);
  if constexpr (Chooses<Codec>)
    if (!Codec::flat(p) && is_finite(p.first)) p = choose<T, Codec>(in.read, n, form, p);
  store_params<Codec>(p, form.scale, params);
  return p;
}

// `random`: of the block's elements; where the grid is shifted, of the first one.
template <class Raw, class T, class Codec, Rounding rounding, Part part, bool large>
TERSE_INLINE void quantize_block(const Elements& in, size_t n, const Form& form,
                                 const uint16_t* __restrict random, uint8_t* __restrict codes,
                                 uint8_t* params) {
  const float shift = rounding == Rounding::kShift ? uniform(random[0]) - 0.5f : 0.0f;
  const Params p = part == Part::kCodes ? load_params<Codec>(params, form.scale)
                                        : find_params<Raw, T, Codec>(in, n, form, shift, params);
  if constexpr (part == Part::kParams) return;
  uint8_t* const fine = params + params_bytes<Codec>(form.scale);
  if (Codec::flat(p) || !is_finite(p.first)) {
    std::memset(codes, 0, n * sizeof(Code<Codec>));
    if constexpr (HasFinerScales<Codec>) std::memset(fine, 0, groups_of<Codec>(n));
  } else if constexpr (HasFinerScales<Codec>) {
    encode_finely<Raw, T, Codec, rounding>(in, n, form, p, random, codes, fine);
  } else {
    const auto coder = Codec::template coder<rounding>(Codec::quantizer(p, form), form);
    if constexpr (large)
      encode_large_block<Raw, T, Codec, rounding>(in, n, coder, random, codes);
    else
      encode<T, Codec, rounding>(
          in.read, n, [&](size_t) { return coder; }, random, codes);
  }
}

template <class Raw, class T, class Codec, Rounding rounding, Part part, bool large>
[[gnu::noinline]] void quantize_blocks(Elements in, size_t n, const Spec& spec, const Draw& draw,
                                       uint64_t first, uint8_t* codes, uint8_t* params) {
  const Form form = known_form<Codec>(spec, rounding);
  constexpr size_t kSmall = kSmallBlock<Codec>, kAtOnce = kSmall != 0 ? kMaxBlock / kSmall : 1;
  const size_t block = kSmall != 0 ? kAtOnce * kSmall : block_of<Codec>(spec);
  const size_t stride = kAtOnce * params_stride<Codec>(spec);
  const size_t at_once =
      rounding == Rounding::kStochastic ? kMaxBlock / spec.block * spec.block : 0;
  uint16_t random[kMaxBlock];
  for (size_t i = 0; i < n; i += block, params += stride) {
    const size_t length = block_at(i, n, block);
    if constexpr (rounding == Rounding::kStochastic && part != Part::kParams) {
      if (i % at_once == 0) draw_elements(draw, first + i, block_at(i, n, at_once), random);
    } else if constexpr (rounding == Rounding::kShift) {
      const uint64_t element = first + i;
      random[0] = draw_bits(draw_group(draw, element / kElementsPerDraw), element);
    }
    const uint16_t* drawn = rounding == Rounding::kStochastic ? random + i % at_once : random;
    const Elements from = {static_cast<const char*>(in.as_they_are) + i * sizeof(Raw),
                           static_cast<const char*>(in.read) + i * sizeof(T)};
    uint8_t* const to = codes + i * sizeof(Code<Codec>);
    if constexpr (kSmallBlock<Codec> != 0)
      quantize_small_blocks<Raw, T, Codec, rounding>(from, length, form, drawn, to, params);
    else
      quantize_block<Raw, T, Codec, rounding, part, large>(from, length, form, drawn, to, params);
  }
}

// Whether blocks are large the compiler knows, but not how large: what it does for large ones, and
// unrolling loops for all sizes of small ones, would slow down the others.
template <class Raw, class T, class Codec, Rounding rounding, Part part>
void quantize_blocks(Elements in, size_t n, const Spec& spec, const Draw& draw, uint64_t first,
                     uint8_t* codes, uint8_t* params) {
  if constexpr (Codec::kDescriptor.params > 0 && Codec::kDescriptor.max_block > kPiece &&
                !HasFinerScales<Codec>)
    if (spec.block > kPiece)
      return quantize_blocks<Raw, T, Codec, rounding, part, true>(in, n, spec, draw, first, codes,
                                                                  params);
  quantize_blocks<Raw, T, Codec, rounding, part, false>(in, n, spec, draw, first, codes, params);
}

template <class T, class Codec, Rounding rounding, Part part>
void quantize(const void* in, size_t n, const Spec& spec, const Draw& draw, uint64_t first,
              uint8_t* codes, uint8_t* params, const float* codebook) {
  if constexpr (kIsConversion<T, Codec> && rounding == Rounding::kNearest) {
    from_floats<typename Codec::Element>(in, n, codes);
  } else if constexpr (kConvertsHalves<T>) {
    const size_t at_once = kFloats / spec.block * spec.block;
    float x[kFloats];
    for (size_t i = 0; i < n; i += at_once) {
      const size_t some = block_at(i, n, at_once);
      const char* const raw = static_cast<const char*>(in) + i * sizeof(T);
      uint8_t* const to = codes + i * sizeof(Code<Codec>);
      uint8_t* const of_them = params + i / spec.block * params_stride<Codec>(spec);
      to_floats<T>(raw, some, x);
      if constexpr (HasCodebook<Codec>)
        quantize<float, Codec, rounding, part>(x, some, spec, draw, first + i, to, of_them,
                                               codebook);
      else
        quantize_blocks<T, float, Codec, rounding, part>({raw, x}, some, spec, draw, first + i, to,
                                                         of_them);
    }
  } else if constexpr (HasCodebook<Codec>) {
    kQuantizeByTable<T, Codec, rounding>[spec.bits](in, n, spec, draw, first, codes, params,
                                                    codebook);
  } else {
    quantize_blocks<T, T, Codec, rounding, part>({in, in}, n, spec, draw, first, codes, params);
  }
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
