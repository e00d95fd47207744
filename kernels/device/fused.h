// One kernel for a whole call: each rank packs into the windows of its peers, raises flags there,
// waits for theirs, adds up, and so on (plan/fuse.h). All ranks run it with the same grid.
//
// A unit of threads, a warp or a thread block, is a chain of its own: it takes a tile through all
// stages, with the same unit of every peer. What it writes lies before its flag, and what peers
// have written before theirs is there when it reads. Nothing is read from a peer's window.
//
// Flags count the laps of a unit over all calls, on the device, so that a graph may replay them. A
// place is written anew only when its reader is done with it. With two halves, the other half's
// flag of the same call says so; with one, calls use two slots by turns, and the flag of the call
// between says it. Both hold for kernels as a whole, whatever the unit that had the tile.
#pragma once

#include "kernels/arch/flags.h"
#include "kernels/device/combine.h"
#include "kernels/device/exchange.h"

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

// Threads that are a chain: a warp, or a thread block.
class Unit {
 public:
  TERSE_DEVICE explicit Unit(const Geometry& geometry)
      : is_block_(geometry.whole),
        warp_(simt::block_index() * (simt::block_size() / simt::kWarp) +
              simt::thread_index() / simt::kWarp) {}

  TERSE_DEVICE uint32_t warp() const { return warp_; }
  TERSE_DEVICE uint32_t index() const { return is_block_ ? simt::block_index() : warp_; }
  TERSE_DEVICE uint32_t count() const { return is_block_ ? simt::grid_size() : warps(); }
  // Of the grid.
  TERSE_DEVICE uint32_t warps() const {
    return simt::grid_size() * (simt::block_size() / simt::kWarp);
  }
  TERSE_DEVICE uint32_t threads() const { return is_block_ ? simt::block_size() : simt::kWarp; }
  TERSE_DEVICE uint32_t thread() const {
    return is_block_ ? simt::thread_index() : simt::thread_index() % simt::kWarp;
  }

  TERSE_DEVICE void sync() const {
    if (is_block_)
      simt::sync_block();
    else
      simt::sync_warp();
  }

  // Returns true if it is true on one of the unit's first threads, as many as a warp has. Before
  // the next time the unit syncs.
  TERSE_DEVICE bool any(bool own, uint32_t& shared) const {
    const bool of_warp = simt::ballot(own) != 0;
    if (!is_block_) return of_warp;
    if (simt::thread_index() == 0) simt::shared_store(shared, uint32_t{of_warp});
    simt::sync_block();
    return simt::shared_load(shared) != 0;
  }

 private:
  const bool is_block_;
  const uint32_t warp_;
};

template <class F>
class Chain {
  using Tile = kernels::Tile<F>;

 public:
  TERSE_DEVICE Chain(const Batch& batch, const Exchange& exchange, FusedShared<F>& shared)
      : batch_(batch),
        exchange_(exchange),
        shared_(shared),
        unit_(batch.geometry),
        own_(header(exchange.self)->unit),
        turns_(exchange.slot_bytes != 0 ? simt::load(&own_[unit_.warp()].turns) : 0),
        rows_(batch.geometry),
        factor_(multiplier<typename F::Raw>(batch.premultiply)),
        content_(kernels::content<F, true>(batch)) {}

  TERSE_DEVICE void run() {
    WindowHeader::Unit& state = own_[unit_.index()];
    // A call before it may have been left in its middle: its places are still to be read.
    if (unit_.any(unit_.thread() == 0 && simt::relaxed_load(exchange_.abort) != 0, shared_.vote))
      return give_up(state);
    uint32_t epoch = simt::load(&state.epoch);
    TERSE_NO_UNROLL
    for (uint32_t tile = unit_.index(); tile < exchange_.tiles; tile += unit_.count()) {
      if (!carry_through(tile, ++epoch)) return give_up(state);
    }
    unit_.sync();  // all have read what changes now
    if (unit_.thread() == 0) simt::store(&state.epoch, epoch);
    if (exchange_.slot_bytes != 0) turn();
  }

 private:
  // Turns the slot, also for warps that the next kernel has and this one has not.
  TERSE_DEVICE void turn() const {
    const uint32_t warps = unit_.warps();
    TERSE_NO_UNROLL
    for (uint32_t lane = simt::thread_index() % simt::kWarp, warp = unit_.warp() + lane * warps;
         warp < exchange_.max_warps; warp += simt::kWarp * warps)
      simt::store(&own_[warp].turns, turns_ + 1);
  }

