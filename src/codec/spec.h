// What identifies a wire format, and where its bytes lie (FORMAT.md, sections 2 and 3). Sizes and
// offsets come from here alone.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>

namespace terse::codec {

enum class Family : uint8_t { kSymmetric = 1, kMinMax = 2 };
enum class Rounding : uint8_t { kNearest = 0, kStochastic = 1, kShift = 2 };
enum class Dtype : uint8_t { kFloat32 = 0, kFloat16 = 1, kBfloat16 = 2 };

constexpr int kFamilies = 2, kRoundings = 3, kDtypes = 3;
constexpr int kMinBits = 2, kMaxBits = 8;
constexpr size_t kMinBlock = 32, kMaxBlock = 4096, kBlockQuantum = 32;

constexpr size_t dtype_size(Dtype dtype) { return dtype == Dtype::kFloat32 ? 4 : 2; }

struct Spec {
  Family family = Family::kSymmetric;
  Rounding rounding = Rounding::kNearest;
  uint8_t bits = 8;
  uint16_t block = 128;  // elements that share parameters

  auto operator<=>(const Spec&) const = default;
};

constexpr bool valid(const Spec& s) {
  const bool family = s.family == Family::kSymmetric || s.family == Family::kMinMax;
  const bool rounding = s.rounding <= Rounding::kShift &&
                        (s.rounding != Rounding::kShift || s.family == Family::kMinMax);
  return family && rounding && s.bits >= kMinBits && s.bits <= kMaxBits && s.block >= kMinBlock &&
         s.block <= kMaxBlock && s.block % kBlockQuantum == 0;
}

// Symmetric: the peak. Min-max: base and step.
constexpr size_t params_per_block(Family family) { return family == Family::kSymmetric ? 1 : 2; }

// A body of `count` elements: the codes as one little-endian bit string, zero bits up to a multiple
// of four bytes, then the parameters of each block as little-endian fp32.
struct BodyLayout {
  size_t blocks;
  size_t code_bytes;
  size_t params_offset;
  size_t size;
};

constexpr BodyLayout body_layout(const Spec& s, size_t count) {
  const size_t blocks = count / s.block + (count % s.block != 0);
  // count * bits / 8, rounded up, without overflow for any count that fits in memory
  const size_t code_bytes = count / 8 * s.bits + (count % 8 * s.bits + 7) / 8;
  const size_t params_offset = (code_bytes + 3) / 4 * 4;
  return {blocks, code_bytes, params_offset,
          params_offset + blocks * params_per_block(s.family) * sizeof(float)};
}

constexpr size_t body_size(const Spec& s, size_t count) { return body_layout(s, count).size; }

}  // namespace terse::codec
