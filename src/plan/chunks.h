// Cut of a message: into shards, one for each rank, and all shards alike into chunks, so that
// encode, transfer and decode of different chunks overlap while scratch stays bounded.
#pragma once

#include <algorithm>
#include <cstddef>

#include "plan/plan.h"

namespace terse::plan {

// Stands for no step, or no chunk.
constexpr size_t kNone = static_cast<size_t>(-1);

// Interval of elements of one shard.
struct Range {
  size_t first = 0, count = 0;
};

// How chunks differ from those of a shard for each rank, each of which is a message.
struct ChunkCut {
  size_t quantum = 0;   // elements of which a chunk's shards are multiples; 0: the shape's
  size_t messages = 0;  // in which a chunk goes, by the policy; 0: as many as shards
  size_t max_chunks = ChunkPolicy::kMaxChunks;
};

// `shards` shards of `shard` elements each, `total` in all: the last ones may be short or empty. In
// scratch a chunk in flight has a slot of `rows` rows, each with a packed shard per rank, or as
// many as this rank has `places` for. All ranks cut alike; ranks with other places may have other
// numbers of slots.
class Chunks {
 public:
  static constexpr size_t kAlignment = 64;
  static constexpr size_t kMaxSlots = 8;

  Chunks(const Shape& shape, size_t shard, size_t shards, size_t total, size_t rows,
         size_t places = 0, const ChunkCut& cut = {})
      : shard_(shard), places_(places != 0 ? places : shards), total_(total), rows_(rows) {
    const size_t wanted = shape.chunk(total, cut.messages != 0 ? cut.messages : shards);
    const size_t per_shard = std::max<size_t>(1, wanted / shape.element_bytes / shards);
    const size_t chunks =
        std::clamp<size_t>((shard + per_shard - 1) / per_shard, 1, cut.max_chunks);
    // Chunks of equal size, in whole blocks.
    step_ = round_up(std::max<size_t>(1, (shard + chunks - 1) / chunks),
                     cut.quantum != 0 ? cut.quantum : shape.quantum());
    count_ = std::max<size_t>(1, (shard + step_ - 1) / step_);
    stride_ = round_up(std::max(shape.packing.bytes(longest()),
                                shape.sum.repacks() ? shape.sum.packing.bytes(longest()) : 0),
                       kAlignment);
    // Slots for chunks in flight: at most as much as the packed message and two chunks.
    const size_t cost = rows * std::max<size_t>(1, shard * places_ / total);
    slots_ = std::clamp<size_t>((count_ + 2) / cost, 1, std::min(count_, kMaxSlots));
  }

  size_t count() const { return count_; }
  size_t slots() const { return slots_; }
  size_t longest() const { return std::min(step_, shard_); }  // max elements of a shard in a chunk
  size_t packed_bytes() const { return stride_; }             // bytes of those, packed

  size_t scratch_bytes() const { return slots_ * rows_ * places_ * stride_; }

  // Place of the packed shard `p` of chunk `c` in scratch, aligned for any access.
  Place place(size_t c, size_t row, size_t p) const {
    return {Region::kScratch, ((c % slots_ * rows_ + row) * places_ + p) * stride_};
  }

  // Chunk that must be done before `c` may take its slot; kNone for the first ones.
  size_t before(size_t c) const { return c < slots_ ? kNone : c - slots_; }

  // Chunk `c` of shard `p`, within the shard.
  Range range(size_t p, size_t c) const {
    const size_t begin = std::min(p * shard_, total_);
    const size_t length = std::min(shard_, total_ - begin);
    const size_t first = std::min(c * step_, length);
    return {first, std::min(step_, length - first)};
  }

  static size_t round_up(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }

 private:
  size_t shard_, places_, total_, rows_;
  size_t step_, count_, stride_, slots_;
};

}  // namespace terse::plan
