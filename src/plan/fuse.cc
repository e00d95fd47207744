#include "plan/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>

#include "plan/chunks.h"

namespace terse::plan {
namespace {

// Steps of a plan: computes before its exchanges, between and behind them.
struct Stages {
  std::vector<Compute> computes[3];
  std::vector<Transfer> transfers[2];
  size_t exchanges = 0;
  std::vector<Copy> copies;
  std::vector<Fingerprint> fingerprints;
};

struct Refusal {
  std::string reason;
};

[[noreturn]] void refuse(std::string reason) { throw Refusal{std::move(reason)}; }

void add(Stages& stages, const Step& step) {
  if (!step.natives.empty()) refuse("for NCCL does a part of it");
  if (!step.learns.empty() || step.header) refuse("for the ranks compare what they have before it");
  if (step.lane == Lane::kCommunicate) {
    if (stages.exchanges == 2) refuse("for it has more than two exchanges");
    for (const Transfer& t : step.transfers)
      if (t.native || t.header) refuse("for it sends what is not packed");
    stages.transfers[stages.exchanges++] = step.transfers;
  }
  std::vector<Compute>& computes = stages.computes[stages.exchanges];
  computes.insert(computes.end(), step.compute.begin(), step.compute.end());
  stages.copies.insert(stages.copies.end(), step.copies.begin(), step.copies.end());
  stages.fingerprints.insert(stages.fingerprints.end(), step.fingerprints.begin(),
                             step.fingerprints.end());
}

// Returns true if all that is packed is so in the scheme's own format.
bool is_plain(const Compute& c) {
  const auto plain = [](Format f) { return f == Format::kRaw || f == Format::kPacked; };
  return plain(c.target_format) && std::ranges::all_of(c.inputs, plain, &Input::format);
}

Stages stages_of(const Plan& plan) {
  if (!plan.state.key.empty()) refuse("for it keeps a state from call to call");
  Stages stages;
  for (const Step& step : plan.steps) add(stages, step);
  if (stages.exchanges == 0) refuse("for nothing is exchanged");
  for (const std::vector<Compute>& computes : stages.computes)
    for (const Compute& c : computes)
      if (c.sums || !is_plain(c)) refuse("for it packs in two ways");
  return stages;
}

bool is_scratch(const Place& place) { return place.region == Region::kScratch; }

// Compute of a stage that writes the place; null: none.
const Compute* writer(const std::vector<Compute>& computes, const Place& place) {
  const auto found = std::ranges::find(computes, place, &Compute::target);
  return found == computes.end() ? nullptr : &*found;
}

// Place from which a transfer goes to several peers, or that its sender reads, too.
bool is_shared(const Stages& s, const Transfer& sent) {
  const auto reads = [&](const Compute& c) {
    return std::ranges::find(c.inputs, sent.place, &Input::place) != c.inputs.end();
  };
  return std::ranges::count_if(s.transfers[0],
                               [&](const Transfer& t) { return t.send && t.place == sent.place; }) >
             1 ||
         std::ranges::any_of(s.computes[1], reads);
}

class Fusing {
 public:
  Fusing(const std::vector<Plan>& plans, const Shape& shape) : plans_(plans), shape_(shape) {
    for (const Plan& plan : plans) stages_.push_back(stages_of(plan));
    for (const Stages& s : stages_)
      if (s.exchanges != stages_.front().exchanges) refuse("for its ranks do not do the same");
    form_ = form();
  }

