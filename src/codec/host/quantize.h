// A part of host_ops.cc: elements to codes and parameters.
#pragma once

#include "codec/host/blocks.h"
#include "codec/host/coders.h"
#include "codec/host/elements.h"
#include "codec/host/lut_encode.h"
#include "codec/host/random.h"
#include "codec/host/statistics.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Chooses the parameters to use in place of p, by a second look at the elements.
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

template <class Raw, class T>
TERSE_INLINE Elements elements_from(const Elements& in, size_t i) {
  return {static_cast<const char*>(in.as_they_are) + i * sizeof(Raw),
          static_cast<const char*>(in.read) + i * sizeof(T)};
}

// A block's parameters need all of it, so that its elements come from memory before the first code
// is made. While codes are made, the next block's come.
template <class Raw>
TERSE_INLINE void prefetch_next(const Elements& in, size_t n, size_t first, size_t some) {
  constexpr size_t kLine = 64;
  if (n <= kTile) return;  // codec.cc did
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
  const auto encode_some = [&](size_t first, size_t some, const auto& quantizer) {
    prefetch_next<Raw>(in, n, first, some);
    encode<T, Codec, rounding>(
        static_cast<const char*>(in.read) + first * sizeof(T), some,
        [&](size_t i) { return Codec::template coder<rounding>(quantizer(i), form); },
        random + first, codes + first);
  };
  if constexpr (kEncodesByRegisters<Codec, rounding>)
    for (size_t first = 0; first < n; first += kPiece)
      encode_some(first, block_at(first, n, kPiece),
                  [&](size_t i) { return quantizers[(first + i) / kGroup<Codec>]; });
  else
    spread<Codec>(quantizers, n, [&](size_t first, size_t some, const auto* of_element) {
      encode_some(first, some, [&](size_t i) { return of_element[i]; });
    });
  uint32_t zeros = 0;
  for (size_t i = 0; i < groups_of<Codec>(n); ++i) zeros += zero(i) ? 1 : 0;
  if (zeros == 0) return;
  for_each_group<Codec>(n, [&](size_t i, size_t first, size_t length) {
    if (zero(i)) std::memset(codes + first, 0, length);
  });
}

// The finer scales of a block, of whose groups the absmax is known, and the codes.
template <class Raw, class T, class Codec, Rounding rounding>
TERSE_INLINE void encode_finely(const Elements& in, size_t n, const Form& form, const Params& p,
                                const float* absmax, const uint16_t* __restrict random,
                                uint8_t* __restrict codes, uint8_t* __restrict fine) {
  typename Codec::Quantizer quantizers[kMaxGroups<Codec>];
  const auto finer = Codec::finer(p, form);
  for (size_t i = 0; i < groups_of<Codec>(n); ++i) {
    const uint32_t byte = Codec::fine(finer, absmax[i], form);
    fine[i] = static_cast<uint8_t>(byte);
    quantizers[i] = Codec::quantizer(finer, byte);
  }
  encode_groups<Raw, T, Codec, rounding>(in, n, form, quantizers, random, codes,
                                         [&](size_t i) { return fine[i] == 0; });
}

// All of blocks that are small, and have one parameter: a loop for each thing that is found, over
// all of them.
template <class Raw, class T, class Codec, Rounding rounding>
TERSE_INLINE void quantize_small_blocks(const Elements& in, size_t n, const Form& form,
                                        const uint16_t* __restrict random,
                                        uint8_t* __restrict codes, uint8_t* __restrict params) {
  static_assert(Codec::kDescriptor.params == 1);
  const size_t blocks = groups_of<Codec>(n);
  float absmax[kMaxGroups<Codec>], found[kMaxGroups<Codec>];
  typename Codec::Quantizer quantizers[kMaxGroups<Codec>];
  absmaxes<Raw, kGroup<Codec>>(in.as_they_are, n, absmax);
  for (size_t i = 0; i < blocks; ++i) found[i] = Codec::params({absmax[i]}, form, 0).first;
  for (size_t i = 0; i < blocks; ++i) quantizers[i] = Codec::quantizer({found[i], 0}, form);
  for (size_t i = 0; i < blocks; ++i)
    store_number(form.scale, found[i], params + i * params_bytes<Codec>(form.scale));
  encode_groups<Raw, T, Codec, rounding>(in, n, form, quantizers, random, codes, [&](size_t i) {
    return Codec::flat({found[i], 0}) || !is_finite(found[i]);
  });
}

// Finds the parameters of a block, and stores them. Where it has finer scales it leaves the absmax
// of each group.
template <class Raw, class T, class Codec>
TERSE_INLINE Params find_params(const Elements& in, size_t n, const Form& form, float shift,
                                uint8_t* params, float* absmax) {
  typename Codec::Stats observed;
  if constexpr (HasFinerScales<Codec>) {
    absmaxes<Raw, kGroup<Codec>>(in.as_they_are, n, absmax);
    stats<float>(absmax, groups_of<Codec>(n), observed);
  } else {
    stats<Raw>(in.as_they_are, n, observed);
  }
  Params p = Codec::params(observed, form, shift);
  if constexpr (Chooses<Codec>)
    if (!Codec::flat(p) && is_finite(p.first)) p = choose<T, Codec>(in.read, n, form, p);
  store_params<Codec>(p, form.scale, params);
  return p;
}

