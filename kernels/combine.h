// target = factor * (sum of the sources), for many pieces in one launch: encode, decode, decode and
// reduce, decode-reduce-encode are all cases of it, as they are of codec::combine on the host. The
// arithmetic is the codec's own (src/codec/block.h); here is only how it lies on threads.
//
// A warp takes a tile of kRows octets per lane (1024 elements of blocks up to that size), loads all
// rows before it uses the first, and keeps the sums in registers. Blocks of more than 1024 elements
// take all threads of a thread block. The grid is persistent: units go from tile to tile.
#pragma once

#include "codec/block.h"
#include "octet.h"
#include "rows.h"

namespace terse::kernels {

template <class Family_, int bits_, codec::Rounding rounding_, class Raw_>
struct Format {
  using Family = Family_;
  using Raw = Raw_;
  using Stats = typename Family::Stats;
  static constexpr int kBits = bits_;
  static constexpr codec::Rounding kRounding = rounding_;
};

// One tile of one piece, on one unit of threads.
template <class F, bool fast>
class Tile {
 public:
  TERSE_DEVICE Tile(const Batch& batch, const Piece& piece, uint64_t tile)
      : batch_(batch),
        piece_(piece),
        first_(tile * batch.geometry.blocks_per_tile * batch.geometry.block),
        first_block_(tile * batch.geometry.blocks_per_tile),
        rows_(make_rows<fast>(batch.geometry, piece.count - first_)) {}

