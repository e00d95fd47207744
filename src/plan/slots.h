// Where the packed shards of collectives in two levels lie in scratch. A chunk has a slot, in which
// areas follow each other; an area has rows of shards, of the ranks at one place in their order,
// side by side, so that within a node a row goes as one message.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "plan/chunks.h"
#include "plan/plan.h"

namespace terse::plan {

class Slots {
 public:
  struct Area {
    size_t begin = 0;
    size_t stride = 0, last_stride = 0;  // from shard to shard; in the last chunk, which is short
    Format format = Format::kPacked;
  };

  Slots(const Shape& s, const Chunks& chunks, size_t per_row)
      : s_(s), chunks_(chunks), per_row_(per_row) {}

  // Of shards in the format; and of fp32 numbers.
  Area add(size_t rows, Format format) {
    return add(rows, format, [&](size_t count) { return s_.bytes(format, count); });
  }
  Area add_sums(size_t rows) {
    return add(rows, Format::kRaw, [](size_t count) { return 4 * count; });
  }

  // All of them.
  size_t bytes() const { return chunks_.slots() * slot_bytes_; }

  // The shard at `index` of a row.
  Place at(size_t c, const Area& area, size_t row, size_t index) const {
    return {Region::kScratch, c % chunks_.slots() * slot_bytes_ + area.begin +
                                  row * per_row_ * area.stride + index * stride(c, area)};
  }

  // A row of these shards, to or from a peer. Those that are short or empty are the last ones. Adds
  // nothing where all are empty.
  void push_row(Step& step, int peer, bool send, size_t c, const Area& area, size_t row,
                std::span<const size_t> shards) const {
    const auto count = [&](size_t shard) { return chunks_.range(shard, c).count; };
    const size_t length = std::ranges::find(shards, size_t{0}, count) - shards.begin();
    if (length == 0) return;
    step.transfers.push_back(
        {peer, send, at(c, area, row, 0),
         (length - 1) * stride(c, area) + s_.bytes(area.format, count(shards[length - 1]))});
  }

 private:
  template <class Bytes>
  Area add(size_t rows, Format format, const Bytes& bytes) {
    const auto stride = [&](size_t c) {  // no shard is longer than the first
      return Chunks::round_up(bytes(chunks_.range(0, c).count), Chunks::kAlignment);
    };
    const Area a{slot_bytes_, stride(0), stride(chunks_.count() - 1), format};
    slot_bytes_ += rows * per_row_ * a.stride;
    return a;
  }

  size_t stride(size_t c, const Area& area) const {
    return c == chunks_.count() - 1 ? area.last_stride : area.stride;
  }

  const Shape& s_;
  const Chunks& chunks_;
  const size_t per_row_;
  size_t slot_bytes_ = 0;
};

}  // namespace terse::plan
