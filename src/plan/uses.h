// Users of a region of memory: by interval of bytes, the step that wrote it last and those that
// have read it since.
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
  // Last step of each queue that has read it since; and the number of reads of the last of them
  // all.
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
  // Calls see() with each use within [begin, end) and its bytes; a new use if there was none.
  template <class See>
  void visit(size_t begin, size_t end, const See& see) {
    cut(end);
    auto next = cut(begin);
    for (size_t at = begin; at < end; at = next->second.end, ++next) {
      if (next == spans_.end() || next->first > at) {
        const size_t until = next == spans_.end() ? end : std::min(end, next->first);
        next = spans_.emplace_hint(next, at, Span{until, {}});
      }
      see(next->second.use, next->second.end - at);
    }
  }

  // Gives [begin, end) one use from now on. Calls see() with each that it had.
  template <class See>
  void replace(size_t begin, size_t end, const Use& use, const See& see) {
    const auto after = cut(end);
    for (auto old = cut(begin); old != after; old = spans_.erase(old)) see(old->second.use);
    if (begin < end) spans_.emplace_hint(after, begin, Span{end, use});
  }

 private:
  struct Span {
    size_t end;
    Use use;
  };
  using Spans = std::pmr::map<size_t, Span>;  // by begin; without overlap

  // Cuts the span at `at`. Returns the first span from there on.
  Spans::iterator cut(size_t at) {
    const auto after = spans_.upper_bound(at);
    if (after == spans_.begin()) return after;
    const auto span = std::prev(after);
    if (span->first == at) return span;
    if (span->second.end <= at) return after;
    const auto rest = spans_.emplace_hint(after, at, span->second);
    span->second.end = at;
    return rest;
  }

  std::pmr::monotonic_buffer_resource memory_;
  Spans spans_{&memory_};
};

}  // namespace terse::plan
