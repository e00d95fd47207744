// A tile's sums to codes and parameters.
#pragma once

#include "kernels/device/per_block.h"
#include "kernels/device/shared_codebook.h"
#include "kernels/device/sums.h"
#include "kernels/device/tile.h"

namespace terse::kernels {

template <class F>
class Encoder {
  using Tile = kernels::Tile<F>;
  using Sums = kernels::Sums<F>;

 public:
  TERSE_DEVICE Encoder(const Tile& tile, const Sums& sums) : tile_(tile), sums_(sums) {}

  TERSE_DEVICE void store_packed(Shared<typename F::Stats>& shared) const {
    const codec::Draw draw = tile_.draw();
    uint32_t own_bits = 0;
    if constexpr (kShifts) own_bits = tile_.own_bits(draw);
    const auto own_quantizer =
        is_part(codec::Part::kCodes) ? agreed_quantizer() : quantizer(own_bits, shared);
    if (is_part(codec::Part::kParams)) return;
    codec::PhiloxWords random[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) random[j] = tile_.random_of(j, draw);
    CodesOf<F::kBits> codes[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      codes[j] = encode(j, row_quantizer(j, own_quantizer), own_bits, random[j]);
    tile_.store_rows(codes, [&]<Access access>(uint32_t j, uint32_t n, const auto& row) {
      const bool all = access == Access::kWhole;
      store_codes<F::kBits, access>(tile_.codes(target(), j), n, all ? row : row.first(n));
      if constexpr (!all) tile_.store_padding(target(), j, n);
    });
  }

 private:
  using Codec = typename F::Codec;
  using Quantizer = typename Codec::Quantizer;
  using BlockQuantizer = typename PerBlock<Codec>::Quantizer;
  static constexpr bool kShifts = F::kRounding == codec::Rounding::kShift;
  // Marks a block whose grid a shift has moved, in place of its bits.
  static constexpr uint32_t kMoved = uint32_t{1} << 16;

  TERSE_DEVICE uint8_t* target() const { return tile_.packed_target(); }

  // Stores row j's finer scale, if there are any.
  TERSE_DEVICE Quantizer row_quantizer(uint32_t j, const BlockQuantizer& own) const {
    const BlockQuantizer block = of_row(j, own);
    if constexpr (!Tile::kHasFinerScales) {
      return block;
    } else {
      static_assert(Tile::kCodec.fine == 2 * kVec8);
      codec::AbsMax stats;
      observe_row(stats, j);
      if (tile_.elements(j) == 0) stats = {};
      merge(stats, shuffle_xor(stats, 1));
      const uint32_t fine = block.scale != 0 ? Codec::fine(block, stats.absmax, tile_.form()) : 0;
      if (simt::thread_index() % 2 == 0 && tile_.elements(j) != 0)
        simt::store(tile_.fine_scale(target(), j), static_cast<uint8_t>(fine));
      return fine != 0 ? Codec::quantizer(block, fine) : Quantizer{};
    }
  }

  template <class Stats>
  TERSE_DEVICE void observe_row(Stats& stats, uint32_t j) const {
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i) observe(stats, sums_.at(j, i));
  }

  // The quantizer of the own row's block, whose parameters are stored.
  TERSE_DEVICE BlockQuantizer quantizer(uint32_t& own_bits,
                                        Shared<typename F::Stats>& shared) const {
    if constexpr (!Tile::kHasParams) {
      return {};
    } else {
      typename F::Stats stats[kRows];
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j) {
        stats[j] = {};
        observe_row(stats[j], j);
      }
      if (!tile_.whole) {
        TERSE_UNROLL
        for (uint32_t j = 0; j < kRows; ++j)
          if (tile_.elements(j) == 0) stats[j] = {};
      }
      const auto own_stats = share_stats(tile_.batch.geometry, stats, shared);
      float shift = 0;
      if constexpr (kShifts) shift = codec::shift_of(static_cast<uint16_t>(own_bits));
      codec::Params own = Codec::params(own_stats, tile_.form(), shift);
      if (own.moved) own_bits = kMoved;
      if constexpr (codec::Chooses<Codec>) own = choose(own, shared);
      if (tile_.leads()) tile_.store_params(target(), own);
      return has_codes(own) ? PerBlock<Codec>::quantizer(own, tile_.form()) : BlockQuantizer{};
    }
  }

