// The sums of a tile's sources, in registers.
#pragma once

#include "kernels/device/hadamard.h"
#include "kernels/device/per_block.h"
#include "kernels/device/shared_codebook.h"
#include "kernels/device/tile.h"

namespace terse::kernels {

template <class F>
class Sums {
  using Tile = kernels::Tile<F>;

 public:
  // `multiplier`: of the raw sources, beside the piece's factor.
  TERSE_DEVICE Sums(const Tile& tile, float multiplier)
      : tile_(tile), multiplier_(codec::mul(multiplier, tile.piece.factor)) {}

  // Element i of row j's vec8. The missing ones of a short vec8 are as its first one: to a
  // block's statistics they add nothing.
  TERSE_DEVICE float at(uint32_t j, uint32_t i) const { return sum_[j][i]; }

  TERSE_DEVICE void add_sources() {
    const Run* const runs = tile_.batch.sources + tile_.piece.first_sources;
    uint32_t done = 0;
    if constexpr (F::kTransforms) {  // which takes registers: the code is there once
      fill(-0.0f);
    } else {
      fetch<true>(runs[0], 0);
      done = 1;
    }
    for (uint32_t s = 0; s < tile_.piece.sources; ++s, done = 0) {
      const Run& run = runs[s];
      for (uint32_t i = done; i < run.count; ++i) fetch<false>(run, i);
    }
  }

  // Takes the transform back.
  TERSE_DEVICE void restore() {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) hadamard<true>(sum_[j], tile_.in_whole_group(j));
  }

  TERSE_DEVICE void store_raw() const {
    uint8_t* const out = tile_.raw_target() + tile_.first() * sizeof(Raw);
    Vec8<Raw> vec8[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) vec8[j] = make_vec8(sum_[j], Raw{});
    tile_.store_rows(vec8, [&]<Access access>(uint32_t j, uint32_t n, const Vec8<Raw>& row) {
      store_vec8<Raw, access>(out + tile_.rows.at(j) * sizeof(Raw), n, row);
    });
  }

 private:
  using Codec = typename F::Codec;
  using Raw = typename F::Raw;
  using Run = typename Tile::Sources;
  using Dequantizer = typename Codec::Dequantizer;
  using BlockDequantizer = typename PerBlock<Codec>::Dequantizer;

  TERSE_DEVICE void fill(float value) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i) sum_[j][i] = value;
    }
  }

  // Adds a run's source, or takes the first one in place of a sum.
  template <bool first>
  TERSE_DEVICE void fetch(const Run& run, uint32_t i) {
    if (run.packed)
      fetch_packed<first>(run, i);
    else
      fetch_elements<first>(tile_.source(run, i), run.negated ? -multiplier_ : multiplier_);
  }

  template <bool first>
  TERSE_DEVICE void add(uint32_t j, uint32_t i, float value) {
    sum_[j][i] = first ? value : codec::add(sum_[j][i], value);
  }

  // All rows are loaded before the first is used.
  template <bool first>
  TERSE_DEVICE void fetch_elements(const uint8_t* data, float multiplier) {
    data += tile_.first() * sizeof(Raw);
    Vec8<Raw> vec8[kRows]{};
    tile_.load_rows(vec8, [&]<Access access>(uint32_t j, uint32_t n) {
      return load_vec8<Raw, access>(data + tile_.rows.at(j) * sizeof(Raw), n);
    });
    if constexpr (F::kTransforms)
      add_transformed<first>(vec8, multiplier);
    else if (multiplier == 1.0f)
      add_rows<first>(vec8, [](float x) { return x; });
    else
      add_rows<first>(vec8, [multiplier](float x) { return codec::mul(x, multiplier); });
  }

  template <bool first>
  TERSE_DEVICE void add_transformed(const Vec8<Raw> (&vec8)[kRows], float multiplier) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      float x[kVec8];
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i)
        x[i] = codec::mul(kernels::element(vec8[j], i), multiplier);
      hadamard<false>(x, tile_.in_whole_group(j));
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i) add<first>(j, i, x[i]);
    }
  }

  template <bool first, class Change>
  TERSE_DEVICE void add_rows(const Vec8<Raw> (&vec8)[kRows], Change change) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i) add<first>(j, i, change(kernels::element(vec8[j], i)));
    }
  }

  template <bool first>
  TERSE_DEVICE void fetch_packed(const Run& run, uint32_t i) {
    const uint8_t* const in_window = F::kHasSlots ? tile_.source(run, i) : nullptr;
    const auto body = [&] { return F::kHasSlots ? in_window : tile_.source(run, i); };
    CodesOf<F::kBits> code[kRows]{};
    tile_.load_rows(code, [&]<Access access>(uint32_t j, uint32_t n) {
      return load_codes<F::kBits, access>(tile_.codes(body(), j), n);
    });
    const auto own = dequantizer(body());
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      add_values<first>(j, code[j], row_dequantizer(body(), j, own));
  }

  template <bool first>
  TERSE_DEVICE void add_values(uint32_t j, const CodesOf<F::kBits>& code, const Dequantizer& d) {
    if constexpr (kByMachine<F>) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; i += 2) {
        const uint32_t halves =
            simt::to_halves<typename Codec::Numbers>(code.w[i / 4] >> (8 * (i % 4)));
        const auto half = [&](uint32_t k) {
          return simt::to_float(codec::half_t{static_cast<uint16_t>(halves >> (16 * k))});
        };
        add<first>(j, i, codec::mul(half(0), d.scale));
        add<first>(j, i + 1, codec::mul(half(1), d.scale));
      }
    } else if constexpr (codec::HasIntegers<Codec> && F::kBits <= 8) {
      const codec::Integers integers = Codec::integers(d, tile_.form());
      const Codes flipped = code.flipped(integers.flip);
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i)
        add<first>(j, i, Codec::value_of(flipped.integer(i, integers.zero), d));
    } else {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i) add<first>(j, i, value(code[i], d));
    }
  }

  TERSE_DEVICE float value(uint32_t code, const Dequantizer& d) const {
    if constexpr (codec::HasCodebook<Codec>)
      return Codec::value(Codec::level(code, d, tile_.form(), InShared{tile_.levels}), d);
    else
      return Codec::value(code, d, tile_.form());
  }

  TERSE_DEVICE Dequantizer row_dequantizer(const uint8_t* body, uint32_t j,
                                           const BlockDequantizer& own) const {
    const BlockDequantizer block = of_row(j, own);
    if constexpr (!Tile::kHasFinerScales) {
      return block;
    } else {
      const uint32_t fine = tile_.elements(j) != 0 ? simt::load(tile_.fine_scale(body, j)) : 0;
      return Codec::dequantizer(block, fine, tile_.form());
    }
  }

  // Dequantizer of the row's own block.
  TERSE_DEVICE BlockDequantizer dequantizer(const uint8_t* body) const {
    codec::Params own{0, 0};
    if (!Tile::kHasParams || tile_.has_own_block())
      own = codec::scaled(tile_.load_params(tile_.own_params(body)), tile_.piece.factor);
    // Any parameter that is not finite makes NaNs; the arithmetic carries them on.
    if (!codec::is_finite(own.first) || !codec::is_finite(own.second))
      own = {codec::bits_float(codec::kNanBits), codec::bits_float(codec::kNanBits)};
    return PerBlock<Codec>::dequantizer(own, tile_.form());
  }

  const Tile& tile_;
  const float multiplier_;
  float sum_[kRows][kVec8];
};

}  // namespace terse::kernels
