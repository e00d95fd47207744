// One kernel for a whole call: each rank packs into the windows of its peers, raises flags there,
// waits for theirs, adds up, and so on (plan/fuse.h). All ranks run it with the same grid.
//
// A unit of threads, a warp or a thread block, is a chain of its own: it takes a tile through all
// stages, with the same unit of every peer. What it writes lies before its flag, and what peers
// have written before theirs is there when it reads. Nothing is read from a peer's window.
//
// A place is written anew only when its reader is done with it. With two meetings, the other one's
// flag of the same call says so; with one, calls use two slots by turns, and the flag of the call
// between says it. Both hold for kernels as a whole, whatever the unit that had the tile.
#pragma once

#include "kernels/device/combine.h"
#include "kernels/device/exchange.h"
#include "kernels/device/meetings.h"

namespace terse::kernels {

// True for formats that fused kernels take: a block's parameters come of one look at it, and codes
// stand for values by themselves.
template <class F>
constexpr bool kFuses = !F::kTransforms && !codec::HasCodebook<typename F::Codec> &&
                        !codec::Chooses<typename F::Codec> && !codec::SharesGrid<typename F::Codec>;

// Format whose packed memory is in windows.
template <class F>
struct InWindows : F {
  static constexpr bool kHasSlots = true;
};

template <class F>
struct FusedShared {
  Shared<typename F::Stats> stats;
  uint32_t vote;
};

template <class F>
class Chain {
  using Tile = kernels::Tile<F>;

 public:
  TERSE_DEVICE Chain(const FusedPieces& batch, const Exchange& exchange, FusedShared<F>& shared)
      : batch_(batch),
        exchange_(exchange),
        shared_(shared),
        unit_(batch.geometry.whole),
        meetings_(unit_, exchange, shared.vote),
        own_(meetings_.header(exchange.self)->unit),
        turns_(exchange.slot_bytes != 0 ? simt::load(&own_[unit_.warp()].turns) : 0),
        rows_(batch.geometry),
        factor_(multiplier<typename F::Raw>(batch.premultiply)),
        content_(kernels::content<F, true>(batch)) {}

  TERSE_DEVICE void run() {
    WindowHeader::Unit& state = own_[unit_.index()];
    // A call before it may have been left in its middle: its places are still to be read.
    if (meetings_.is_left()) return meetings_.give_up();
    Epochs epochs{{simt::load(&state.epoch[0]), simt::load(&state.epoch[1])}};
    const uint32_t left = exchange_.tiles - unit_.index();
    const uint32_t laps =
        unit_.index() < exchange_.tiles ? (left + unit_.count() - 1) / unit_.count() : 0;
    const uint32_t last = epochs.of[0] + laps;
    TERSE_NO_UNROLL
    for (uint32_t tile = unit_.index(); tile < exchange_.tiles; tile += unit_.count())
      if (!carry_through(tile, epochs, last)) return meetings_.give_up();
    unit_.sync();  // all have read what changes now
    if (unit_.thread() == 0) {
      simt::store(&state.epoch[0], epochs.of[0]);
      simt::store(&state.epoch[1], epochs.of[1]);
    }
    if (exchange_.slot_bytes != 0) turn();
  }

 private:
  struct Epochs {
    uint32_t of[2];  // by Meeting
  };

  // Turns the slot, also for warps that the next kernel has and this one has not.
  TERSE_DEVICE void turn() const {
    const uint32_t warps = unit_.warps();
    TERSE_NO_UNROLL
    for (uint32_t lane = simt::thread_index() % simt::kWarp, warp = unit_.warp() + lane * warps;
         warp < exchange_.max_warps; warp += simt::kWarp * warps)
      simt::store(&own_[warp].turns, turns_ + 1);
  }

  // Takes a tile through all stages. Returns false if the rank gives up. `last`: epoch of the
  // unit's last lap in this call.
  TERSE_DEVICE bool carry_through(uint32_t tile, Epochs& epochs, uint32_t last) const {
    const uint32_t behind_pushes = exchange_.pushes, behind_makes = behind_pushes + exchange_.makes;
    uint32_t piece = 0;
    TERSE_NO_UNROLL
    for (uint32_t stage = exchange_.pushing ? 0 : 1; stage < 3; ++stage) {
      const uint32_t end = stage == 0 ? behind_pushes : stage == 1 ? behind_makes : batch_.pieces;
      const bool packs = stage == 0 || (stage == 1 && exchange_.sharing);
      TERSE_NO_UNROLL
      for (; piece < end; ++piece) combine(piece, tile, packs, stage == 1);
      if (!packs) continue;
      const bool is_second = stage == 1 && exchange_.pushing;
      const uint32_t epoch = is_second ? ++epochs.of[1] : ++epochs.of[0];
      if (!meetings_.meet(static_cast<Meeting>(is_second), epoch, last)) return false;
    }
    return true;
  }