  std::vector<Fused> all() {
    const Fused any{.form = form_};
    const bool pushes = any.pushing(), shares = any.sharing();
    const size_t share = pushes ? 1 : 0;  // the exchange in which what is made is shared
    if (pushes) {
      pushed_ = first_received(0);
      for (size_t rank = 0; rank < stages_.size(); ++rank)
        for (const Compute& c : stages_[rank].computes[0])
          if (!is_sent(rank, c)) pushed_ = std::min(pushed_, c.target.offset);
    }
    if (shares) {
      shared_ = first_received(share);
      for (const Stages& s : stages_)
        for (const Compute& c : s.computes[share])
          if (is_scratch(c.target)) shared_ = std::min(shared_, c.target.offset);
    }
    fingerprints_ = first_fingerprint();
    std::vector<Fused> all;
    for (size_t rank = 0; rank < stages_.size(); ++rank) {
      const Stages& s = stages_[rank];
      Fused& f = all.emplace_back(Fused{.form = form_,
                                        .algorithm = plans_[rank].algorithm,
                                        .fingerprints = s.fingerprints,
                                        .copies = s.copies,
                                        .buffers = plans_[rank].buffers.front(),
                                        .wire_bytes = plans_[rank].wire_bytes});
      for (Fingerprint& each : f.fingerprints) {
        each.target.offset -= fingerprints_;
        f.scratch_bytes = std::max(f.scratch_bytes, each.target.offset + kFingerprintBytes);
      }
      if (pushes) push(rank, f);
      for (Compute c : s.computes[share]) f.makes.push_back(moved(std::move(c), pushed_, shared_));
      if (!shares) continue;
      check_shared(rank, share);
      for (Compute c : s.computes[share + 1])
        f.takes.push_back(moved(std::move(c), shared_, shared_));
    }
    measure(all);
    return all;
  }

 private:
  Fused::Form form() const {
    if (stages_.front().exchanges == 2) return Fused::Form::kReduceAndShare;
    for (const Stages& s : stages_)
      for (const Transfer& t : s.transfers[0])
        if (t.send && is_shared(s, t)) return Fused::Form::kShare;
    return Fused::Form::kReduce;
  }

  size_t first_received(size_t exchange) const {
    size_t first = std::numeric_limits<size_t>::max();
    for (const Stages& s : stages_)
      for (const Transfer& t : s.transfers[exchange])
        if (!t.send) first = std::min(first, t.place.offset);
    if (first == std::numeric_limits<size_t>::max()) refuse("for nothing is exchanged");
    return first;
  }

  // Fingerprints lie in scratch behind what is exchanged; 0: there are none.
  size_t first_fingerprint() const {
    size_t first = std::numeric_limits<size_t>::max();
    for (const Stages& s : stages_)
      for (const Fingerprint& each : s.fingerprints) first = std::min(first, each.target.offset);
    return first == std::numeric_limits<size_t>::max() ? 0 : first;
  }

  bool is_sent(size_t rank, const Compute& c) const {
    return std::ranges::any_of(stages_[rank].transfers[0],
                               [&](const Transfer& t) { return t.send && t.place == c.target; });
  }

  // Place at which the peer receives the rank's transfer: the one that is as many transfers
  // between the two before it.
  Place received(size_t rank, size_t exchange, const Transfer& sent) const {
    size_t before = 0;
    for (const Transfer& t : stages_[rank].transfers[exchange]) {
      if (&t == &sent) break;
      before += t.send && t.peer == sent.peer;
    }
    for (const Transfer& t : stages_[static_cast<size_t>(sent.peer)].transfers[exchange])
      if (!t.send && t.peer == static_cast<int>(rank) && before-- == 0) return t.place;
    refuse("for its ranks do not do the same");
  }

  void push(size_t rank, Fused& f) const {
    const Stages& s = stages_[rank];
    for (const Transfer& t : s.transfers[0]) {
      if (!t.send) continue;
      const Compute* const c = writer(s.computes[0], t.place);
      if (c == nullptr) refuse("for it sends what it has not packed for it");
      Compute pushed = *c;
      pushed.target = received(rank, 0, t);
      f.pushes.push_back({t.peer, moved(std::move(pushed), pushed_, pushed_)});
    }
    for (const Compute& c : s.computes[0])
      if (!is_sent(rank, c))
        f.pushes.push_back({static_cast<int>(rank), moved(c, pushed_, pushed_)});
  }

