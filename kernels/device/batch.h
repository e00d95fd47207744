// Parameters of one kernel launch: the pieces to work on, and how their blocks lie on the threads.
// They travel by value, so that a captured launch needs no other memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "codec/codec.h"
#include "codec/draw.h"
#include "codec/layout.h"

namespace terse::kernels {

// A thread works on vectors of 8: eight neighbouring elements, whose codes fill whole bytes and
// whose random numbers are one Philox block. It has this many of them at a time, one in each row.
constexpr uint32_t kVec8 = 8;
constexpr uint32_t kRowBits = 2, kRows = 1u << kRowBits;
constexpr uint32_t kWarpShift = 5;  // a warp has 2^5 threads

// Threads of a thread block: enough for the largest block of elements in kRows rows.
constexpr uint32_t kThreads = codec::kMaxBlock / kVec8 / kRows;
constexpr uint32_t kWarps = kThreads >> kWarpShift;

// How blocks of elements lie on threads. A team of neighbouring threads shares a block: thread t of
// it has vectors of 8 t, t + team, ... in the rows that belong to the block. Teams are parts of a
// warp or whole warps; where a block takes more, a team is several warps of a thread block, all of
// which then work on a tile together.
struct Geometry {
  uint32_t block;           // elements
  uint32_t vectors;         // of a block
  uint32_t team_shift;      // a team has 2^team_shift threads
  uint32_t rows_shift;      // a block has 2^rows_shift rows
  uint32_t blocks_per_row;  // teams that work on a tile
  uint32_t blocks_per_tile;
  uint32_t tile;                  // elements
  uint32_t row_stride[kRowBits];  // elements that each bit of a row's number is worth
  bool dense;  // a power of two is the block's size, so that every thread has all its rows
  bool whole;  // all threads of a thread block work on a tile; otherwise a warp
};

Geometry make_geometry(uint32_t block);

// Tiles that are all there, in aligned memory (raw to 16 bytes, packed to 8), of dense blocks; and
// all others.
struct Tiles {
  uint32_t whole, partial;

  bool operator==(const Tiles&) const = default;
};

constexpr uint64_t kMaxTiles = uint64_t{1} << 31;  // of a batch: 2^41 elements

// Sources of one kind at equal distances.
struct Sources {
  const void* data;
  uint64_t stride;  // bytes
  uint32_t count;
  bool packed;
  bool negated;  // raw ones: they are taken from the sum
};

// Sources of every body of a run.
struct SourcesOfRun : Sources {
  uint64_t next;  // bytes from those of a body to those of the next one
};

// Work on one body, packed or raw.
struct Piece {
  void* target;
  uint64_t count;          // elements
  uint64_t params_offset;  // bytes, in every packed body of the piece
  Tiles first;             // the numbers of the piece's first ones: after those of the piece before
  Tiles tiles;             // of a body; its partial ones follow its whole ones
  uint64_t origin;         // number of the first element for the random numbers
  codec::Draw draw;
  float factor;
  uint16_t first_sources, sources;  // in the batch's list
};

// Same work on bodies at equal distances.
struct PieceRun : Piece {
  uint64_t next_target;  // bytes from a body's target to the next one's
  uint32_t next_stream;  // added to the draw's second stream number from body to body
  uint32_t bodies;
};

// What all pieces of a launch share.
struct BatchHead {
  Geometry geometry;
  Tiles tiles;
  const uint64_t* replays;  // by what draws change; null: they do not
  const uint64_t* content;  // parts of a check, by whose sum they change then; null: they do not
  codec::Multiplier premultiply;
  codec::Number scale;  // how parameters are stored
  codec::Part part;     // of packed targets
  uint16_t ranks;       // that share a grid
  uint32_t content_parts;
  uint32_t pieces;
  const float* codebook;    // of a learned codec; null: its levels are equally far from each other
  const uint32_t* verdict;  // where it is not 0 nothing is done; may be null
};

template <class Piece_, size_t max_pieces, class Sources_, size_t max_sources>
struct BatchOf : BatchHead {
  using Piece = Piece_;
  using Sources = Sources_;
  static constexpr size_t kMaxPieces = max_pieces, kMaxSources = max_sources;

  Piece piece[kMaxPieces];
  Sources sources[kMaxSources];
};

using Batch = BatchOf<PieceRun, 26, SourcesOfRun, 40>;
// Pieces of a fused kernel: each rank has a window of its own, and these lie anywhere.
using FusedPieces = BatchOf<Piece, 32, Sources, 40>;
static_assert(sizeof(Batch) <= 4096, "what every driver takes as a kernel's parameters");

// Kernel that does a batch.
struct KernelId {
  codec::Spec spec;
  codec::Dtype raw;  // of all raw memory
  bool packed_target;
  bool transforms;                       // raw elements, before they meet packed ones, and back
  codec::Part part = codec::Part::kAll;  // of packed targets

  bool operator==(const KernelId&) const = default;
};

// The thread blocks that would give each tile a unit of its own.
uint64_t thread_blocks(const Batch& batch);

// Work as batches, as few as possible: works that do not depend on each other. Neighbours that
// differ in equal distances alone are one piece. All must be whole bodies (first 0, count total)
// with one raw type each. Throws std::invalid_argument otherwise.
void make_batches(std::span<const codec::Combine> works, const uint64_t* replays,
                  const std::function<void(const KernelId&, const Batch&)>& launch);

}  // namespace terse::kernels