  // Quantizer by the parameters that all ranks have agreed on.
  TERSE_DEVICE BlockQuantizer agreed_quantizer() const {
    codec::Params own{0, 0};
    if (tile_.has_own_block()) own = tile_.load_params(tile_.own_params(target()));
    return has_codes(own) ? PerBlock<Codec>::quantizer(own, tile_.form()) : BlockQuantizer{};
  }

  // Chooses the parameters to use in place of the row's own, by a second look at the elements.
  TERSE_DEVICE codec::Params choose(const codec::Params& own,
                                    Shared<typename F::Stats>& shared) const {
    const bool has_codes = this->has_codes(own);
    const auto own_probe = has_codes ? Codec::probe(own, tile_.form()) : typename Codec::Probe{};
    codec::Small probed[kRows][kVec8];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      const auto probe = of_row(j, own_probe);
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i)
        probed[j][i] = probe.scale != 0 ? probe(sums_.at(j, i)) : 0;
      if (tile_.whole) continue;
      TERSE_UNROLL
      for (uint32_t i = 0; i < kVec8; ++i)
        if (i >= tile_.elements(j)) probed[j][i] = 0;
    }
    codec::Choice best;
    for (int candidate = 0; candidate < Codec::kCandidates; ++candidate) {
      const auto trial = Codec::trial(candidate, tile_.form());
      Total totals[kRows];
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j) {
        TERSE_UNROLL
        for (uint32_t i = 0; i < kVec8; ++i) totals[j].sum += trial(probed[j][i]);
      }
      const Total own_total = share_stats(tile_.batch.geometry, totals, shared);
      consider(best, candidate, Codec::cost(own_total.sum, candidate, tile_.form()));
    }
    return has_codes ? Codec::chosen(own, best.candidate, tile_.form()) : own;
  }

  // Returns true if this part alone is written, of bodies whose grid is shared.
  TERSE_DEVICE bool is_part(codec::Part part) const {
    return codec::SharesGrid<Codec> && tile_.batch.part == part;
  }

  // Other blocks' codes are zeros.
  TERSE_DEVICE static bool has_codes(const codec::Params& p) {
    return !Codec::flat(p) && codec::is_finite(p.first);
  }

  TERSE_DEVICE CodesOf<F::kBits> encode(uint32_t j, const Quantizer& q, uint32_t own_bits,
                                        const codec::PhiloxWords& random) const {
    const uint32_t bits = kShifts ? of_row(j, own_bits) : 0;
    if (q.inverse == 0) return {};
    if constexpr (kByMachine<F> && F::kRounding == codec::Rounding::kNearest) return convert(j, q);
    const auto drawn = [&](uint32_t i) { return codec::draw_bits(random, i); };
    if constexpr (codec::HasCodebook<Codec>) {
      if (codec::MinMax::symmetric(q.zero_point))
        return encode_by(j, codec::MinMax::coder<F::kRounding>(q, tile_.form()), drawn);
      return encode_by(j, LevelCoder<F>{q, {tile_.levels}}, drawn);
    } else {
      if constexpr (kShifts)
        if (bits != kMoved)
          return encode_by(j, Codec::template coder<codec::Rounding::kStochastic>(q, tile_.form()),
                           [&](uint32_t i) {
                             return codec::spread_bits(static_cast<uint16_t>(bits),
                                                       tile_.place_in_block(j) + i);
                           });
      return encode_by(j, Codec::template coder<F::kRounding>(q, tile_.form()), drawn);
    }
  }

  // `bits(i)`: the random ones of element i.
  template <class Coder, class Bits>
  TERSE_DEVICE CodesOf<F::kBits> encode_by(uint32_t j, const Coder& coder, const Bits& bits) const {
    uint32_t code[kVec8];
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i) code[i] = coder(sums_.at(j, i), bits(i));
    return make_codes(code, CodesOf<F::kBits>{});
  }

  // Encodes as encode() does, by the machine's own conversion.
  TERSE_DEVICE CodesOf<F::kBits> convert(uint32_t j, const Quantizer& q) const {
    uint32_t pair[kVec8 / 2];
    TERSE_UNROLL
    for (uint32_t k = 0; k < kVec8 / 2; ++k) {
      const auto scaled = [&](uint32_t i) { return codec::mul(sums_.at(j, i), q.inverse); };
      pair[k] = simt::to_codes<typename Codec::Numbers>(scaled(2 * k), scaled(2 * k + 1));
    }
    return {simt::permute(pair[0], pair[1], 0x5410), simt::permute(pair[2], pair[3], 0x5410)};
  }

  const Tile& tile_;
  const Sums& sums_;
};

}  // namespace terse::kernels
