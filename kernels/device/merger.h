// Codes of several bodies to those of one, by integers alone (src/codec/tree.h): vec8 by vec8, in
// a thread's registers.
#pragma once

#include <type_traits>

#include "codec/tree.h"
#include "kernels/device/tile.h"

namespace terse::kernels {

// True if kernels of the format can merge: those of one type do, for nothing is raw.
template <class F>
constexpr bool kCanMerge = false;
template <class F>
requires codec::Merges<typename F::Codec>
constexpr bool kCanMerge<F> = std::is_same_v<typename F::Raw, float>;

template <class F>
class Merger {
  using Tile = kernels::Tile<F>;
  static_assert(F::kBits == 8);

 public:
  TERSE_DEVICE explicit Merger(const Tile& tile) : tile_(tile), draw_(tile.draw()) {}

  TERSE_DEVICE void store_merged() const {
    uint8_t* const body = tile_.packed_target();
    TERSE_NO_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      if (tile_.elements(j) == 0) continue;
      const Codes codes = merged(j);
      if (tile_.whole) {
        store_codes<F::kBits, Access::kWhole>(tile_.codes(body, j), kVec8, codes);
      } else {
        store_codes<F::kBits, Access::kAny>(tile_.codes(body, j), tile_.elements(j), codes);
        tile_.store_padding(body, j, tile_.elements(j));
      }
    }
  }

 private:
  // The top is the first one: so the registers that it lies in are known.
  struct Stack {
    Codes at[codec::kTreeDepth];
    uint32_t height = 0;

    TERSE_DEVICE void push(Codes codes) {
      TERSE_UNROLL
      for (uint32_t k = 0; k < codec::kTreeDepth; ++k) {
        if (k > height) break;
        const Codes below = at[k];
        at[k] = codes;
        codes = below;
      }
      ++height;
    }

    // Replaces the two codes on top by their merge.
    TERSE_DEVICE void join(const Codes& codes) {
      at[0] = codes;
      TERSE_UNROLL
      for (uint32_t k = 1; k + 1 < codec::kTreeDepth; ++k) {
        if (k + 1 >= height) break;
        at[k] = at[k + 1];
      }
      --height;
    }
  };

  // Merged codes of row j's vec8.
  TERSE_DEVICE Codes merged(uint32_t j) const {
    const typename Tile::Sources* const runs = tile_.batch.sources + tile_.piece.first_sources;
    uint32_t count = 0;
    for (uint32_t s = 0; s < tile_.piece.sources; ++s) count += runs[s].count;
    Stack stack{};
    uint32_t i = 0;
    for (uint32_t s = 0; s < tile_.piece.sources; ++s) {
      for (uint32_t k = 0; k < runs[s].count; ++k, ++i) {
        const uint8_t* const codes = tile_.codes(tile_.source(runs[s], k), j);
        stack.push(tile_.whole ? load_codes<F::kBits, Access::kWhole>(codes, kVec8)
                               : load_codes<F::kBits, Access::kAny>(codes, tile_.elements(j)));
        for (uint32_t begin = i; codec::is_merged(begin, i, count);
             begin = codec::begin_before(begin))
          stack.join(merge(stack.at[1], stack.at[0], random_of(j, begin)));
      }
    }
    return stack.at[0];
  }

  TERSE_DEVICE codec::PhiloxWords random_of(uint32_t j, uint32_t merge) const {
    return tile_.random_of(j, codec::draw_of_merge(draw_, merge));
  }

  TERSE_DEVICE static Codes merge(const Codes& a, const Codes& b,
                                  const codec::PhiloxWords& random) {
    uint32_t code[kVec8];
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i) {
      const uint32_t heads = F::kRounding == codec::Rounding::kNearest
                                 ? 0
                                 : codec::heads_in_a_row(codec::draw_bits(random, i));
      code[i] = F::Codec::merge(static_cast<codec::Tiny>(a[i]), static_cast<codec::Tiny>(b[i]),
                                static_cast<codec::Tiny>(heads));
    }
    return make_codes(code, Codes{});
  }

  const Tile& tile_;
  const codec::Draw draw_;
};

}  // namespace terse::kernels
