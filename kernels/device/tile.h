// Tile: its layout in memory, and its blocks' parameters.
#pragma once

#include "codec/codecs.h"
#include "kernels/device/thread_rows.h"
#include "kernels/device/vec8.h"

namespace terse::kernels {

template <class Codec_, int bits_, codec::Rounding rounding_, class Raw_, bool transforms_>
struct Format {
  using Codec = Codec_;
  using Raw = Raw_;
  using Stats = typename Codec::Stats;
  static constexpr int kBits = bits_;
  static constexpr codec::Rounding kRounding = rounding_;
  static constexpr bool kTransforms = transforms_;
  // True if packed memory is of windows, in one of two slots.
  static constexpr bool kHasSlots = false;
};

// One tile of one body, on one unit of threads.
template <class F>
struct Tile {
  using Batch = std::conditional_t<F::kHasSlots, FusedPieces, kernels::Batch>;
  using Piece = typename Batch::Piece;
  using Sources = typename Batch::Sources;
  using Place = std::conditional_t<F::kHasSlots, uint64_t, uint32_t>;
  // True if places are better computed anew than kept.
  static constexpr bool kFewRegisters = F::kTransforms || (F::kHasSlots && F::kBits == 16);
  using Codec = typename F::Codec;
  static constexpr codec::Descriptor kCodec = Codec::kDescriptor;
  static constexpr bool kHasParams = kCodec.params != 0;
  static constexpr bool kHasFinerScales = codec::HasFinerScales<Codec>;
  // False if parameters are stored in one way alone, so that the compiler knows it.
  static constexpr bool kChooses = kCodec.scales != codec::choices(kCodec.default_scale);

  // `place`: of packed memory, bytes into each window; or the number of the body in its run.
  TERSE_DEVICE Tile(const Batch& batch, const Piece& piece, bool whole, uint32_t tile,
                    const Rows& rows, uint64_t content, const float* levels, Place place)
      : batch(batch),
        piece(piece),
        whole(whole),
        left(left_of(piece.count - uint64_t{tile} * batch.geometry.tile, batch.geometry.tile)),
        rows(rows),
        content(content),
        levels(levels),
        tile_(tile),
        first_(uint64_t{tile} * batch.geometry.tile),
        first_block_(uint64_t{tile} * batch.geometry.blocks_per_tile),
        place_(place) {}

  TERSE_DEVICE codec::Form form() const {
    return {F::kBits, kChooses ? batch.scale : kCodec.default_scale, F::kRounding,
            codec::SharesGrid<Codec> ? batch.ranks : 1};
  }

  // Bytes of a block's parameters: without the finer scales, and of a whole block with them.
  TERSE_DEVICE size_t params_bytes() const {
    return kCodec.params * codec::number_bytes(form().scale);
  }

  TERSE_DEVICE size_t params_stride() const {
    if constexpr (kHasFinerScales) return params_bytes() + batch.geometry.block / kCodec.fine;
    return params_bytes();
  }

  // First element and block of the body.
  TERSE_DEVICE uint64_t first() const {
    return kFewRegisters ? uint64_t{anew(tile_)} * batch.geometry.tile : first_;
  }
  TERSE_DEVICE uint64_t first_block() const {
    return kFewRegisters ? uint64_t{anew(tile_)} * batch.geometry.blocks_per_tile : first_block_;
  }

  TERSE_DEVICE uint8_t* packed_target() const { return raw_target() + slot(); }
  TERSE_DEVICE uint8_t* raw_target() const {
    uint8_t* const first = static_cast<uint8_t*>(piece.target);
    if constexpr (F::kHasSlots)
      return first;
    else
      return first + anew(place_) * piece.next_target;
  }
  TERSE_DEVICE const uint8_t* source(const Sources& run, uint32_t i) const {
    const uint8_t* const first = static_cast<const uint8_t*>(run.data) + i * run.stride;
    if constexpr (F::kHasSlots)
      return first + (run.packed ? slot() : 0);
    else
      return first + anew(place_) * run.next;
  }

  // Returns true if row j's vec8 is one of four that are transformed together and have all their
  // elements.
  TERSE_DEVICE bool in_whole_group(uint32_t j) const {
    const uint32_t group = rows.at(j) / codec::kHadamard * codec::kHadamard;
    return whole || (elements(j) != 0 && group + codec::kHadamard <= left);
  }

  // How many elements row j's vec8 has, 0 to 8.
  TERSE_DEVICE uint32_t elements(uint32_t j) const {
    return whole ? kVec8 : rows.elements(j, left);
  }