  // What is shared has one place on all ranks.
  void check_shared(size_t rank, size_t exchange) const {
    const Stages& s = stages_[rank];
    size_t sent = 0;
    for (const Transfer& t : s.transfers[exchange]) {
      if (!t.send) continue;
      ++sent;
      if (writer(s.computes[exchange], t.place) == nullptr ||
          received(rank, exchange, t) != t.place)
        refuse("for what it sends has other places on other ranks");
    }
    const size_t made = std::ranges::count_if(
        s.computes[exchange], [](const Compute& c) { return is_scratch(c.target); });
    if (sent != made * (stages_.size() - 1))
      refuse("for it sends some ranks what others do not get");
  }

  // Compute whose places in scratch are offsets in the areas that begin there.
  Compute moved(Compute c, size_t from, size_t to) const {
    const auto move = [](Place& place, size_t begin) {
      if (!is_scratch(place)) return;
      if (place.offset < begin) refuse("for it takes what is not exchanged");
      place.offset -= begin;
    };
    for (Input& in : c.inputs) move(in.place, from);
    move(c.target, to);
    if (c.rng_key && c.rng_key->fingerprint) move(*c.rng_key->fingerprint, fingerprints_);
    return c;
  }

  void measure(std::vector<Fused>& all) const {
    size_t pushed = 0, shared = 0;
    const auto end = [&](const Compute& c) {
      return c.target.offset + shape_.bytes(c.target_format, c.count);
    };
    for (const Fused& f : all) {
      for (const Fused::Push& p : f.pushes) pushed = std::max(pushed, end(p.compute));
      for (const Compute& c : f.makes)
        if (is_scratch(c.target)) shared = std::max(shared, end(c));
    }
    for (Fused& f : all) {
      for (const Compute& c : f.makes)
        f.made_bytes.push_back(is_scratch(c.target) ? shape_.bytes(c.target_format, c.count) : 0);
      f.pushed_bytes = Chunks::round_up(pushed, Chunks::kAlignment);
      f.shared_bytes = Chunks::round_up(shared, Chunks::kAlignment);
    }
  }

  const std::vector<Plan>& plans_;
  const Shape& shape_;
  std::vector<Stages> stages_;  // by rank
  Fused::Form form_ = Fused::Form::kShare;
  size_t pushed_ = 0, shared_ = 0, fingerprints_ = 0;  // where they begin in scratch
};

}  // namespace

Fusion fuse(Collective collective, const std::function<Plan(const Shape&)>& build,
            const Shape& shape, size_t max_window_bytes) {
  try {
    if (traits(collective).rooted) refuse("for it has a root");
    if (shape.topology.nodes() == 0) refuse("for the nodes are not known");
    if (shape.topology.nodes() != 1)
      refuse(fmt::format("for its ranks are on {} nodes", shape.topology.nodes()));
    if (shape.packing.codebook_bytes != 0) refuse("for its levels are of a table");
    if (shape.ranks > Fused::kMaxRanks)
      refuse(fmt::format("for it has more than {} ranks", Fused::kMaxRanks));
    Shape each = shape;
    each.chunk_policy = exact_chunks(std::numeric_limits<size_t>::max());
    std::vector<Plan> plans;
    for (each.rank = 0; each.rank < shape.ranks; ++each.rank) plans.push_back(build(each));
    Fusion fusion{Fusing(plans, shape).all(), {}};
    const Fused& any = fusion.by_rank.front();
    const size_t bytes = (1 + any.alternates()) * (any.pushed_bytes + any.shared_bytes);
    if (bytes > max_window_bytes)
      refuse(fmt::format("for it needs a window of {} B, more than {} B", bytes, max_window_bytes));
    return fusion;
  } catch (Refusal& refusal) {
    return {{}, std::move(refusal.reason)};
  }
}

Plan with_windows(const Plan& usual, Fused fused) {
  Plan plan = usual;
  plan.steps = {Step{.name = "fused", .lane = Lane::kDecode, .fingerprints = fused.fingerprints}};
  plan.is_chain = true;
  plan.scratch_bytes = plan.max_scratch_bytes = fused.scratch_bytes;
  plan.verdict.reset();
  plan.fused = std::make_shared<const Fused>(std::move(fused));
  return plan;
}

}  // namespace terse::plan
