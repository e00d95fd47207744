// Spec: identifies a wire format.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

#include "codec/number.h"

namespace terse::codec {

// A codec's number on the wire. Which ones there are, codecs.h lists.
enum class CodecId : uint8_t {};

enum class Rounding : uint8_t { kNearest = 0, kStochastic = 1, kShift = 2 };
enum class Dtype : uint8_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2 };

constexpr int kRoundings = 3, kDtypes = 3;
constexpr int kMinBits = 2, kMaxBits = 8;  // of codes that are packed; others are kWideBits long
constexpr int kWideBits = 16;
constexpr size_t kMinBlock = 32, kMaxBlock = 4096, kBlockQuantum = 32;

// Elements that the transform mixes. What is left over of a body shares parameters with them, which
// become smaller by about the square root of their number: it is multiplied by a power of two near
// to that (FORMAT.md, section 4).
constexpr size_t kHadamard = 32;
constexpr float kLeftOver = 1.0f / 8;

constexpr size_t dtype_size(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

struct Spec {
  CodecId codec{1};
  Rounding rounding = Rounding::kNearest;
  uint8_t bits = 8;              // of a code
  uint16_t block = 128;          // elements that share parameters
  Number scale = Number::kFp32;  // how parameters are stored
  uint8_t hadamard = 0;          // elements that are transformed together, or 0: none
  uint16_t ranks = 1;            // whose codes become one, where they share a grid

  auto operator<=>(const Spec&) const = default;
};

// Returns true if bodies of one are bodies of the other: they differ in rounding at most.
constexpr bool packs_alike(Spec a, const Spec& b) {
  a.rounding = b.rounding;
  return a == b;
}

// Form: what a codec's arithmetic needs of its spec.
struct Form {
  int bits;
  Number scale;
  Rounding rounding;
  int ranks = 1;
};

TERSE_INLINE constexpr Form form_of(const Spec& s) {
  return {s.bits, s.scale, s.rounding, s.ranks};
}

}  // namespace terse::codec
