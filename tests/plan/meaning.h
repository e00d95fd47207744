// What collectives mean, element by element.
#pragma once

#include <cstddef>

#include "plan/collective.h"

namespace terse::plan {

struct Meaning {
  Collective collective;
  size_t ranks, root, count;

  // Element `i` of the result of `rank`, where value(r, k) is element k of what r sends, and
  // combine(a, b) the reduction.
  template <class Value, class Combine>
  auto operator()(size_t rank, size_t i, const Value& value, const Combine& combine) const {
    const size_t shard = i / count, within = i % count;
    const auto reduced = [&](size_t k) {
      auto result = value(size_t{0}, k);
      for (size_t r = 1; r < ranks; ++r) result = combine(result, value(r, k));
      return result;
    };
    switch (collective) {
      case Collective::kAllGather:
      case Collective::kGather:
        return value(shard, within);
      case Collective::kReduceScatter:
        return reduced(rank * count + i);
      case Collective::kAllToAll:
        return value(shard, rank * count + within);
      case Collective::kBroadcast:
        return value(root, i);
      case Collective::kScatter:
        return value(root, rank * count + i);
      default:
        return reduced(i);
    }
  }
};

}  // namespace terse::plan