  TERSE_DEVICE void sum_sources() {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i) sum_[j][i] = -0.0f;  // the first sum is the first value
    }
    for (uint32_t s = 0; s < piece_.sources; ++s) {
      const Sources& sources = batch_.sources[piece_.first_sources + s];
      const uint8_t* data = static_cast<const uint8_t*>(sources.data);
      for (uint32_t i = 0; i < sources.count; ++i, data += sources.stride) {
        if (sources.packed)
          fetch_packed(data);
        else
          fetch_raw(data);
      }
    }
    if (piece_.factor != 1.0f) {
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j) {
        TERSE_UNROLL
        for (uint32_t i = 0; i < kOctet; ++i) sum_[j][i] = codec::mul(sum_[j][i], piece_.factor);
      }
    }
  }

  TERSE_DEVICE void store_raw() const {
    using Raw = typename F::Raw;
    uint8_t* out = static_cast<uint8_t*>(piece_.target) + first_ * sizeof(Raw);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      store_octet<Raw, fast>(out + rows_.at[j] * sizeof(Raw), rows_.elements[j],
                             make_octet<Raw>(sum_[j]));
  }

  TERSE_DEVICE void store_packed(Shared<typename F::Stats>& shared) const {
    using Family = typename F::Family;
    typename F::Stats stats[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      stats[j] = {};
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i)
        if (has(j, i)) Family::observe(stats[j], sum_[j][i]);
    }
    share_stats<Family>(batch_.geometry, stats, shared);
    uint8_t* body = static_cast<uint8_t*>(piece_.target);
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      const codec::Params params = Family::params(stats[j], F::kBits, shift(j));
      store_codes<F::kBits, fast>(codes(body, j), rows_.elements[j], encode(j, params));
      if (rows_.leader[j]) store_params(body, j, params);
      if constexpr (!fast) store_padding(body, j);
    }
  }

 private:
  using Family = typename F::Family;
  static constexpr size_t kParams = codec::params_per_block(Family::kWire);

  TERSE_DEVICE uint64_t element(uint32_t j) const { return first_ + rows_.at[j]; }

  // Whether element i of row j is there; whole octets need one comparison for all of them.
  TERSE_DEVICE bool has(uint32_t j, uint32_t i) const {
    return fast ? rows_.elements[j] != 0 : i < rows_.elements[j];
  }

  template <class Byte>
  TERSE_DEVICE Byte* codes(Byte* body, uint32_t j) const {
    return body + first_ / kOctet * F::kBits + rows_.at[j] / kOctet * F::kBits;
  }

  template <class Byte>
  TERSE_DEVICE Byte* params(Byte* body, uint32_t j) const {
    return body + piece_.params_offset + (first_block_ + rows_.block[j]) * kParams * 4;
  }

  TERSE_DEVICE float multiplier() const {
    if (batch_.premultiply.at == nullptr) return batch_.premultiply.value;
    const auto* at = static_cast<const uint8_t*>(batch_.premultiply.at);
    return kernels::element(load_octet<typename F::Raw, false>(at, 1), 0);
  }

  TERSE_DEVICE void fetch_raw(const uint8_t* data) {
    using Raw = typename F::Raw;
    Octet<Raw> octet[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j)
      octet[j] =
          load_octet<Raw, fast>(data + (first_ + rows_.at[j]) * sizeof(Raw), rows_.elements[j]);
    const float factor = multiplier();
    if (factor == 1.0f)
      add(octet, [](float x) { return x; });
    else
      add(octet, [factor](float x) { return codec::mul(x, factor); });
  }

  template <class Raw, class Change>
  TERSE_DEVICE void add(const Octet<Raw> (&octet)[kRows], Change change) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i)
        sum_[j][i] = codec::add(sum_[j][i], change(kernels::element(octet[j], i)));
    }
  }

  TERSE_DEVICE void fetch_packed(const uint8_t* body) {
    uint64_t code[kRows];
    codec::Params p[kRows];
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      code[j] = load_codes<F::kBits, fast>(codes(body, j), rows_.elements[j]);
      p[j] = rows_.elements[j] != 0 ? load_params(params(body, j)) : codec::Params{0, 0};
    }
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      // Any parameter that is not finite makes NaNs; the arithmetic carries them on.
      if (!codec::is_finite(p[j].first) || !codec::is_finite(p[j].second))
        p[j] = {codec::bits_float(codec::kNanBits), codec::bits_float(codec::kNanBits)};
      const typename Family::Dequantizer d = Family::dequantizer(p[j], F::kBits);
      TERSE_UNROLL
      for (uint32_t i = 0; i < kOctet; ++i) {
        const uint32_t byte = static_cast<uint32_t>(code[j] >> (8 * i)) & 0xffu;
        sum_[j][i] = codec::add(sum_[j][i], Family::value(byte, d));
      }
    }
  }

  TERSE_DEVICE static float load_float(const uint8_t* from) {
    if constexpr (fast)
      return codec::bits_float(simt::load(reinterpret_cast<const uint32_t*>(from)));
    else
      return codec::bits_float(load_bits<4>(from));
  }

  TERSE_DEVICE static void store_float(uint8_t* to, float value) {
    if constexpr (fast)
      simt::store(reinterpret_cast<uint32_t*>(to), codec::float_bits(value));
    else
      store_bits<4>(to, codec::float_bits(value));
  }

  TERSE_DEVICE static codec::Params load_params(const uint8_t* from) {
    codec::Params p{load_float(from), 0};
    if constexpr (kParams == 2) p.second = load_float(from + 4);
    return p;
  }

  TERSE_DEVICE void store_params(uint8_t* body, uint32_t j, const codec::Params& p) const {
    uint8_t* to = params(body, j);
    store_float(to, p.first);
    if constexpr (kParams == 2) store_float(to + 4, p.second);
  }

  // The zero bytes between codes and parameters, behind the piece's last octet.
  TERSE_DEVICE void store_padding(uint8_t* body, uint32_t j) const {
    if (rows_.elements[j] == 0 || element(j) + rows_.elements[j] != piece_.count) return;
    const uint64_t end = element(j) / kOctet * F::kBits + (rows_.elements[j] * F::kBits + 7) / 8;
    for (uint64_t at = end; at < piece_.params_offset; ++at) simt::store(body + at, uint8_t{0});
  }

  // A captured graph that runs again must draw anew.
  TERSE_DEVICE codec::Draw draw() const {
    return batch_.replays == nullptr ? piece_.draw
                                     : codec::redraw(piece_.draw, simt::load(batch_.replays));
  }

  TERSE_DEVICE float shift(uint32_t j) const {
    if constexpr (F::kRounding == codec::Rounding::kShift) {
      const uint64_t e = piece_.origin + first_ + rows_.block[j] * batch_.geometry.block;
      const codec::PhiloxWords words = codec::draw_group(draw(), e / codec::kElementsPerDraw);
      return codec::uniform(codec::draw_bits(words, 0)) - 0.5f;
    }
    return 0;
  }

  TERSE_DEVICE uint64_t encode(uint32_t j, const codec::Params& p) const {
    if (Family::flat(p) || !codec::is_finite(p.first)) return 0;
    const typename Family::Quantizer q = Family::quantizer(p, F::kBits);
    codec::PhiloxWords words{};
    if constexpr (F::kRounding == codec::Rounding::kStochastic)
      words = codec::draw_group(draw(), (piece_.origin + element(j)) / codec::kElementsPerDraw);
    uint32_t code[kOctet];
    TERSE_UNROLL
    for (uint32_t i = 0; i < kOctet; ++i) {
      if constexpr (F::kRounding == codec::Rounding::kStochastic)
        code[i] = codec::code_stochastic(sum_[j][i], q, codec::draw_bits(words, i));
      else
        code[i] = codec::code_nearest(sum_[j][i], q);
      // The missing ones of a short octet are zero; those of one that is not there go nowhere.
      if (!fast && !has(j, i)) code[i] = 0;
    }
    return simt::low_bytes(code[0], code[1], code[2], code[3]) |
           static_cast<uint64_t>(simt::low_bytes(code[4], code[5], code[6], code[7])) << 32;
  }

  const Batch& batch_;
  const Piece& piece_;
  const uint64_t first_;        // element of the piece
  const uint64_t first_block_;  // block of the piece
  const Rows rows_;
  float sum_[kRows][kOctet];
};

