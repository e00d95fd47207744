// target = sum of the sources, each times the factor, for many bodies in one launch: encode,
// decode, decode and reduce, decode-reduce-encode are all cases of it, as they are of
// codec::combine on the host. The arithmetic is the codec's own (src/codec/block.h); here is only
// how it lies on threads.
//
// A warp takes a tile of kRows vectors of 8 per lane (1024 elements of blocks up to that size),
// loads all rows before it uses the first, and keeps the sums in registers. What is derived from a
// block's statistics or parameters, one lane derives for the others. Blocks of more than 1024
// elements take all threads of a thread block. The grid is persistent: units go from tile to tile.
#pragma once

#include "kernels/device/encoder.h"
#include "kernels/device/merger.h"
#include "kernels/device/shared_codebook.h"
#include "kernels/device/sum_parts.h"
#include "kernels/device/sums.h"
#include "kernels/device/tile.h"

namespace terse::kernels {

// Memory that the threads of a thread block share.
template <class F, bool packed_target>
struct Common {
  Shared<typename F::Stats> stats;
  SharedCodebook<F, packed_target> levels;
};

// Factor of raw sources.
template <class Raw>
TERSE_DEVICE float multiplier(const codec::Multiplier& m) {
  if (m.at == nullptr) return m.value;
  return element(load_vec8<Raw, Access::kAny>(static_cast<const uint8_t*>(m.at), 1), 0);
}

// What draws of the batch change by.
template <class F, bool packed_target>
TERSE_DEVICE uint64_t content(const BatchHead& batch) {
  constexpr bool draws = packed_target && F::kRounding != codec::Rounding::kNearest;
  return draws && batch.content != nullptr ? sum_parts(batch.content, batch.content_parts) : 0;
}

// Work of a unit of threads on one tile.
template <class F, bool packed_target>
TERSE_DEVICE void combine_tile(const Tile<F>& tile, float multiplier,
                               Shared<typename F::Stats>& shared) {
  if constexpr (packed_target && kCanMerge<F>)
    if (tile.batch.part == codec::Part::kMerged) return Merger<F>(tile).store_merged();
  Sums<F> sums(tile, multiplier);
  sums.add_sources();
  if constexpr (packed_target) {
    Encoder<F>(tile, sums).store_packed(shared);
  } else {
    if constexpr (F::kTransforms) sums.restore();
    sums.store_raw();
  }
}

// The kernel. kThreads threads to a thread block, any number of thread blocks. A unit has every
// `units`-th tile: of the whole ones of all pieces, then of the partial ones.
template <class F, bool packed_target>
TERSE_DEVICE void combine(const Batch& batch, Common<F, packed_target>& common) {
  if (batch.verdict != nullptr && simt::load(batch.verdict) != 0) return;
  const bool block = batch.geometry.whole;  // are the units
  const uint32_t warps = simt::block_size() / simt::kWarp;
  const uint32_t units = block ? simt::grid_size() : simt::grid_size() * warps;
  uint32_t tile = simt::block_index();
  if (!block) tile = tile * warps + simt::thread_index() / simt::kWarp;
  const float factor = multiplier<typename F::Raw>(batch.premultiply);
  const float* const levels = common.levels.load(batch.codebook);
  const uint64_t content = kernels::content<F, packed_target>(batch);
  const Rows rows(batch.geometry);
  bool whole = true;
  TERSE_NO_UNROLL
  for (uint32_t sort = 0; sort < 2; ++sort, whole = false) {
    const auto of = [whole](const Tiles& tiles) { return whole ? tiles.whole : tiles.partial; };
    uint32_t p = 0;
    for (; tile < of(batch.tiles); tile += units) {
      while (p + 1 < batch.pieces && tile >= of(batch.piece[p + 1].first)) ++p;
      const PieceRun& piece = batch.piece[p];
      const uint32_t of_piece = tile - of(piece.first);
      const uint32_t body = piece.bodies == 1 ? 0 : of_piece / of(piece.tiles);
      const uint32_t own = of_piece - body * of(piece.tiles) + (whole ? 0 : piece.tiles.whole);
      combine_tile<F, packed_target>({batch, piece, whole, own, rows, content, levels, body},
                                     factor, common.stats);
    }
    tile -= of(batch.tiles);  // the units that had a tile less go first
  }
}

}  // namespace terse::kernels
