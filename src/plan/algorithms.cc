#include "plan/algorithms.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "plan/cost.h"
#include "plan/grid.h"

namespace terse::plan {
namespace {

// Max bytes of a message that costs its latency: one step is better than two.
constexpr size_t kSmallBytes = 64 * 1024;

// First of two algorithms, which sends more in fewer steps. `of_two`: why two ranks take it.
Answer in_one_step(const Shape& s, Algo wish, const char* of_two) {
  if (wish != Algo{}) return {true};
  if (s.ranks == 2) return {true, of_two};
  if (s.count * s.element_bytes * s.ranks <= kSmallBytes)
    return {true, "a small message: latency counts"};
  return {};
}

Answer in_two_steps(const Shape&, Algo) { return {true, "a large message: bytes count"}; }

// Returns why collectives do not go in levels on a topology; null: they may.
const char* lacks_levels(const Topology& t) {
  if (t.nodes() == 0) return "for the nodes are not known";
  if (t.nodes() == 1) return "for all ranks are on one node";
  return t.is_alike() ? nullptr : "for the nodes have different numbers of ranks";
}

// Condition of two levels: ranks share links.
Answer in_two_levels(const Shape& s, Algo) {
  const Topology& t = s.topology;
  if (const char* why = lacks_levels(t)) return {false, why};
  if (t.nodes() == s.ranks) return {false, "for each node has one rank"};
  return {true, fmt::format("{} nodes of {} ranks: the fewest bytes between them", t.nodes(),
                            t.size.front())};
}

// Max bytes of a rank's own shard, raw, for which messages to many peers cost more than the bytes
// of a finer format between groups.
constexpr size_t kMaxShardOfGroups = size_t{2} << 20;

// Min bytes of a packed shard that goes in a row with others, each aligned.
constexpr size_t kMinShardOfRows = 1024;

size_t shard_bytes(const Shape& s, Collective collective) {
  const size_t shards = plan::shards(collective, s.ranks);
  return s.count * s.element_bytes * shards / static_cast<size_t>(s.ranks);
}

// Condition of more levels: nodes may be in groups of equally many. They are worth it by themselves
// if all goes in one format; a finer one between groups costs bytes.
template <Collective collective>
Answer in_many_levels(const Shape& s, Algo wish) {
  const Topology& t = s.topology;
  if (const char* why = lacks_levels(t)) return {false, why};
  const std::vector<size_t> radices = radices_of(t);
  if (radices.size() == 1)
    return {false, fmt::format("for {} nodes are no groups of equally many", t.nodes())};
  // A row of short shards is padding, for the most part.
  const bool is_padded = (traits(collective).send.per_rank || traits(collective).recv.per_rank) &&
                         s.bytes(Format::kPacked, s.count) < kMinShardOfRows;
  const bool is_finer = traits(collective).reduces && s.outer.format == Format::kOuterPacked;
  const bool is_short = !is_finer || shard_bytes(s, collective) <= kMaxShardOfGroups;
  return {wish != Algo{} || (are_worth_it(radices, t) && is_short && !is_padded),
          fmt::format("{} nodes in {} by {}: fewer peers", t.nodes(),
                      t.pod_nodes == 0 ? "groups" : "pods", fmt::join(radices, " x "))};
}

Answer only(const Shape&, Algo) { return {true, "the only algorithm for it"}; }

// Any topology: NCCL knows it.
Answer by_nccl(const Shape&, Algo) { return {true, "NCCL sums the codes"}; }

Answer by_owners(const Shape&, Algo) { return {true, "the owner of a shard merges its codes"}; }

constexpr Algorithm kTable[] = {
    {Collective::kAllReduce,
     {"multilevel"},
     multilevel_all_reduce,
     in_many_levels<Collective::kAllReduce>,
     cost::multilevel_all_reduce,
     Sharing::kNone,
     true},
    {Collective::kAllGather,
     {"multilevel"},
     multilevel_all_gather,
     in_many_levels<Collective::kAllGather>,
     cost::multilevel_all_gather,
     Sharing::kNone,
     true},
    {Collective::kReduceScatter,
     {"multilevel"},
     multilevel_reduce_scatter,
     in_many_levels<Collective::kReduceScatter>,
     cost::multilevel_reduce_scatter,
     Sharing::kNone,
     true},
    {Collective::kReduce,
     {"multilevel"},
     multilevel_reduce,
     in_many_levels<Collective::kReduce>,
     cost::multilevel_reduce,
     Sharing::kNone,
     true},
    {Collective::kBroadcast,
     {"multilevel"},
     multilevel_broadcast,
     in_many_levels<Collective::kBroadcast>,
     cost::multilevel_broadcast,
     Sharing::kNone,
     true},
    {Collective::kAllReduce,
     {"hierarchical"},
     hierarchical_all_reduce,
     in_two_levels,
     cost::hierarchical_all_reduce},
    {Collective::kAllGather,
     {"hierarchical"},
     hierarchical_all_gather,
     in_two_levels,
     cost::hierarchical_all_gather},
    {Collective::kReduceScatter,
     {"hierarchical"},
     hierarchical_reduce_scatter,
     in_two_levels,
     cost::hierarchical_reduce_scatter},
    {Collective::kReduce,
     {"hierarchical"},
     hierarchical_reduce,
     in_two_levels,
     cost::hierarchical_reduce},
    {Collective::kBroadcast,
     {"hierarchical"},
     hierarchical_broadcast,
     in_two_levels,
     cost::hierarchical_broadcast},
    {Collective::kAllReduce,
     {"oneshot"},
     one_shot_all_reduce,
     [](const Shape& s, Algo wish) {
       return in_one_step(s, wish, "two ranks: the same bytes as two-shot in one step");
     },
     cost::to_each_other},
    {Collective::kAllReduce, {"twoshot"}, two_shot_all_reduce, in_two_steps, cost::two_shots},
    {Collective::kAllGather, {"direct"}, all_gather, only, cost::to_each_other},
    {Collective::kReduceScatter, {"direct"}, reduce_scatter, only, cost::to_each_other},
    {Collective::kAllToAll, {"direct"}, all_to_all, only, cost::to_each_other},
    {Collective::kBroadcast,
     {"direct", "oneshot"},
     direct_broadcast,
     [](const Shape& s, Algo wish) {
       return in_one_step(s, wish, "two ranks: nobody to share with");
     },
     cost::from_root},
    {Collective::kBroadcast,
     {"shared", "twoshot"},
     shared_broadcast,
     in_two_steps,
     cost::shared_from_root},
    {Collective::kReduce,
     {"direct", "oneshot"},
     direct_reduce,
     [](const Shape& s, Algo wish) {
       return in_one_step(s, wish, "two ranks: no more bytes than two-shot, in one step");
     },
     cost::to_root},
    {Collective::kReduce, {"twoshot"}, two_shot_reduce, in_two_steps, cost::two_shots_to_root},
    {Collective::kGather, {"direct"}, gather, only, cost::to_root},
    {Collective::kScatter, {"direct"}, scatter, only, cost::from_root},
    {Collective::kSend, {"direct"}, send, only, cost::message},
    {Collective::kRecv, {"direct"}, receive, only, cost::nothing},
    {Collective::kAllReduce,
     {"summed"},
     summed_all_reduce,
     by_nccl,
     cost::summed_all_reduce,
     Sharing::kSummed},
    {Collective::kReduceScatter,
     {"summed"},
     summed_reduce_scatter,
     by_nccl,
     cost::summed_reduce_scatter,
     Sharing::kSummed},
    {Collective::kReduce,
     {"summed"},
     summed_reduce,
     by_nccl,
     cost::summed_reduce,
     Sharing::kSummed},
    {Collective::kAllReduce,
     {"merged"},
     merged_all_reduce,
     by_owners,
     cost::merged_all_reduce,
     Sharing::kMerged},
    {Collective::kReduceScatter,
     {"merged"},
     merged_reduce_scatter,
     by_owners,
     cost::merged_reduce_scatter,
     Sharing::kMerged},
    {Collective::kReduce,
     {"merged"},
     merged_reduce,
     by_owners,
     cost::merged_reduce,
     Sharing::kMerged},
};

// Names, each once, in the order of the table.
struct Names {
  std::array<std::string_view, 1 + 2 * std::size(kTable)> all{"auto"};
  size_t count = 1;

