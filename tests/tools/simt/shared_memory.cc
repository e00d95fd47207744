#include "shared_memory.h"

#include <fmt/format.h>

#include <algorithm>

#include "processor.h"

namespace terse::simt::internal {

SharedMemory::SharedMemory(size_t bytes, size_t alignment, uint32_t warps)
    : bytes_(bytes),
      memory_(static_cast<std::byte*>(::operator new(bytes, std::align_val_t(alignment))),
              Free{alignment}),
      words_((bytes + kWordBytes - 1) / kWordBytes),
      is_split_(words_.size()),
      warp_time_(warps) {}

void SharedMemory::start_block(Random& random) {
  for (size_t i = 0; i < bytes_; i += 8) {
    const uint64_t garbage = random.next();
    std::copy_n(reinterpret_cast<const std::byte*>(&garbage), std::min<size_t>(8, bytes_ - i),
                memory_.get() + i);
  }
  block_synced();
  start_ = now_;
}

void SharedMemory::block_synced() {
  block_time_ = ++now_;
  std::fill(warp_time_.begin(), warp_time_.end(), now_);
}

void SharedMemory::read(const void* from, size_t bytes, uint32_t thread, Site site) {
  touch<Kind::kRead>(from, bytes, {site, thread, now_});
}

void SharedMemory::write(const void* to, size_t bytes, uint32_t thread, Site site) {
  touch<Kind::kWrite>(to, bytes, {site, thread, now_});
}

void SharedMemory::add(const void* to, size_t bytes, uint32_t thread, Site site) {
  touch<Kind::kAdd>(to, bytes, {site, thread, now_, true});
}

const char* SharedMemory::name(Kind kind) {
  return kind == Kind::kRead ? "load" : kind == Kind::kWrite ? "store" : "atomic_add";
}

template <SharedMemory::Kind kind>
void SharedMemory::touch(const void* at, size_t bytes, const Access& now) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(at);
  const uintptr_t offset = address - reinterpret_cast<uintptr_t>(memory_.get());
  const bool inside = offset < bytes_ && bytes <= bytes_ - offset;
  if (!inside || address % bytes != 0) [[unlikely]]
    processor().fail(
        now.site,
        fmt::format(
            "shared_{} of {} bytes at offset {} of the block's shared memory ({} bytes), which is "
            "{}",
            name(kind), bytes, static_cast<intptr_t>(offset), bytes_,
            inside ? "misaligned" : "out of bounds"));
  if (bytes < kWordBytes) {
    Cell* const cells = split(offset / kWordBytes);
    for (size_t i = offset; i < offset + bytes; ++i) touch<kind>(cells[i % kWordBytes], i, now);
    return;
  }
  for (size_t i = offset; i < offset + bytes; i += kWordBytes) {
    const size_t word = i / kWordBytes;
    if (!is_split_[word]) [[likely]] {
      touch<kind>(words_[word], i, now);
      continue;
    }
    Cell* const cells = split(word);
    for (size_t b = 0; b < kWordBytes; ++b) touch<kind>(cells[b], i + b, now);
    if (kind == Kind::kRead) continue;
    words_[word] = cells[0];  // all four are this write now
    is_split_[word] = false;
  }
}

template <SharedMemory::Kind kind>
void SharedMemory::touch(Cell& cell, size_t offset, const Access& now) {
  const bool written = cell.write.time >= start_;
  if (written && !over(cell.write, now)) conflict(kind, offset, now, Kind::kWrite, cell.write);
  if (kind != Kind::kWrite && !written)
    processor().fail(now.site, fmt::format("{} shared memory at offset {}, which no thread of the "
                                           "block has written",
                                           kind == Kind::kRead ? "reads" : "adds to", offset));
  if constexpr (kind == Kind::kRead) {
    add_read(cell, now);
  } else {
    for (const Access* read : {&cell.read, &cell.other_read})
      if (read->time >= start_ && !over(*read, now))
        conflict(kind, offset, now, Kind::kRead, *read);
    // What is added to before the block's barrier is as if written by who adds.
    const bool added = kind == Kind::kAdd && (cell.write.atomic || cell.write.time < block_time_);
    cell = {now, {}, {}};
    cell.write.atomic = added;
  }
}

void SharedMemory::conflict(Kind kind, size_t offset, const Access& now, Kind before_kind,
                            const Access& before) const {
  const bool same_warp = before.thread / kLanes == now.thread / kLanes;
  processor().fail(
      now.site,
      fmt::format("missing barrier: {} shared memory at offset {}, which thread {} (warp {}, lane "
                  "{}) {} at {}, with no {} in between",
                  kind == Kind::kRead    ? "reads"
                  : kind == Kind::kWrite ? "writes"
                                         : "adds to",
                  offset, before.thread, before.thread / kLanes, before.thread % kLanes,
                  before_kind == Kind::kRead ? "read"
                  : before.atomic            ? "added to"
                                             : "wrote",
                  to_string(before.site),
                  same_warp && !before.atomic ? "sync_warp or sync_block" : "sync_block"));
}

void SharedMemory::add_read(Cell& cell, const Access& now) {
  const auto warp = [](const Access& access) { return access.thread / kLanes; };
  if (cell.read.time < block_time_) {
    cell.read = now;
    cell.other_read = {};
    return;
  }
  const bool has_other = cell.other_read.time >= block_time_;
  if (has_other && warp(cell.other_read) != warp(cell.read)) return;
  if (warp(now) != warp(cell.read)) {
    cell.other_read = now;
  } else if (cell.read.time < warp_time_[warp(now)]) {
    cell.read = now;
    cell.other_read = {};
  } else if (now.thread != cell.read.thread) {
    cell.other_read = now;
  }
}

SharedMemory::Cell* SharedMemory::split(size_t word) {
  if (bytes_of_words_.empty()) bytes_of_words_.resize(words_.size() * kWordBytes);
  Cell* const cells = &bytes_of_words_[word * kWordBytes];
  if (!is_split_[word]) {
    std::fill_n(cells, kWordBytes, words_[word]);
    is_split_[word] = true;
  }
  return cells;
}

}  // namespace terse::simt::internal
