// Broadcast in three levels or more, of nodes in groups, which may have one rank each. As in two
// levels (hierarchical_broadcast.cc) the root gives each of its neighbours the shards for that
// place. Its node sends each other node of its group an equal part of what it has, each of these
// sends the groups next to its own parts of that, and so on. Then the shards are gathered, between
// the largest groups first, so that each group receives the message once, and within a node last.
//
// So the root's node sends one packed message in all. Other nodes send up to one within their
// group, and about 1/(k-1) of one to other groups, with k nodes to a group.
//
// What is packed is the same as in the others (broadcast.cc).
#include <algorithm>
#include <span>
#include <vector>

#include "plan/broadcast.h"
#include "plan/in_levels.h"
#include "plan/pipeline.h"
#include "plan/rooted_groups.h"
#include "plan/slots.h"

namespace terse::plan {
namespace {

class BroadcastInGroups {
 public:
  explicit BroadcastInGroups(const Shape& s)
      : s_(s),
        groups_(s.topology, s.root),
        phases_(phases()),
        self_(static_cast<size_t>(s.rank)),
        root_(static_cast<size_t>(s.root)),
        place_(groups_.digit(self_, 0)),
        shard_(Chunks::round_up((s.count + groups_.shards().size() - 1) / groups_.shards().size(),
                                s.quantum())),
        chunks_(s, shard_, groups_.shards().size(), s.count, 1),
        slots_(s, chunks_),
        all_(slots_.add({groups_.places(), groups_.per_row()}, Format::kPacked, chunks_.slots())),
        b_(Collective::kBroadcast, "multilevel Broadcast", s) {}

  Plan build() {
    had_.resize(chunks_.count());
    pipeline(
        chunks_.count(), phases_.size(), lag_of(chunks_, phases_.size()),
        [&](size_t c) {
          if (self_ == root_) encode(c);
        },
        [&](std::span<const Turn> turns) { exchange(turns); });
    return b_.take(slots_.bytes());
  }

 private:
  // Shards on their way to the owners, from the node up; and back.
  std::vector<Phase> phases() const {
    std::vector<Phase> phases;
    const size_t first = groups_.places() == 1 ? 1 : 0;  // with peers
    for (size_t level = first; level < groups_.levels(); ++level) phases.push_back({false, level});
    for (size_t level = groups_.levels(); level-- > first;) phases.push_back({true, level});
    return phases;
  }

  Place place_of(size_t c, size_t shard) const {
    return slots_.at(c, all_, shard / groups_.per_row(), shard % groups_.per_row());
  }

  void encode(size_t c) {
    Step step{.name = "encode", .lane = Lane::kEncode};
    all_.wait(c, step);
    for (const size_t p : groups_.shards())
      b_.push(step.compute,
              pack_broadcast(b_, s_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    had_[c] = {b_.add(std::move(step))};
    all_.add(had_[c].front(), c);
  }

  void exchange(std::span<const Turn> turns) {
    Step step{.name = "exchange", .lane = Lane::kCommunicate};
    std::vector<size_t> uses, receives;  // chunks
    for (const auto [phase, c] : turns) {
      const size_t before = step.transfers.size();
      send_and_receive(phases_[phase], c, step);
      const auto own = std::span(step.transfers).subspan(before);
      const size_t sends = std::ranges::count(own, true, &Transfer::send);
      if (!own.empty()) uses.push_back(c);
      if (sends != 0) step.after.insert(step.after.end(), had_[c].begin(), had_[c].end());
      if (sends == own.size()) continue;
      receives.push_back(c);
      all_.wait(c, step);
    }
    const size_t exchanged = b_.add(std::move(step));
    for (const size_t c : uses) all_.add(exchanged, c);
    for (const size_t c : receives) had_[c].push_back(exchanged);
    for (const auto [phase, c] : turns)
      if (phase + 1 == phases_.size()) decode(c);
  }

  void send_and_receive(const Phase& phase, size_t c, Step& step) const {
    if (phase.level == 0) return phase.gathers ? within(c, step) : to_places(c, step);
    if (phase.gathers) return gather(phase.level, c, step);
    scatter(phase.level, c, step);
  }

  void push(Step& step, size_t peer, bool send, size_t c, std::span<const size_t> shards) const {
    slots_.push_row(step, static_cast<int>(peer), send, c, all_, place_of(c, shards.front()),
                    shards);
  }

  void to_places(size_t c, Step& step) const {
    if (!groups_.is_on_the_way(self_, 0)) return;
    if (self_ != root_) return push(step, root_, false, c, groups_.row(place_));
    for (size_t p = 1; p < groups_.places(); ++p)
      push(step, groups_.peer(root_, 0, p), true, c, groups_.row(p));
  }

  void scatter(size_t level, size_t c, Step& step) const {
    if (groups_.is_on_the_way(self_, level))
      push(step, groups_.peer(self_, level, 0), false, c, groups_.shards_of(self_, level));
    if (!groups_.is_on_the_way(self_, level - 1)) return;
    for (size_t d = 1; d < groups_.radix(level); ++d) {
      const size_t to = groups_.peer(self_, level, d);
      push(step, to, true, c, groups_.shards_of(to, level));
    }
  }

  void gather(size_t level, size_t c, Step& step) const {
    const size_t radix = groups_.radix(level);
    for (size_t k = 1; k < radix; ++k) {
      const Neighbours next = at_distance(k, groups_.digit(self_, level), radix);
      const size_t to = groups_.peer(self_, level, next.to);
      const size_t from = groups_.peer(self_, level, next.from);
      if (groups_.gives(self_, level) && groups_.lacks(to, level))
        push(step, to, true, c, groups_.shards_of(self_, level));
      if (groups_.gives(from, level) && groups_.lacks(self_, level))
        push(step, from, false, c, groups_.shards_of(from, level));
    }
  }

  void within(size_t c, Step& step) const {
    for (size_t k = 1; k < groups_.places(); ++k) {
      const Neighbours next = at_distance(k, place_, groups_.places());
      const size_t to = groups_.peer(self_, 0, next.to);
      if (to != root_) push(step, to, true, c, groups_.row(place_));
      if (self_ != root_)
        push(step, groups_.peer(self_, 0, next.from), false, c, groups_.row(next.from));
    }
  }

  void decode(size_t c) {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = had_[c]};
    for (const size_t p : groups_.shards())
      b_.push(step.compute, unpack_broadcast(b_, p * shard_, chunks_.range(p, c), place_of(c, p)));
    all_.add(b_.add(std::move(step)), c);
  }

  const Shape& s_;
  const RootedGroups groups_;
  const std::vector<Phase> phases_;
  const size_t self_, root_, place_;
  const size_t shard_;  // elements
  const Chunks chunks_;
  Slots slots_;
  Slots::Area all_;
  Builder b_;
  std::vector<std::vector<size_t>> had_;  // by chunk: steps by which this rank has shards
};

}  // namespace

Plan multilevel_broadcast(const Shape& s) { return BroadcastInGroups(s).build(); }

}  // namespace terse::plan