  constexpr void add(std::string_view name) {
    if (!name.empty() && std::ranges::find(all, name) == all.end()) all[count++] = name;
  }
};

constexpr Names collect() {
  Names names;
  for (const Algorithm& a : kTable) {
    names.add(a.names.own);
    names.add(a.names.also);
  }
  return names;
}
constexpr Names kNames = collect();

}  // namespace

std::span<const std::string_view> algo_names() { return {kNames.all.data(), kNames.count}; }

std::optional<Algo> find_algo(std::string_view name) {
  const auto names = algo_names();
  const auto found = std::ranges::find(names, name);
  if (found == names.end()) return {};
  return Algo{static_cast<uint8_t>(found - names.begin())};
}

bool Algorithm::answers_to(Algo wish) const {
  return wish != Algo{} && (names.own == name(wish) || names.also == name(wish));
}

std::span<const Algorithm> algorithms() { return kTable; }

bool has_algorithm(Collective collective, Sharing sharing) {
  return std::ranges::any_of(kTable, [=](const Algorithm& a) {
    return a.collective == collective && a.sharing == sharing;
  });
}

bool is_for(const Algorithm& a, Collective collective, const Shape& shape) {
  return a.collective == collective && a.sharing == shape.packing.sharing();
}

Selection select(Collective collective, const Shape& shape, Algo wish,
                 std::span<const Algorithm> table) {
  const auto is_of = [&](const Algorithm& a) { return is_for(a, collective, shape); };
  std::string refused;
  for (const Algorithm& a : table) {
    if (!is_of(a) || !a.answers_to(wish)) continue;
    const Answer answer = a.applies(shape, wish);
    if (answer.applies) return {&a, fmt::format("the scheme says {}", name(wish))};
    refused = fmt::format("not {}, {}; ", name(wish), answer.reason);
  }
  Selection taken{};
  for (const Algorithm& a : table) {
    if (!is_of(a)) continue;
    Answer answer = a.applies(shape, Algo{});
    taken = {&a, refused + answer.reason};
    if (answer.applies) break;
  }
  return taken;
}

}  // namespace terse::plan
