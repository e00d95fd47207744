// A part of host_ops.cc: how a codec's codes and parameters lie in memory.
#pragma once

#include "codec/block.h"
#include "codec/half.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Type that a code is stored in.
template <class Codec>
struct CodeOf {
  using Type = uint8_t;
};
template <class Codec>
requires(Codec::kDescriptor.max_bits > 8) struct CodeOf<Codec> {
  using Type = uint16_t;
};
template <class Codec>
using Code = typename CodeOf<Codec>::Type;

// Elements that share parameters; as many as can be at once where there are none.
template <class Codec>
TERSE_INLINE size_t block_of(const Spec& spec) {
  return Codec::kDescriptor.params == 0 ? kMaxBlock : spec.block;
}

// The size of all blocks but a short last one, where there is one size and it is so small that the
// compiler should know it; or 0.
template <class Codec>
constexpr size_t kSmallBlock = Codec::kDescriptor.params > 0 && Codec::kDescriptor.max_block <= 64
                                   ? Codec::kDescriptor.max_block
                                   : 0;

// Number format of parameters: a constant if there is no choice, so that the compiler knows it.
template <class Codec>
TERSE_INLINE Form known_form(const Spec& spec, Rounding rounding) {
  constexpr Descriptor kCodec = Codec::kDescriptor;
  constexpr bool kChooses = kCodec.scales != choices(kCodec.default_scale);
  return {spec.bits, kChooses ? spec.scale : kCodec.default_scale, rounding,
          SharesGrid<Codec> ? spec.ranks : 1};
}

// Bytes of parameters: of a block, and of a whole one with its finer scales.
template <class Codec>
TERSE_INLINE size_t params_bytes(Number scale) {
  return Codec::kDescriptor.params * number_bytes(scale);
}

template <class Codec>
TERSE_INLINE size_t params_stride(const Spec& spec) {
  constexpr Descriptor kCodec = Codec::kDescriptor;
  const Number scale = known_form<Codec>(spec, spec.rounding).scale;
  size_t fine = 0;
  if constexpr (HasFinerScales<Codec>) fine = spec.block / kCodec.fine;
  return params_bytes<Codec>(scale) + fine;
}

// Elements that share a finer scale, or a block of the only size there is: so few that loops go
// over many such groups at a time. Or 0.
template <class Codec>
constexpr size_t kGroup = HasFinerScales<Codec> ? Codec::kDescriptor.fine : kSmallBlock<Codec>;

template <class Codec>
TERSE_INLINE size_t groups_of(size_t n) {
  return (n + kGroup<Codec> - 1) / kGroup<Codec>;
}
template <class Codec>
constexpr size_t kMaxGroups = kMaxBlock / kGroup<Codec>;

// Calls see(index, first element, elements) with each group: with a length that the compiler knows,
// except the last where it is short.
template <class Codec, class See>
TERSE_INLINE void for_each_group(size_t n, const See& see) {
  size_t i = 0;
  for (; (i + 1) * kGroup<Codec> <= n; ++i) see(i, i * kGroup<Codec>, kGroup<Codec>);
  if (i * kGroup<Codec> < n) see(i, i * kGroup<Codec>, n - i * kGroup<Codec>);
}

// Elements of a large block that are worked on at a time, so that what is made of each of them
// stays in the first-level cache.
constexpr size_t kPiece = 512;

// Spreads each group's value over its elements, so that one loop covers all elements. Calls
// see(first element, elements, the value of each).
template <class Codec, class X, class See>
TERSE_INLINE void spread(const X* __restrict of_group, size_t n, const See& see) {
  X of_element[kPiece];
  for (size_t i = 0; i < n; i += kPiece) {
    const X* const of_these = of_group + i / kGroup<Codec>;
    const size_t some = n - i < kPiece ? n - i : kPiece;
    for_each_group<Codec>(some, [&](size_t group, size_t first, size_t length) {
      const X x = of_these[group];
      for (size_t k = 0; k < length; ++k) of_element[first + k] = x;
    });
    see(i, some, static_cast<const X*>(of_element));
  }
}

// Copies of fixed sizes: others are calls.
TERSE_INLINE void store_number(Number n, float x, uint8_t* to) {
  const uint32_t bits = number_bits(n, x);
  if (n == Number::kFp32)
    std::memcpy(to, &bits, 4);
  else if (n == Number::kBf16)
    std::memcpy(to, &bits, 2);
  else
    *to = static_cast<uint8_t>(bits);
}

TERSE_INLINE float load_number(Number n, const uint8_t* from) {
  uint32_t bits = 0;
  if (n == Number::kFp32)
    std::memcpy(&bits, from, 4);
  else if (n == Number::kBf16)
    std::memcpy(&bits, from, 2);
  else
    std::memcpy(&bits, from, 1);
  return number_of(n, bits);
}

template <class Codec>
TERSE_INLINE void store_params(const Params& p, Number scale, uint8_t* to) {
  constexpr size_t kParams = Codec::kDescriptor.params;
  if constexpr (kParams > 0) store_number(scale, p.first, to);
  if constexpr (kParams > 1) store_number(scale, p.second, to + number_bytes(scale));
}

template <class Codec>
TERSE_INLINE Params load_params(const uint8_t* from, Number scale) {
  constexpr size_t kParams = Codec::kDescriptor.params;
  Params p;
  if constexpr (kParams > 0) p.first = load_number(scale, from);
  if constexpr (kParams > 1) p.second = load_number(scale, from + number_bytes(scale));
  return p;
}

// A cast to what the machine converts to, of fp32.
template <class T, class Codec>
constexpr bool kIsConversion = false;
template <class Codec>
requires kConvertsHalves<typename Codec::Element>
constexpr bool kIsConversion<float, Codec> = true;

}  // namespace
}  // namespace terse::codec::TERSE_ISA