  TERSE_DEVICE void give_up(WindowHeader::Unit& state) const {
    if (unit_.thread() == 0) simt::store(&state.gives_up, uint32_t{1});
  }

  TERSE_DEVICE WindowHeader* header(uint32_t rank) const {
    return reinterpret_cast<WindowHeader*>(exchange_.window[rank]);
  }

  // Takes a tile through all stages. Returns false if the rank gives up.
  TERSE_DEVICE bool carry_through(uint32_t tile, uint32_t epoch) const {
    const uint32_t behind_pushes = exchange_.pushes, behind_makes = behind_pushes + exchange_.makes;
    uint32_t piece = 0;
    TERSE_NO_UNROLL
    for (uint32_t stage = exchange_.pushing ? 0 : 1; stage < 3; ++stage) {
      const uint32_t end = stage == 0 ? behind_pushes : stage == 1 ? behind_makes : batch_.pieces;
      const bool packs = stage == 0 || (stage == 1 && exchange_.sharing);
      TERSE_NO_UNROLL
      for (; piece < end; ++piece) combine(piece, tile, packs, stage == 1);
      if (packs && !meet(static_cast<Half>(stage), epoch)) return false;
    }
    return true;
  }

  TERSE_DEVICE void combine(uint32_t number, uint32_t index, bool packs, bool shares) const {
    const Piece& piece = batch_.piece[number];
    if (uint64_t{index} * batch_.geometry.tile >= piece.count) return;
    const bool draws = shares ? exchange_.make_content : exchange_.push_content;
    const Tile tile(batch_, piece, index < piece.whole_tiles, index, rows_, draws ? content_ : 0,
                    nullptr, turns_ % 2 * exchange_.slot_bytes);
    if (!packs) return combine_tile<F, false>(tile, factor_, shared_.stats);
    combine_tile<F, true>(tile, factor_, shared_.stats);
    if (shares) share(tile);
  }

  // Copies what a tile has packed to the same place of all peers.
  TERSE_DEVICE void share(const Tile& tile) const {
    unit_.sync();
    const uint64_t next = tile.first + tile.left;
    const bool is_last = next == tile.piece.count;
    const auto up = [&](uint64_t bytes) { return is_last ? (bytes + 3) / 4 * 4 : bytes; };
    const uint64_t blocks =
        tile.first_block + (tile.left + batch_.geometry.block - 1) / batch_.geometry.block;
    const uint64_t codes = tile.first / kVec8 * F::kBits;
    const uint64_t params = tile.first_block * tile.params_stride();
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
    uint8_t* const from = static_cast<uint8_t*>(tile.piece.target) + tile.slot() + begin;
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

  // Raises the unit's flag at all peers, behind what it has stored, and waits for theirs. Returns
  // false if the rank gives up.
  TERSE_DEVICE bool meet(Half half, uint32_t epoch) const {
    unit_.sync();
    const uint32_t peer = unit_.thread();
    bool gives_up = false;
    if (peer < exchange_.ranks && peer != exchange_.self) {
      simt::release(&flags(peer, half)[exchange_.self], epoch);
      const uint32_t* const flag = &flags(exchange_.self, half)[peer];
      uint32_t spins = 0;
      while (static_cast<int32_t>(simt::acquire(flag) - epoch) < 0) {  // epochs wrap around
        gives_up = ++spins % simt::kSpinsPerLook == 0 && simt::relaxed_load(exchange_.abort) != 0;
        if (gives_up) break;
        simt::pause();
      }
    }
    gives_up = unit_.any(gives_up, shared_.vote);
    unit_.sync();
    return !gives_up;
  }

  TERSE_DEVICE uint32_t* flags(uint32_t rank, Half half) const {
    return header(rank)->flag[static_cast<uint32_t>(half)][unit_.index()];
  }

  const Batch& batch_;
  const Exchange& exchange_;
  FusedShared<F>& shared_;
  const Unit unit_;
  WindowHeader::Unit* const own_;
  const uint32_t turns_;
  const Rows rows_;
  const float factor_;
  const uint64_t content_;
};

// The kernel. kThreads threads to a thread block; at most kMaxFusedBlocks thread blocks, all of
// which run at once.
template <class F>
TERSE_DEVICE void fused(const Batch& batch, const Exchange& exchange,
                        FusedShared<InWindows<F>>& shared) {
  Chain<InWindows<F>>(batch, exchange, shared).run();
}

}  // namespace terse::kernels
