// Who uses what of a region of memory: by interval of bytes, the step that wrote it last and those
// that have read it since.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory_resource>

#include "plan/chunks.h"

namespace terse::plan {

struct Use {
  size_t writer = kNone;
  // Since then: of each queue the last step that reads, and how often the last of them all does.
  std::array<size_t, kLanes> readers = none();
  size_t reads = 0;

  void read(size_t step, size_t queue) {
    reads = readers[queue] == step ? reads + 1 : 1;
    readers[queue] = step;
  }

 private:
  static constexpr std::array<size_t, kLanes> none() {
    std::array<size_t, kLanes> all{};
    all.fill(kNone);
    return all;
  }
};

class Uses {
 public:
  // Calls `see` with each use within [begin, end); where nothing was used yet, with a new one.
  template <class See>
  void visit(size_t begin, size_t end, const See& see) {
    cut(begin);
    cut(end);
    auto next = spans_.lower_bound(begin);
    for (size_t at = begin; at < end; at = next->second.end, ++next) {
      if (next == spans_.end() || next->first > at) {
        const size_t until = next == spans_.end() ? end : std::min(end, next->first);
        next = spans_.emplace_hint(next, at, Span{until, {}});
      }
      see(next->second.use, next->second.end - at);
    }
  }

  // [begin, end) has one use from now on.
  void replace(size_t begin, size_t end, const Use& use) {
    cut(begin);
    cut(end);
    const auto after = spans_.erase(spans_.lower_bound(begin), spans_.lower_bound(end));
    if (begin < end) spans_.emplace_hint(after, begin, Span{end, use});
  }

 private:
  struct Span {
    size_t end;
    Use use;
  };

  // No span goes beyond `at` from before it.
  void cut(size_t at) {
    const auto after = spans_.upper_bound(at);
    if (after == spans_.begin()) return;
    const auto span = std::prev(after);
    if (span->first == at || span->second.end <= at) return;
    spans_.emplace_hint(after, at, span->second);
    span->second.end = at;
  }

  std::pmr::monotonic_buffer_resource memory_;
  std::pmr::map<size_t, Span> spans_{&memory_};  // by where they begin; none overlap
};

}  // namespace terse::plan
