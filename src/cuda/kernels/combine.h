// target = sum of the sources, each times the factor, for many pieces in one launch: encode,
// decode, decode and reduce, decode-reduce-encode are all cases of it, as they are of
// codec::combine on the host. The arithmetic is the codec's own (src/codec/block.h); here is only
// how it lies on threads.
//
// A warp takes a tile of kRows octets per lane (1024 elements of blocks up to that size), loads all
// rows before it uses the first, and keeps the sums in registers. What is derived from a block's
// statistics or parameters, one lane derives for the others. Blocks of more than 1024 elements take
// all threads of a thread block. The grid is persistent: units go from tile to tile.
#pragma once

#include "codec/codecs.h"
#include "hadamard.h"
#include "octet.h"
#include "rows.h"

namespace terse::kernels {

template <class Codec_, int bits_, codec::Rounding rounding_, class Raw_, bool transforms_>
struct Format {
  using Codec = Codec_;
  using Raw = Raw_;
  using Stats = typename Codec::Stats;
  static constexpr int kBits = bits_;
  static constexpr codec::Rounding kRounding = rounding_;
  static constexpr bool kTransforms = transforms_;
};

// What is derived once per block. With finer scales the codec's quantizer and dequantizer are of
// the elements that share one.
template <class Codec>
struct PerBlock {
  using Quantizer = typename Codec::Quantizer;
  using Dequantizer = typename Codec::Dequantizer;

  static TERSE_DEVICE Quantizer quantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::quantizer(p, form);
  }
  static TERSE_DEVICE Dequantizer dequantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::dequantizer(p, form);
  }
};

template <codec::HasFinerScales Codec>
struct PerBlock<Codec> {
  using Quantizer = typename Codec::Finer;
  using Dequantizer = codec::Params;

  static TERSE_DEVICE Quantizer quantizer(const codec::Params& p, const codec::Form& form) {
    return Codec::finer(p, form);
  }
  static TERSE_DEVICE Dequantizer dequantizer(const codec::Params& p, const codec::Form&) {
    return p;
  }
};

// Whether a codec's codes are numbers that the machine converts.
template <class Codec>
constexpr bool kByMachine = false;
template <class Codec>
requires requires { typename Codec::Numbers; }
constexpr bool kByMachine<Codec> = simt::kConverts<typename Codec::Numbers>;

// One tile of one piece, on one unit of threads.
template <class F, Access access>
class Tile {
 public:
  // `multiplier`: of the raw sources, beside the piece's factor.
  TERSE_DEVICE Tile(const Batch& batch, const Piece& piece, uint32_t tile, float multiplier,
                    const Rows<access>& rows)
      : batch_(batch),
        piece_(piece),
        first_(uint64_t{tile} * batch.geometry.tile),
        first_block_(uint64_t{tile} * batch.geometry.blocks_per_tile),
        left_(left(piece.count - first_, batch.geometry.tile)),
        multiplier_(codec::mul(multiplier, piece.factor)),
        rows_(rows) {}

  TERSE_DEVICE void sum_sources() {
    const Sources* const runs = batch_.sources + piece_.first_sources;
    uint32_t done = 0;
    if constexpr (access == Access::kWhole) {
      fetch<true>(runs[0].packed, static_cast<const uint8_t*>(runs[0].data));
      done = 1;
    } else {  // not worth the code
      fill_sums(-0.0f);
    }
    for (uint32_t s = 0; s < piece_.sources; ++s, done = 0) {
      const Sources& run = runs[s];
      const uint8_t* const data = static_cast<const uint8_t*>(run.data);
      for (uint32_t i = done; i < run.count; ++i) fetch<false>(run.packed, data + i * run.stride);
    }
  }

  TERSE_DEVICE void store_raw() const {
    uint8_t* const out = static_cast<uint8_t*>(piece_.target) + first_ * sizeof(Raw);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      store_octet<Raw, access>(out + rows_.at(j) * sizeof(Raw), elements(j),
                               make_octet(sum_[j], Raw{}));
  }