// The codes of a block, by its one quantizer.
template <class Raw, class T, class Codec, Rounding rounding, bool large>
TERSE_INLINE void encode_by(const Elements& in, size_t n, const Form& form, const Params& p,
                            const uint16_t* __restrict random, uint8_t* __restrict codes) {
  const auto coder = Codec::template coder<rounding>(Codec::quantizer(p, form), form);
  if constexpr (large)
    encode_large_block<Raw, T, Codec, rounding>(in, n, coder, random, codes);
  else
    encode<T, Codec, rounding>(
        in.read, n, [&](size_t) { return coder; }, random, codes);
}

// Derives the random numbers of all elements from that of a block's first element, for n rounded up
// to a multiple of 32.
TERSE_INLINE void spread_draw(size_t n, uint16_t* random) {
  const uint16_t first = random[0];
  for (size_t i = 0; i < (n + 31) / 32 * 32; ++i) random[i] = spread_bits(first, i);
}

// The codes of a block whose parameters were found. Where rounding is a shift there is the random
// number of its first element alone.
template <class Raw, class T, class Codec, Rounding rounding, bool large>
TERSE_INLINE void encode_block(const Elements& in, size_t n, const Form& form, const Params& p,
                               const float* absmax, uint16_t* __restrict random,
                               uint8_t* __restrict codes, uint8_t* params) {
  uint8_t* const fine = params + params_bytes<Codec>(form.scale);
  if (Codec::flat(p) || !is_finite(p.first)) {
    std::memset(codes, 0, n * sizeof(Code<Codec>));
    if constexpr (HasFinerScales<Codec>) std::memset(fine, 0, groups_of<Codec>(n));
  } else if constexpr (HasFinerScales<Codec>) {
    encode_finely<Raw, T, Codec, rounding>(in, n, form, p, absmax, random, codes, fine);
  } else {
    if constexpr (rounding == Rounding::kShift)
      if (!p.moved) {
        spread_draw(n, random);
        return encode_by<Raw, T, Codec, Rounding::kStochastic, large>(in, n, form, p, random,
                                                                      codes);
      }
    encode_by<Raw, T, Codec, rounding, large>(in, n, form, p, random, codes);
  }
}

// Quantizes up to kMaxBlock elements.
template <class Codec>
constexpr size_t blocks_at_once(bool large) {
  if (kSmallBlock<Codec> != 0) return kMaxBlock / kSmallBlock<Codec>;
  const bool one = large || Codec::kDescriptor.params == 0 || HasFinerScales<Codec>;
  return one ? 1 : kMaxBlock / kPiece;
}

// First the parameters of many blocks: finding them is one long chain of operations, and those of
// several blocks go along with each other, but not with codes, which are many operations.
template <class Raw, class T, class Codec, Rounding rounding, Part part, bool large>
[[gnu::noinline]] void quantize_blocks(Elements in, size_t n, const Spec& spec, const Draw& draw,
                                       uint64_t first, uint8_t* codes, uint8_t* params) {
  const Form form = known_form<Codec>(spec, rounding);
  constexpr size_t kSmall = kSmallBlock<Codec>, kBlocks = blocks_at_once<Codec>(large);
  const size_t block = kSmall != 0 ? kSmall : block_of<Codec>(spec), at_once = kBlocks * block;
  const size_t stride = params_stride<Codec>(spec);
  uint16_t random[kMaxBlock];
  Params found[kBlocks];
  float absmax[HasFinerScales<Codec> ? kMaxBlock / Codec::kDescriptor.fine : 1];
  for (size_t i = 0; i < n; i += at_once, params += kBlocks * stride) {
    const size_t some = block_at(i, n, at_once);
    const Elements these = elements_from<Raw, T>(in, i);
    uint8_t* const to = codes + i * sizeof(Code<Codec>);
    if constexpr (rounding == Rounding::kStochastic && part != Part::kParams)
      draw_elements(draw, first + i, some, random);
    if constexpr (kSmall != 0) {
      quantize_small_blocks<Raw, T, Codec, rounding>(these, some, form, random, to, params);
      continue;
    }
    for (size_t k = 0, at = 0; at < some; ++k, at += block) {
      uint8_t* const own = params + k * stride;
      if constexpr (part == Part::kCodes) {
        found[k] = load_params<Codec>(own, form.scale);
      } else {
        float shift = 0;
        if constexpr (rounding == Rounding::kShift) {
          random[at] = element_bits(draw, first + i + at);
          shift = shift_of(random[at]);
        }
        found[k] = find_params<Raw, T, Codec>(elements_from<Raw, T>(these, at),
                                              block_at(at, some, block), form, shift, own, absmax);
      }
    }
    if constexpr (part == Part::kParams) continue;
    for (size_t k = 0, at = 0; at < some; ++k, at += block)
      encode_block<Raw, T, Codec, rounding, large>(
          elements_from<Raw, T>(these, at), block_at(at, some, block), form, found[k], absmax,
          random + at, to + at * sizeof(Code<Codec>), params + k * stride);
  }
}

// Quantizes, with a compile-time flag for large blocks, but not their size: unrolling loops for all
// sizes of small ones, as the compiler does for large ones, would slow down the others.
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
  } else if constexpr (kConvertsHalves<T> && !kEncodesByRegisters<Codec, rounding>) {
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