  TERSE_DEVICE void combine(uint32_t number, uint32_t index, bool packs, bool shares) const {
    const Piece& piece = batch_.piece[number];
    if (uint64_t{index} * batch_.geometry.tile >= piece.count) return;
    const bool draws = shares ? exchange_.make_content : exchange_.push_content;
    const Tile tile(batch_, piece, index < piece.tiles.whole, index, rows_, draws ? content_ : 0,
                    nullptr, turns_ % 2 * exchange_.slot_bytes);
    if (!packs) return combine_tile<F, false>(tile, factor_, shared_.stats);
    combine_tile<F, true>(tile, factor_, shared_.stats);
    if (shares) share(tile);
  }

  // Copies what a tile has packed to the same place of all peers.
  TERSE_DEVICE void share(const Tile& tile) const {
    unit_.sync();
    const uint64_t next = tile.first() + tile.left;
    const bool is_last = next == tile.piece.count;
    const auto up = [&](uint64_t bytes) { return is_last ? (bytes + 3) / 4 * 4 : bytes; };
    const uint64_t blocks =
        tile.first_block() + (tile.left + batch_.geometry.block - 1) / batch_.geometry.block;
    const uint64_t codes = tile.first() / kVec8 * F::kBits;
    const uint64_t params = tile.first_block() * tile.params_stride();
    copy(tile, codes, up((next * F::kBits + 7) / 8));
    if constexpr (Tile::kHasParams)
      copy(tile, tile.piece.params_offset + params,
           tile.piece.params_offset + up(tile.params_end(blocks)));
  }

  // Copies bytes of the tile's piece, from `begin` to `end`. All windows are aligned alike.
  TERSE_DEVICE void copy(const Tile& tile, uint64_t begin, uint64_t end) const {
    struct alignas(16) Vector {
      uint32_t w[4];
    };
    uint8_t* const from = tile.packed_target() + begin;
    const uint64_t bytes = end - begin;
    uint64_t head = -reinterpret_cast<uintptr_t>(from) % sizeof(Vector);
    if (head > bytes) head = bytes;
    const uint64_t vectors = (bytes - head) / sizeof(Vector),
                   behind = head + vectors * sizeof(Vector);
    TERSE_NO_UNROLL
    for (uint64_t i = unit_.thread(); i < vectors; i += unit_.threads())
      copy_to_peers(reinterpret_cast<Vector*>(from + head) + i);
    TERSE_NO_UNROLL
    for (uint64_t i = unit_.thread(); i < head + bytes - behind; i += unit_.threads())
      copy_to_peers(from + (i < head ? i : i - head + behind));
  }

  template <class Word>
  TERSE_DEVICE void copy_to_peers(Word* own) const {
    const Word word = simt::load(own);
    TERSE_NO_UNROLL
    for (uint32_t k = 1; k < exchange_.ranks; ++k) {
      uint32_t peer = exchange_.self + k;
      if (peer >= exchange_.ranks) peer -= exchange_.ranks;
      const ptrdiff_t there = exchange_.window[peer] - exchange_.window[exchange_.self];
      simt::store(reinterpret_cast<Word*>(reinterpret_cast<char*>(own) + there), word);
    }
  }

  const FusedPieces& batch_;
  const Exchange& exchange_;
  FusedShared<F>& shared_;
  const Unit unit_;
  const Meetings meetings_;
  WindowHeader::Unit* const own_;
  const uint32_t turns_;
  const Rows rows_;
  const float factor_;
  const uint64_t content_;
};

// The kernel. kThreads threads to a thread block; at most kMaxFusedBlocks thread blocks, all of
// which run at once.
template <class F>
TERSE_DEVICE void fused(const FusedPieces& batch, const Exchange& exchange,
                        FusedShared<InWindows<F>>& shared) {
  Chain<InWindows<F>>(batch, exchange, shared).run();
}

}  // namespace terse::kernels