template <class F, bool packed_target, bool fast>
TERSE_DEVICE void combine_tile(const Batch& batch, const Piece& piece, uint64_t tile,
                               Shared<typename F::Stats>& shared) {
  Tile<F, fast> work(batch, piece, tile);
  work.sum_sources();
  if constexpr (packed_target)
    work.store_packed(shared);
  else
    work.store_raw();
}

// The tiles of one kind: all loads and stores whole and aligned, or not.
template <class F, bool packed_target, bool fast>
TERSE_DEVICE void combine_tiles(const Batch& batch, Shared<typename F::Stats>& shared) {
  const Geometry& g = batch.geometry;
  const uint32_t warps = simt::block_size() / simt::kWarp;
  const uint64_t units = g.whole ? simt::grid_size() : uint64_t{simt::grid_size()} * warps;
  uint64_t unit = simt::block_index();
  if (!g.whole) unit = unit * warps + simt::thread_index() / simt::kWarp;
  uint32_t p = 0;
  for (uint64_t tile = unit; tile < batch.tiles; tile += units) {
    while (p + 1 < batch.pieces && tile >= batch.piece[p + 1].first_tile) ++p;
    const Piece& piece = batch.piece[p];
    const uint64_t own = tile - piece.first_tile;
    const uint64_t end = (own + 1) * g.blocks_per_tile * g.block;
    if (fast == (piece.aligned && end <= piece.count))
      combine_tile<F, packed_target, fast>(batch, piece, own, shared);
  }
}

// The kernel. kThreads threads to a thread block, any number of thread blocks. Two passes over the
// tiles, each of which does its own kind: one loop over both would need the registers of both.
template <class F, bool packed_target>
TERSE_DEVICE void combine(const Batch& batch, Shared<typename F::Stats>& shared) {
  combine_tiles<F, packed_target, true>(batch, shared);
  combine_tiles<F, packed_target, false>(batch, shared);
}

}  // namespace terse::kernels