  // Takes the transform back.
  TERSE_DEVICE void restore() {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) hadamard(sum_[j], in_whole_group(j), 1.0f);
  }

  TERSE_DEVICE void store_packed(Shared<typename F::Stats>& shared) const {
    const codec::Draw draw = this->draw();
    uint8_t* const body = static_cast<uint8_t*>(piece_.target);
    const auto own_quantizer = quantizer(body, draw, shared);
    codec::PhiloxWords random[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) random[j] = random_of(j, draw);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      store_codes<F::kBits, access>(codes(body, j), elements(j),
                                    encode(j, row_quantizer(body, j, own_quantizer), random[j]));
      if constexpr (access != Access::kWhole) store_padding(body, j);
    }
  }

 private:
  using Codec = typename F::Codec;
  using Raw = typename F::Raw;
  using Quantizer = typename Codec::Quantizer;
  using Dequantizer = typename Codec::Dequantizer;
  using BlockQuantizer = typename PerBlock<Codec>::Quantizer;
  using BlockDequantizer = typename PerBlock<Codec>::Dequantizer;
  static constexpr codec::Descriptor kCodec = Codec::kDescriptor;
  static constexpr bool kHasParams = kCodec.params != 0;
  static constexpr bool kHasFinerScales = codec::HasFinerScales<Codec>;
  // Of how parameters are stored: where there is no choice the compiler shall know.
  static constexpr bool kChooses = kCodec.scales != codec::choices(kCodec.usual_scale);

  TERSE_DEVICE codec::Form form() const {
    return {F::kBits, kChooses ? batch_.scale : kCodec.usual_scale, F::kRounding};
  }

  // Of a block: less the finer scales, and of a whole one with them.
  TERSE_DEVICE size_t params_bytes() const {
    return kCodec.params * codec::number_bytes(form().scale);
  }

  TERSE_DEVICE size_t params_stride() const {
    if constexpr (kHasFinerScales) return params_bytes() + batch_.geometry.block / kCodec.fine;
    return params_bytes();
  }

  // Stores row j's finer scale, if there are any.
  TERSE_DEVICE Quantizer row_quantizer(uint8_t* body, uint32_t j, const BlockQuantizer& own) const {
    const BlockQuantizer block = of_row(j, own);
    if constexpr (!kHasFinerScales) {
      return block;
    } else {
      static_assert(kCodec.fine == 2 * kOctet);
      codec::AbsMax stats;
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i)
        if (i < elements(j)) observe(stats, sum_[j][i]);
      merge(stats, shuffle_xor(stats, 1));
      const uint32_t fine = block.scale != 0 ? Codec::fine(block, stats.absmax, form()) : 0;
      if (simt::thread_index() % 2 == 0 && elements(j) != 0)
        simt::store(fine_scale(body, j), static_cast<uint8_t>(fine));
      return fine != 0 ? Codec::quantizer(block, fine) : Quantizer{};
    }
  }

  // The finer scale of row j's octet.
  template <class Byte>
  TERSE_DEVICE Byte* fine_scale(Byte* body, uint32_t j) const {
    const uint32_t block = rows_.block(j);
    const uint32_t place = (rows_.at(j) - block * batch_.geometry.block) / kCodec.fine;
    return body + piece_.params_offset + (first_block_ + block) * params_stride() + params_bytes() +
           place;
  }

  // The quantizer of the own row's block, whose parameters are stored.
  TERSE_DEVICE BlockQuantizer quantizer(uint8_t* body, const codec::Draw& draw,
                                        Shared<typename F::Stats>& shared) const {
    if constexpr (!kHasParams) {
      return {};
    } else {
      typename F::Stats stats[kRows];
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j) {
        stats[j] = {};
        TERSE_UNROLL
        for (uint32_t i = 0; i < kOctet; ++i)
          if (i < elements(j)) observe(stats[j], sum_[j][i]);
      }
      const auto own_stats = share_stats(batch_.geometry, stats, shared);
      codec::Params own = Codec::params(own_stats, form(), shift(draw));
      if constexpr (codec::Chooses<Codec>) own = choose(own, shared);
      if (rows_.leads(left_)) store_params(body, own);
      return has_codes(own) ? PerBlock<Codec>::quantizer(own, form()) : BlockQuantizer{};
    }
  }

  // What is taken in place of the own row's parameters, after a second look at the elements.
  TERSE_DEVICE codec::Params choose(const codec::Params& own,
                                    Shared<typename F::Stats>& shared) const {
    const bool has_codes = this->has_codes(own);
    const auto own_probe = has_codes ? Codec::probe(own, form()) : typename Codec::Probe{};
    codec::Small probed[kRows][kOctet];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      const auto probe = of_row(j, own_probe);
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i)
        probed[j][i] = probe.scale != 0 && i < elements(j) ? probe(sum_[j][i]) : 0;
    }
    codec::Choice best;
    for (int candidate = 0; candidate < Codec::kCandidates; ++candidate) {
      const auto trial = Codec::trial(candidate, form());
      Total totals[kRows];
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j) {
        TERSE_UNROLL
        for (uint32_t i = 0; i < kOctet; ++i) totals[j].sum += trial(probed[j][i]);
      }
      const Total own_total = share_stats(batch_.geometry, totals, shared);
      consider(best, candidate, Codec::cost(own_total.sum, candidate, form()));
    }
    return has_codes ? Codec::chosen(own, best.candidate, form()) : own;
  }

  // Whether row j's octet is one of four that are transformed together, all of whose elements are
  // there.
  TERSE_DEVICE bool in_whole_group(uint32_t j) const {
    const uint32_t group = rows_.at(j) / codec::kHadamard * codec::kHadamard;
    return access == Access::kWhole || (elements(j) != 0 && group + codec::kHadamard <= left_);
  }

  TERSE_DEVICE static uint32_t left(uint64_t elements, uint32_t tile) {
    return access == Access::kWhole || elements > tile ? tile : static_cast<uint32_t>(elements);
  }

  TERSE_DEVICE uint32_t elements(uint32_t j) const { return rows_.elements(j, left_); }

  template <class Byte>
  TERSE_DEVICE Byte* codes(Byte* body, uint32_t j) const {
    return body + first_ / kOctet * F::kBits + rows_.at(j) / kOctet * F::kBits;
  }

  template <class Byte>
  TERSE_DEVICE Byte* own_params(Byte* body) const {
    return body + piece_.params_offset + own_block() * params_stride();
  }

  TERSE_DEVICE uint64_t own_block() const { return first_block_ + rows_.block(rows_.own_row()); }

  TERSE_DEVICE void fill_sums(float value) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i) sum_[j][i] = value;
    }
  }

  // Adds a source, or takes the first one in place of a sum.
  template <bool first>
  TERSE_DEVICE void fetch(bool packed, const uint8_t* data) {
    if (packed)
      fetch_packed<first>(data);
    else
      fetch_elements<first>(data);
  }

  template <bool first>
  TERSE_DEVICE void add(uint32_t j, uint32_t i, float value) {
    sum_[j][i] = first ? value : codec::add(sum_[j][i], value);
  }

  // Of a whole tile all rows are loaded before the first is used; for others that would take too
  // many registers.
  template <bool first>
  TERSE_DEVICE void fetch_raw(const uint8_t* data) {
    const auto multiply = [this](float x) { return codec::mul(x, multiplier_); };
    data += first_ * sizeof(Raw);
    Octet<Raw> octet[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      octet[j] = load_raw(data, j);
      if constexpr (access != Access::kWhole) add_row<first>(j, octet[j], multiply);
    }
    if constexpr (access != Access::kWhole) return;
    if (multiplier_ == 1.0f)
      add_rows<first>(octet, [](float x) { return x; });
    else
      add_rows<first>(octet, multiply);
  }

  template <bool first>
  TERSE_DEVICE void fetch_elements(const uint8_t* data) {
    if constexpr (F::kTransforms)
      fetch_transformed<first>(data);
    else
      fetch_raw<first>(data);
  }

  TERSE_DEVICE Octet<Raw> load_raw(const uint8_t* data, uint32_t j) const {
    return load_octet<Raw, access>(data + rows_.at(j) * sizeof(Raw), elements(j));
  }

  // Row by row: the transform takes registers.
  template <bool first>
  TERSE_DEVICE void fetch_transformed(const uint8_t* data) {
    data += first_ * sizeof(Raw);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      const Octet<Raw> octet = load_raw(data, j);
      float x[kOctet];
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i)
        x[i] = codec::mul(kernels::element(octet, i), multiplier_);
      hadamard(x, in_whole_group(j), 1.0f / codec::kHadamard);
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i) add<first>(j, i, x[i]);
    }
  }

  template <bool first, class Change>
  TERSE_DEVICE void add_rows(const Octet<Raw> (&octet)[kRows], Change change) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) add_row<first>(j, octet[j], change);
  }

  template <bool first, class Change>
  TERSE_DEVICE void add_row(uint32_t j, const Octet<Raw>& octet, Change change) {
    TERSE_UNROLL
    for (uint32_t i = 0; i < kOctet; ++i) add<first>(j, i, change(kernels::element(octet, i)));
  }

  template <bool first>
  TERSE_DEVICE void fetch_packed(const uint8_t* body) {
    CodesOf<F::kBits> code[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      code[j] = load_codes<F::kBits, access>(codes(body, j), elements(j));
    const auto own = dequantizer(body);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      add_values<first>(j, code[j], row_dequantizer(body, j, own));
    }
  }

  template <bool first>
  TERSE_DEVICE void add_values(uint32_t j, const CodesOf<F::kBits>& code, const Dequantizer& d) {
    if constexpr (kByMachine<Codec>) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; i += 2) {
        const uint32_t halves =
            simt::to_halves<typename Codec::Numbers>(code.w[i / 4] >> (8 * (i % 4)));
        const auto half = [&](uint32_t k) {
          return simt::to_float(codec::half_t{static_cast<uint16_t>(halves >> (16 * k))});
        };
        add<first>(j, i, codec::mul(half(0), d.scale));
        add<first>(j, i + 1, codec::mul(half(1), d.scale));
      }
    } else {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i) add<first>(j, i, Codec::value(code[i], d, form()));
    }
  }

  TERSE_DEVICE Dequantizer row_dequantizer(const uint8_t* body, uint32_t j,
                                           const BlockDequantizer& own) const {
    const BlockDequantizer block = of_row(j, own);
    if constexpr (!kHasFinerScales) {
      return block;
    } else {
      const uint32_t fine = elements(j) != 0 ? simt::load(fine_scale(body, j)) : 0;
      return Codec::dequantizer(block, fine, form());
    }
  }

  // Of the own row's block.
  TERSE_DEVICE BlockDequantizer dequantizer(const uint8_t* body) const {
    codec::Params own{0, 0};
    if (!kHasParams || rows_.has_own_block(left_))
      own = codec::scaled(load_params(own_params(body)), piece_.factor);
    // Any parameter that is not finite makes NaNs; the arithmetic carries them on.
    if (!codec::is_finite(own.first) || !codec::is_finite(own.second))
      own = {codec::bits_float(codec::kNanBits), codec::bits_float(codec::kNanBits)};
    return PerBlock<Codec>::dequantizer(own, form());
  }

  template <class Word>
  TERSE_DEVICE static bool aligned(const uint8_t* at) {
    return access == Access::kWhole || is_aligned<Word>(at);
  }

  TERSE_DEVICE float load_number(const uint8_t* from) const {
    using codec::Number;
    const Number scale = form().scale;
    const uint32_t bits =
        scale == Number::kFp32   ? load_word<uint32_t>(from, aligned<uint32_t>(from))
        : scale == Number::kBf16 ? load_word<uint16_t>(from, aligned<uint16_t>(from))
                                 : simt::load(from);
    return codec::number_of(scale, bits);
  }

  TERSE_DEVICE void store_number(uint8_t* to, float value) const {
    using codec::Number;
    const Number scale = form().scale;
    const uint32_t bits = codec::number_bits(scale, value);
    if (scale == Number::kFp32)
      store_word(to, bits, aligned<uint32_t>(to));
    else if (scale == Number::kBf16)
      store_word(to, static_cast<uint16_t>(bits), aligned<uint16_t>(to));
    else
      simt::store(to, static_cast<uint8_t>(bits));
  }

  TERSE_DEVICE codec::Params load_params(const uint8_t* from) const {
    codec::Params p;
    if constexpr (kHasParams) p.first = load_number(from);
    if constexpr (kCodec.params == 2) p.second = load_number(from + 4);
    return p;
  }

  // Of the own row's block; behind the last ones, zero bytes up to a whole word.
  TERSE_DEVICE void store_params(uint8_t* body, const codec::Params& p) const {
    uint8_t* const to = own_params(body);
    store_number(to, p.first);
    if constexpr (kCodec.params == 2) store_number(to + 4, p.second);
    const uint64_t block = own_block(), next = (block + 1) * batch_.geometry.block;
    uint64_t end = (block + 1) * params_stride();
    if constexpr (kHasFinerScales)
      if (next > piece_.count) end -= (next - piece_.count) / kCodec.fine;
    if (end % 4 == 0 || next < piece_.count) return;
    for (uint64_t at = end; at % 4 != 0; ++at)
      simt::store(body + piece_.params_offset + at, uint8_t{0});
  }

  // The zero bytes between codes and parameters, behind the piece's last octet.
  TERSE_DEVICE void store_padding(uint8_t* body, uint32_t j) const {
    const uint64_t element = first_ + rows_.at(j);
    if (elements(j) == 0 || element + elements(j) != piece_.count) return;
    const uint64_t end = element / kOctet * F::kBits + (elements(j) * F::kBits + 7) / 8;
    for (uint64_t at = end; at < piece_.params_offset; ++at) simt::store(body + at, uint8_t{0});
  }

  // A captured graph that runs again must draw anew.
  TERSE_DEVICE codec::Draw draw() const {
    if (F::kRounding == codec::Rounding::kNearest || batch_.replays == nullptr) return piece_.draw;
    return codec::redraw(piece_.draw, simt::load(batch_.replays));
  }

  // Of the own block's grid.
  TERSE_DEVICE float shift(const codec::Draw& draw) const {
    if constexpr (F::kRounding == codec::Rounding::kShift) {
      const uint64_t element = piece_.origin + own_block() * batch_.geometry.block;
      const codec::PhiloxWords words = codec::draw_group(draw, element / codec::kElementsPerDraw);
      return codec::uniform(codec::draw_bits(words, 0)) - 0.5f;
    }
    return 0;
  }

  // Other blocks' codes are zeros.
  TERSE_DEVICE static bool has_codes(const codec::Params& p) {
    return !Codec::flat(p) && codec::is_finite(p.first);
  }

  TERSE_DEVICE codec::PhiloxWords random_of(uint32_t j, const codec::Draw& draw) const {
    if constexpr (F::kRounding == codec::Rounding::kStochastic)
      return codec::draw_group(draw,
                               (piece_.origin + first_ + rows_.at(j)) / codec::kElementsPerDraw);
    return {};
  }

  TERSE_DEVICE CodesOf<F::kBits> encode(uint32_t j, const Quantizer& q,
                                        const codec::PhiloxWords& random) const {
    if (q.scale == 0) return {};
    if constexpr (kByMachine<Codec> && F::kRounding == codec::Rounding::kNearest)
      return convert(j, q);
    const auto coder = Codec::template coder<F::kRounding>(q, form());
    uint32_t code[kOctet];
    TERSE_UNROLL
    for (uint32_t i = 0; i < kOctet; ++i) {
      code[i] = coder(sum_[j][i], codec::draw_bits(random, i));
      // The missing ones of a short octet are zero; those of one that is not there go nowhere.
      if (access != Access::kWhole && i >= elements(j)) code[i] = 0;
    }
    return make_codes(code, CodesOf<F::kBits>{});
  }

  // As encode(), by the machine.
  TERSE_DEVICE CodesOf<F::kBits> convert(uint32_t j, const Quantizer& q) const {
    uint32_t pair[kOctet / 2];
    TERSE_UNROLL
    for (uint32_t k = 0; k < kOctet / 2; ++k) {
      const auto scaled = [&](uint32_t i) {
        const bool there = access == Access::kWhole || i < elements(j);
        return there ? codec::mul(sum_[j][i], q.scale) : 0.0f;
      };
      pair[k] = simt::to_codes<typename Codec::Numbers>(scaled(2 * k), scaled(2 * k + 1));
    }
    return {simt::permute(pair[0], pair[1], 0x5410), simt::permute(pair[2], pair[3], 0x5410)};
  }

  const Batch& batch_;
  const Piece& piece_;
  const uint64_t first_;        // element of the piece
  const uint64_t first_block_;  // block of the piece
  const uint32_t left_;         // elements of the tile
  const float multiplier_;
  const Rows<access>& rows_;
  float sum_[kRows][kOctet];
};

