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

#include "encoder.h"
#include "levels.h"
#include "merger.h"
#include "sums.h"
#include "tile.h"

namespace terse::kernels {

// What the threads of a thread block share.
template <class F, bool packed_target>
struct Common {
  Shared<typename F::Stats> stats;
  Levels<F, packed_target> levels;
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
                                uint32_t units, float multiplier, const float* levels,
                                Shared<typename F::Stats>& shared) {
  const Rows<access> rows(batch.geometry);
  uint32_t p = 0;
  for (; tile < batch.tiles.*sort; tile += units) {
    while (p + 1 < batch.pieces && tile >= batch.piece[p + 1].first.*sort) ++p;
    const Piece& piece = batch.piece[p];
    uint32_t own = tile - piece.first.*sort;
    if (access != Access::kWhole) own += piece.whole_tiles;
    const Tile<F, access> at(batch, piece, own, rows, levels);
    if constexpr (packed_target && kCanMerge<F>) {
      if (batch.part == codec::Part::kMerged) {
        Merger<F, access>(at).store_merged();
        continue;
      }
    }
    Sums<F, access> sums(at, multiplier);
    sums.add_sources();
    if constexpr (packed_target)
      Encoder<F, access>(at, sums).store_packed(shared);
    else {
      if constexpr (F::kTransforms) sums.restore();
      sums.store_raw();
    }
  }
}

// The kernel. kThreads threads to a thread block, any number of thread blocks.
template <class F, bool packed_target>
TERSE_DEVICE void combine(const Batch& batch, Common<F, packed_target>& common) {
  const bool block = batch.geometry.whole;  // are the units
  const uint32_t warps = simt::block_size() / simt::kWarp;
  const uint32_t units = block ? simt::grid_size() : simt::grid_size() * warps;
  uint32_t unit = simt::block_index();
  if (!block) unit = unit * warps + simt::thread_index() / simt::kWarp;
  const float factor = multiplier<typename F::Raw>(batch.premultiply);
  const float* const levels = common.levels.load(batch.codebook);
  combine_tiles<F, packed_target, Access::kWhole>(batch, &Tiles::whole, unit, units, factor, levels,
                                                  common.stats);
  // The units that had a whole tile less go first.
  unit = (unit + units - batch.tiles.whole % units) % units;
  combine_tiles<F, packed_target, Access::kAny>(batch, &Tiles::partial, unit, units, factor, levels,
                                                common.stats);
}

}  // namespace terse::kernels