  // Each row's value is what load.operator()<access>(j, elements) gives. Of a whole tile all are
  // loaded at once; of others one after the other, by a piece of code that is there once.
  template <class Value, class Load>
  TERSE_DEVICE void load_rows(Value (&value)[kRows], const Load& load) const {
    if (whole) {
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j)
        value[j] = load.template operator()<Access::kWhole>(j, kVec8);
      return;
    }
    TERSE_NO_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      rotate(value);
      value[kRows - 1] = load.template operator()<Access::kAny>(j, rows.elements(j, left));
    }
  }

  // store.operator()<access>(j, elements, value) for each row's, likewise.
  template <class Value, class Store>
  TERSE_DEVICE void store_rows(Value (&value)[kRows], const Store& store) const {
    if (whole) {
      TERSE_UNROLL
      for (uint32_t j = 0; j < kRows; ++j)
        store.template operator()<Access::kWhole>(j, kVec8, value[j]);
      return;
    }
    TERSE_NO_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      store.template operator()<Access::kAny>(j, rows.elements(j, left), value[0]);
      rotate(value);
    }
  }

  // Every thread is answerable for the parameters of one row's block; one of those that are for
  // the same one writes them.
  TERSE_DEVICE bool has_own_block() const { return whole || rows.has_own_block(left); }
  TERSE_DEVICE bool leads() const { return rows.leads() && has_own_block(); }

  template <class Byte>
  TERSE_DEVICE Byte* codes(Byte* body, uint32_t j) const {
    return body + first() / kVec8 * F::kBits + rows.at(j) / kVec8 * F::kBits;
  }

  template <class Byte>
  TERSE_DEVICE Byte* own_params(Byte* body) const {
    return body + piece.params_offset + own_block() * params_stride();
  }

  TERSE_DEVICE uint64_t own_block() const { return first_block() + rows.block(rows.own_row()); }

  // The finer scale of row j's vec8.
  template <class Byte>
  TERSE_DEVICE Byte* fine_scale(Byte* body, uint32_t j) const {
    const uint32_t block = rows.block(j);
    const uint32_t place = place_in_block(j) / kCodec.fine;
    return body + piece.params_offset + (first_block() + block) * params_stride() + params_bytes() +
           place;
  }

  TERSE_DEVICE codec::Params load_params(const uint8_t* from) const {
    codec::Params p;
    if constexpr (kHasParams) p.first = load_number(from);
    if constexpr (kCodec.params == 2) p.second = load_number(from + 4);
    return p;
  }

  // Bytes of the parameters of the piece's first `blocks` blocks.
  TERSE_DEVICE uint64_t params_end(uint64_t blocks) const {
    uint64_t end = blocks * params_stride();
    const uint64_t next = blocks * batch.geometry.block;
    if constexpr (kHasFinerScales)
      if (next > piece.count) end -= (next - piece.count) / kCodec.fine;
    return end;
  }

  // Stores the parameters of the row's own block; behind the last block, zero bytes up to a whole
  // word.
  TERSE_DEVICE void store_params(uint8_t* body, const codec::Params& p) const {
    uint8_t* const to = own_params(body);
    store_number(to, p.first);
    if constexpr (kCodec.params == 2) store_number(to + 4, p.second);
    const uint64_t blocks = own_block() + 1, end = params_end(blocks);
    if (end % 4 == 0 || blocks * batch.geometry.block < piece.count) return;
    TERSE_NO_UNROLL
    for (uint64_t at = end; at % 4 != 0; ++at)
      simt::store(body + piece.params_offset + at, uint8_t{0});
  }

  // The zero bytes up to a whole word, behind the piece's last vec8: by the thread that has it.
  TERSE_DEVICE void store_padding(uint8_t* body, uint32_t j, uint32_t n) const {
    const uint64_t element = first() + rows.at(j);
    if (n == 0 || element + n != piece.count) return;
    TERSE_NO_UNROLL
    for (uint64_t at = element / kVec8 * F::kBits + (n * F::kBits + 7) / 8; at % 4 != 0; ++at)
      simt::store(body + at, uint8_t{0});
  }

  // A captured graph that runs again must draw anew; and what has changed since it was sent last.
  TERSE_DEVICE codec::Draw draw() const {
    codec::Draw draw = piece.draw;
    if constexpr (!F::kHasSlots) draw.stream[1] += anew(place_) * piece.next_stream;
    if (F::kRounding == codec::Rounding::kNearest) return draw;
    if (batch.replays != nullptr) draw = codec::redraw(draw, simt::load(batch.replays));
    return codec::redraw(draw, content);
  }

  // The random bits of the own block's first element, which is the first one of a group.
  TERSE_DEVICE uint16_t own_bits(const codec::Draw& draw) const {
    const uint64_t element = piece.origin + own_block() * batch.geometry.block;
    return codec::draw_bits(codec::draw_group(draw, element / codec::kElementsPerDraw), 0);
  }

  // The place of row j's vec8 in its block.
  TERSE_DEVICE uint32_t place_in_block(uint32_t j) const {
    return rows.at(j) - rows.block(j) * batch.geometry.block;
  }

  TERSE_DEVICE codec::PhiloxWords random_of(uint32_t j, const codec::Draw& draw) const {
    if constexpr (F::kRounding == codec::Rounding::kStochastic)
      return codec::draw_group(draw,
                               (piece.origin + first() + rows.at(j)) / codec::kElementsPerDraw);
    return {};
  }

  const Batch& batch;
  const Piece& piece;
  const bool whole;     // memory is aligned, and every thread has all its vectors of 8
  const uint32_t left;  // elements of the tile
  const Rows& rows;
  const uint64_t content;     // by which draws change; 0: they do not
  const float* const levels;  // in shared memory; null where the codec has none

 private:
  const uint32_t tile_;
  const uint64_t first_, first_block_;
  const Place place_;

  // Number that is the same, but of which nothing is kept in registers where these are few.
  TERSE_DEVICE static uint32_t anew(uint32_t value) {
    return F::kTransforms ? simt::opaque(value) : value;
  }

  TERSE_DEVICE uint64_t slot() const {
    if constexpr (F::kHasSlots)
      return place_;
    else
      return 0;
  }

  TERSE_DEVICE static uint32_t left_of(uint64_t elements, uint32_t tile) {
    return elements > tile ? tile : static_cast<uint32_t>(elements);
  }

  // Rotates the rows' values, so that registers need no index.
  template <class Value>
  TERSE_DEVICE static void rotate(Value (&value)[kRows]) {
    const Value first = value[0];
    TERSE_UNROLL
    for (uint32_t j = 0; j + 1 < kRows; ++j) value[j] = value[j + 1];
    value[kRows - 1] = first;
  }

  template <class Word>
  TERSE_DEVICE bool aligned(const uint8_t* at) const {
    return whole || is_aligned<Word>(at);
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
};

}  // namespace terse::kernels