// What raw sources are multiplied by.
template <class Raw>
TERSE_DEVICE float multiplier(const codec::Multiplier& m) {
  if (m.at == nullptr) return m.value;
  return element(load_octet<Raw, Access::kAny>(static_cast<const uint8_t*>(m.at), 1), 0);
}

// A unit's walk over the tiles of one sort: `tile` and every `units`-th after it.
template <class F, bool packed_target, Access access>
TERSE_DEVICE void combine_tiles(const Batch& batch, uint32_t Tiles::*sort, uint32_t tile,
                                uint32_t units, float multiplier,
                                Shared<typename F::Stats>& shared) {
  const Rows<access> rows(batch.geometry);
  uint32_t p = 0;
  for (; tile < batch.tiles.*sort; tile += units) {
    while (p + 1 < batch.pieces && tile >= batch.piece[p + 1].first.*sort) ++p;
    const Piece& piece = batch.piece[p];
    uint32_t own = tile - piece.first.*sort;
    if (access != Access::kWhole) own += piece.whole_tiles;
    Tile<F, access> work(batch, piece, own, multiplier, rows);
    work.sum_sources();
    if constexpr (packed_target)
      work.store_packed(shared);
    else {
      if constexpr (F::kTransforms) work.restore();
      work.store_raw();
    }
  }
}

// The kernel. kThreads threads to a thread block, any number of thread blocks.
template <class F, bool packed_target>
TERSE_DEVICE void combine(const Batch& batch, Shared<typename F::Stats>& shared) {
  const bool block = batch.geometry.whole;  // are the units
  const uint32_t warps = simt::block_size() / simt::kWarp;
  const uint32_t units = block ? simt::grid_size() : simt::grid_size() * warps;
  uint32_t unit = simt::block_index();
  if (!block) unit = unit * warps + simt::thread_index() / simt::kWarp;
  const float factor = multiplier<typename F::Raw>(batch.premultiply);
  combine_tiles<F, packed_target, Access::kWhole>(batch, &Tiles::whole, unit, units, factor,
                                                  shared);
  // The units that had a whole tile less go first.
  unit = (unit + units - batch.tiles.whole % units) % units;
  combine_tiles<F, packed_target, Access::kAny>(batch, &Tiles::partial, unit, units, factor,
                                                shared);
}

}  // namespace terse::kernels
