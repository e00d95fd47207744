// Costs of the algorithms for a rank, as formulas, without chunks. Exact if a packed message is as
// long as its parts. Bytes out of the node are 0 if nodes are unknown.
#pragma once

#include "plan/algorithms.h"

namespace terse::plan::cost {

// Bytes that the shape's rank sends to another one; or to each of the others.
Traffic to_rank(const Shape& shape, int peer, size_t bytes);
Traffic to_others(const Shape& shape, size_t bytes);

Cost to_each_other(const Shape& shape);  // a shard to every rank, or the same to all
Cost to_root(const Shape& shape);        // from all the others
Cost from_root(const Shape& shape);      // a shard to every rank, or the same to all
Cost two_shots(const Shape& shape);      // shards to their owners, and from them to all
Cost two_shots_to_root(const Shape& shape);
Cost shared_from_root(const Shape& shape);  // a shard to each of the others, who share theirs
// Costs in two levels, of a topology that is_grid().
Cost hierarchical_all_reduce(const Shape& shape);
Cost hierarchical_reduce(const Shape& shape);
Cost hierarchical_broadcast(const Shape& shape);
Cost hierarchical_all_gather(const Shape& shape);
Cost hierarchical_reduce_scatter(const Shape& shape);
// Costs in three levels or more, of nodes in groups.
Cost multilevel_all_reduce(const Shape& shape);
Cost multilevel_reduce(const Shape& shape);
Cost multilevel_broadcast(const Shape& shape);
Cost multilevel_all_gather(const Shape& shape);
Cost multilevel_reduce_scatter(const Shape& shape);
// Shared grid: sums by NCCL itself.
Cost summed_all_reduce(const Shape& shape);
Cost summed_reduce_scatter(const Shape& shape);
Cost summed_reduce(const Shape& shape);
// Shared grid: sums by the owners of shards.
Cost merged_all_reduce(const Shape& shape);
Cost merged_reduce_scatter(const Shape& shape);
Cost merged_reduce(const Shape& shape);
Cost message(const Shape& shape);
Cost nothing(const Shape& shape);

}  // namespace terse::plan::cost
