// Scratch of collectives in levels: areas with slots for as many chunks as are in flight there. A
// slot has rows of packed shards side by side, of ranks that share digits (grid.h): a row goes as
// one message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "plan/chunks.h"
#include "plan/plan.h"

namespace terse::plan {

// Steps that use the slots of an area, in which the chunks take turns.
struct SlotUses {
  size_t slots = 1;
  std::vector<std::vector<size_t>> steps = {};  // by chunk, the steps that use its slot

  // Makes a step that uses the slot of a chunk wait for those of the chunk before, and notes it.
  // Does nothing if there is no such area.
  void wait(size_t c, Step& step) const {
    if (c < slots || steps.empty()) return;
    const std::vector<size_t>& before = steps[c - slots];
    step.after.insert(step.after.end(), before.begin(), before.end());
  }
  void add(size_t step, size_t c) {
    if (!steps.empty()) steps[c].push_back(step);
  }
};

class Slots {
 public:
  struct Area : SlotUses {
    size_t begin = 0;
    size_t per_row = 0;
    size_t stride = 0, last_stride = 0;  // from shard to shard; in the last chunk, which is short
    size_t slot_bytes = 0;
    Format format = Format::kPacked;
  };

  struct Rows {
    size_t rows, per_row;
  };

  Slots(const Shape& s, const Chunks& chunks) : s_(s), chunks_(chunks) {}

  // Adds an area of shards in the format, with so many slots if there are as many chunks; and one
  // of fp32 sums, which are made one after the other.
  Area add(Rows rows, Format format, size_t slots) {
    return add(rows, format, slots, [&](size_t count) { return s_.bytes(format, count); });
  }
  Area add_sums(Rows rows) {
    return add(rows, Format::kRaw, 1, [](size_t count) { return 4 * count; });
  }

  // Bytes of all areas; and removes them.
  size_t bytes() const { return bytes_; }
  void clear() { bytes_ = 0; }

  // Place of the shard at `index` of a row.
  Place at(size_t c, const Area& area, size_t row, size_t index) const {
    return {Region::kScratch, area.begin + c % area.slots * area.slot_bytes +
                                  row * area.per_row * area.stride + index * stride(c, area)};
  }

  // Sends or receives shards of a row from a place on. Those that are short or empty are the last
  // ones. Adds nothing if all are empty.
  void push_row(Step& step, int peer, bool send, size_t c, const Area& area, const Place& first,
                std::span<const size_t> shards) const {
    const auto count = [&](size_t shard) { return chunks_.range(shard, c).count; };
    const size_t length = std::ranges::find(shards, size_t{0}, count) - shards.begin();
    if (length == 0) return;
    step.transfers.push_back(
        {peer, send, first,
         (length - 1) * stride(c, area) + s_.bytes(area.format, count(shards[length - 1]))});
  }

 private:
  template <class Bytes>
  Area add(Rows rows, Format format, size_t slots, const Bytes& bytes) {
    const auto stride = [&](size_t c) {  // no shard is longer than the first
      return Chunks::round_up(bytes(chunks_.range(0, c).count), Chunks::kAlignment);
    };
    Area a{{}, bytes_, rows.per_row, stride(0), stride(chunks_.count() - 1)};
    a.slot_bytes = rows.rows * rows.per_row * a.stride;
    a.slots = std::min(slots, chunks_.count());
    a.format = format;
    a.steps.resize(chunks_.count());
    bytes_ += a.slots * a.slot_bytes;
    return a;
  }

  size_t stride(size_t c, const Area& area) const {
    return c == chunks_.count() - 1 ? area.last_stride : area.stride;
  }

  const Shape& s_;
  const Chunks& chunks_;
  size_t bytes_ = 0;
};

}  // namespace terse::plan
