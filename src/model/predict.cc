#include "model/predict.h"

#include <algorithm>
#include <bit>
#include <vector>

#include "model/work.h"
#include "plan/in_levels.h"
#include "plan/link.h"

namespace terse::model {
namespace {

using plan::Collective;
using plan::Shape;
using plan::Topology;

// Latencies of a call in a row, within a node, between nodes and between pods.
struct Steps {
  double within = 0, between = 0, pods = 0;
};

double latency(const Profile& p, const Steps& steps) {
  const Link* const pods = p.pods ? &*p.pods : p.between ? &*p.between : nullptr;
  return (steps.within == 0 ? 0 : steps.within * p.within->latency) +
         (steps.between == 0 ? 0 : steps.between * p.between->latency) +
         (steps.pods == 0 ? 0 : steps.pods * pods->latency);
}

bool has_neighbours(const Topology& t) { return t.nodes() != static_cast<int>(t.node.size()); }

// Step in which ranks on any nodes talk to each other.
Steps any(const Topology& t) {
  if (t.pods() != 0) return {.pods = 1};
  return t.nodes() > 1 ? Steps{.between = 1} : Steps{.within = 1};
}

int levels_of_tree(int leaves) { return std::bit_width(static_cast<unsigned>(leaves) - 1); }

Steps of_tree(Collective collective, const Topology& t) {
  const double ways = collective == Collective::kAllReduce ? 2 : 1;
  const int largest = std::ranges::max(t.size);
  const int nodes = t.pods() != 0 ? t.pod_nodes : t.nodes();
  return {ways * levels_of_tree(largest), ways * levels_of_tree(nodes),
          t.pods() != 0 ? ways * levels_of_tree(t.pods()) : 0};
}

double seconds_of(const Profile& p, const plan::Traffic& node, double ranks_of_node) {
  const auto stays = static_cast<double>(node.bytes - node.off_node) / ranks_of_node;
  const auto leaves = static_cast<double>(node.off_node);
  const auto crosses = static_cast<double>(node.off_pod);
  return std::max({stays == 0 ? 0 : stays / p.within->bandwidth,
                   leaves == 0 ? 0 : leaves / p.between->bandwidth,
                   crosses == 0 || !p.pods ? 0 : crosses / p.pods->bandwidth});
}

double sending(const Profile& p, const plan::Traffic& node, const Topology& t) {
  return seconds_of(p, node, std::ranges::max(t.size));
}

// Same, where what stays within a node, within a pod, and goes to other pods follow each other.
double sending_in_turn(const Profile& p, const plan::Traffic& node, const Topology& t) {
  return sending(p, {node.bytes - node.off_node}, t) +
         sending(p, {node.off_node - node.off_pod, node.off_node - node.off_pod}, t) +
         sending(p, {node.off_pod, node.off_pod, node.off_pod}, t);
}

// Returns true if only the root sends. It then sends more than the ranks of its node on average; if
// only the root receives, what comes to it takes longer than what any rank sends.
bool comes_from_root(Collective c) { return plan::traits(c).send.who == plan::Who::kRoot; }
bool goes_to_root(Collective c) { return plan::traits(c).recv.who == plan::Who::kRoot; }

// Traffic to the root, and over the link of its node, as NCCL has it: to reduce, along a chain.
plan::Traffic native_to_root(Collective collective, size_t bytes, int root, const Topology& t) {
  const auto neighbours = static_cast<size_t>(t.size[t.node[root]]) - 1;
  const size_t others = t.node.size() - 1 - neighbours;
  const auto parts = [&](size_t ranks) {
    return bytes * (plan::traits(collective).reduces ? std::min<size_t>(ranks, 1) : ranks);
  };
  return {parts(neighbours) + parts(others), parts(others)};
}

// A node, and how many others send the root's node as much as it does; on no other node does any
// rank.
struct Senders {
  int node;
  size_t number;
};

// In levels those that differ from the root in one digit alone; else all are as the next one is.
std::vector<Senders> senders_to(int root, const plan::Algorithm& algorithm, const Topology& t) {
  if (!algorithm.groups)
    return {{(t.node[root] + 1) % t.nodes(), static_cast<size_t>(t.nodes()) - 1}};
  const plan::Grid grid = plan::grid_of_groups(t);
  const auto self = static_cast<size_t>(root);
  std::vector<Senders> all;
  for (size_t level = 1; level < grid.levels(); ++level) {
    const size_t other = (grid.digit(self, level) + 1) % grid.radix(level);
    all.push_back({t.node[grid.peer(self, level, other)], grid.radix(level) - 1});
  }
  return all;
}

// Traffic to the root of an algorithm's plans.
plan::Traffic sent_to_root(const plan::Algorithm& algorithm, Shape shape) {
  const Topology& t = shape.topology;
  const int home = t.node[shape.root];
  std::vector<Senders> senders = senders_to(shape.root, algorithm, t);
  senders.push_back({home, 1});
  plan::Traffic in;
  const int root = shape.root;
  const auto add = [&](const Senders& from, int rank, size_t alike) {
    shape.rank = rank;
    const plan::Plan plan = algorithm.build(shape);
    for (size_t peer = 0; peer < plan.wire_to.size(); ++peer) {
      const size_t bytes = plan.wire_to[peer] * from.number * alike;
      if (from.node == home && peer == static_cast<size_t>(root)) in.bytes += bytes;
      if (from.node != home && t.node[peer] == home) in += {bytes, bytes};
    }
  };
  for (const Senders& from : senders) {
    std::vector<int> others;  // of the node: alike but for the rank at the root's place
    for (int rank = 0; rank < shape.ranks; ++rank) {
      if (rank == root || t.node[rank] != from.node) continue;
      if (t.place[rank] == t.place[root])
        add(from, rank, 1);
      else
        others.push_back(rank);
    }
    if (!others.empty()) add(from, others.front(), others.size());
  }
  return in;
}

// Work of a rank for a plan in one chunk.
struct Work {
  size_t steps = 0, messages = 0;
  Coding coding;
  double latencies = 0;
  bool in_turn = true;  // each step has messages either within the node or out of it
};

// Returns true if a step has messages both within the node and out of it.
bool is_mixed(const plan::Step& step, int rank, const Topology& t) {
  const auto is_near = [&](const plan::Transfer& to) { return t.is_near(rank, to.peer); };
  return std::ranges::any_of(step.transfers, is_near) &&
         !std::ranges::all_of(step.transfers, is_near);
}

// Steps of an exchange with some ranks.
Steps exchange(const plan::Step& step, int rank, const Topology& t) {
  const auto goes = [&](const auto& is_so) { return std::ranges::any_of(step.transfers, is_so); };
  if (step.transfers.empty() ||
      goes([&](const plan::Transfer& to) { return !t.shares_pod(rank, to.peer); }))
    return any(t);
  const bool leaves = goes([&](const plan::Transfer& to) { return !t.is_near(rank, to.peer); });
  return leaves ? Steps{.between = 1} : Steps{.within = 1};
}

Work work_of(const Profile& p, const plan::Algorithm& algorithm, const Shape& shape) {
  const Topology& t = shape.topology;
  const plan::Plan plan = algorithm.build(shape);
  Work work{.steps = plan.steps.size() + (shape.draws() ? 1 : 0)};  // it looks first
  for (const plan::Step& step : plan.steps) {
    work.steps += launches_of(p, step) - 1;
    work.messages += step.transfers.size();
    if (step.lane == plan::Lane::kCommunicate && step.natives.empty())
      work.latencies += latency(p, exchange(step, shape.rank, t));
    work.in_turn = work.in_turn && step.natives.empty() && !is_mixed(step, shape.rank, t);
    for (const plan::Native& n : step.natives)
      work.latencies += latency(p, of_tree(n.collective, t));
    work.coding += coding_of(step);
  }
  return work;
}

// Rank none of whose digits is the root's: it has the most messages of a Broadcast in many levels.
int farthest(const Shape& shape) {
  const plan::Grid grid = plan::grid_of_groups(shape.topology);
  auto rank = static_cast<size_t>(shape.root);
  for (size_t level = 0; level < grid.levels(); ++level)
    rank = grid.peer(rank, level, (grid.digit(rank, level) + 1) % grid.radix(level));
  return static_cast<int>(rank);
}

// The most of each that any rank does: where there is a root its own, or of the others.
Work most_work(const Profile& p, const plan::Algorithm& algorithm, const Shape& shape) {
  Work most = work_of(p, algorithm, shape);
  if (!plan::traits(algorithm.collective).rooted || plan::is_point_to_point(algorithm.collective))
    return most;
  const int next = (shape.root + 1) % shape.ranks;
  for (const int rank : {shape.root, next, algorithm.groups ? farthest(shape) : next}) {
    if (rank == shape.rank) continue;
    Shape other = shape;
    other.rank = rank;
    const Work work = work_of(p, algorithm, other);
    most = {std::max(most.steps, work.steps),
            std::max(most.messages, work.messages),
            {std::max(most.coding.packed, work.coding.packed),
             std::max(most.coding.unpacked, work.coding.unpacked)},
            std::max(most.latencies, work.latencies),
            most.in_turn && work.in_turn};
  }
  return most;
}

plan::ChunkCut cut_of(const plan::Algorithm& algorithm, const Shape& shape) {
  if (algorithm.groups) return plan::cut_of_shards(shape, shape.count);
  plan::ChunkCut cut{.messages = static_cast<size_t>(shape.ranks)};
  if (plan::is_point_to_point(algorithm.collective))
    cut.max_chunks = std::min(shape.chunk_policy.max_chunks, cut.max_chunks);
  return cut;
}

double chunks_of(const plan::Algorithm& algorithm, const Shape& shape, size_t bytes) {
  if (algorithm.groups && plan::shards(algorithm.collective, shape.ranks) == 1)
    return static_cast<double>(plan::cut_of_rows(shape).parts);
  const plan::ChunkCut cut = cut_of(algorithm, shape);
  const auto chunk = static_cast<double>(shape.chunk(bytes / shape.element_bytes, cut.messages));
  return std::clamp<double>(static_cast<double>(bytes) / chunk, 1,
                            static_cast<double>(cut.max_chunks));
}

size_t message_bytes(Collective collective, const Shape& shape) {
  return shape.count * shape.element_bytes * plan::shards(collective, shape.ranks);
}

// Of a call in one chunk. Where it draws, what it draws by is made first.
double fused_seconds(const Profile& p, size_t flags, bool draws, size_t bytes, double coding) {
  const double writing = static_cast<double>(bytes) / p.fused->bandwidth;
  const double hidden = p.fused->overlap * std::min(writing, coding);
  return p.fused->launch + (draws ? p.launch : 0) + static_cast<double>(flags) * p.fused->flag +
         writing + coding - hidden;
}

}  // namespace

const char* lacks(const Profile& profile, const Topology& topology) {
  if (topology.nodes() > 1 && !profile.between) return "links between nodes";
  if (has_neighbours(topology) && !profile.within) return "links within a node";
  return nullptr;
}

double native_seconds(const Profile& p, Collective collective, const Shape& shape) {
  const Topology& t = shape.topology;
  const size_t bytes = shape.count * shape.element_bytes;
  double links = sending(p, plan::native_link(collective, bytes, shape.root, t), t);
  if (comes_from_root(collective)) {
    const plan::Position root{shape.ranks, shape.root, shape.root};
    links = std::max(links, seconds_of(p, plan::raw_traffic(collective, bytes, root, t), 1));
  }
  if (goes_to_root(collective))
    links = std::max(links, seconds_of(p, native_to_root(collective, bytes, shape.root, t), 1));
  return latency(p, of_tree(collective, t)) + p.launch + links;
}

Estimate estimate(const Profile& p, const plan::Algorithm& algorithm, const Shape& shape,
                  std::string_view codec, size_t flags) {
  const plan::Link link = plan::link_of(algorithm, shape);
  const Topology& t = shape.topology;
  const size_t bytes = message_bytes(algorithm.collective, shape);
  Shape whole = shape;
  whole.chunk_policy =
      plan::exact_chunks(std::max<size_t>(1, bytes * t.node.size()));  // in one chunk
  const Work work = most_work(p, algorithm, whole);
  const plan::Traffic node =
      t.nodes() > 1 ? link.compressed : plan::Traffic{algorithm.cost(shape).sent.bytes, 0};
  const double coding = work.coding.seconds(rates_of(p, codec));
  if (flags != 0 && p.fused)
    return {&algorithm, fused_seconds(p, flags, shape.draws(), node.bytes, coding), link, true};
  double links = t.nodes() > 1 ? sending(p, node, t) : seconds_of(p, node, 1);
  if (comes_from_root(algorithm.collective))
    links = std::max(links, seconds_of(p, algorithm.cost(shape).sent, 1));
  if (goes_to_root(algorithm.collective))
    links = std::max(links, seconds_of(p, sent_to_root(algorithm, whole), 1));
  const double chunks = chunks_of(algorithm, shape, bytes);
  // Steps within a node and between nodes go along with each other in several chunks alone.
  if (work.in_turn && t.nodes() > 1)
    links += (sending_in_turn(p, node, t) - sending(p, node, t)) / chunks;
  const double hidden = p.overlap * (chunks - 1) / chunks * std::min(links, coding);
  const double time = work.latencies +
                      chunks * (static_cast<double>(work.steps) * p.launch +
                                static_cast<double>(work.messages) * p.message) +
                      links + coding - hidden;
  return {&algorithm, time, link, false};
}

Estimate fastest(const Profile& profile, Collective collective, const Shape& shape,
                 std::string_view codec,
                 const std::function<size_t(const plan::Algorithm&)>& flags_of) {
  Estimate best;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (!plan::is_for(a, collective, shape)) continue;
    if (!a.applies(shape, *plan::find_algo(a.names.own)).applies) continue;
    const Estimate one = estimate(profile, a, shape, codec, flags_of ? flags_of(a) : 0);
    if (best.algorithm == nullptr || one.seconds < best.seconds) best = one;
  }
  return best;
}

}  // namespace terse::model
