#include "plan/delta.h"

#include <utility>

#include "plan/builder.h"
#include "plan/rng_key.h"

namespace terse::plan {
namespace {

size_t shard_bytes(const Shape& s) { return s.count * s.element_bytes; }
size_t own_offset(const Shape& s) { return s.rank * shard_bytes(s); }

// Returns true if the offset is in this rank's shard.
bool is_own(const Shape& s, size_t offset) {
  return offset >= own_offset(s) && offset < own_offset(s) + shard_bytes(s);
}

// Offset of the shadow of this rank's shard.
size_t own_shadow(Base base, const Shape& s) { return base == Base::kShadow ? own_offset(s) : 0; }

State state_of(const Shape& s, const Delta& delta) {
  if (delta.base == Base::kNone) return {};
  return {delta.base == Base::kInplace ? "shadow of a shard" : "shadow",
          shadow_bytes(delta.base, s.ranks, shard_bytes(s))};
}

// Copies to the receive buffer what is not there yet: the own shard, exact or as its shadow; and
// all others, if they are in the state.
Step give(const Shape& s, const Delta& delta) {
  const size_t bytes = shard_bytes(s), own = own_offset(s);
  const auto shadow = [](size_t from, size_t size) {
    return Copy{{Region::kRecv, from}, {Region::kState, from}, size};
  };
  Step give{.name = "give", .lane = Lane::kDecode};
  if (delta.base == Base::kShadow) {
    if (own != 0) give.copies.push_back(shadow(0, own));
    if (const size_t end = own + bytes; end < s.ranks * bytes)
      give.copies.push_back(shadow(end, s.ranks * bytes - end));
  }
  const Place source =
      delta.own_exact ? Place{Region::kSend, 0} : Place{Region::kState, own_shadow(delta.base, s)};
  give.copies.push_back({{Region::kRecv, own}, source, bytes});
  return give;
}

// Gives an AllGather's computes the base.
class Differences : Assembly {
 public:
  Differences(Plan plan, const Shape& shape, const Delta& delta)
      : Assembly(std::move(plan)), shape_(shape), delta_(delta) {}

  Plan build() {
    for (Step& step : clear()) {
      for (Compute& compute : step.compute) {
        if (compute.target_format == Format::kRaw)
          add_base(compute);
        else
          take_base(compute);
      }
      insert(std::move(step));
    }
    insert(give(shape_, delta_));
    plan_.state = state_of(shape_, delta_);
    return finish();
  }

 private:
  // Takes the base from a shard of the send buffer that is encoded.
  void take_base(Compute& compute) const {
    if (compute.inputs.front().format != Format::kRaw) return;  // passed on packed
    const size_t offset = compute.inputs.front().place.offset;
    compute.inputs.push_back(
        {{Region::kState, own_shadow(delta_.base, shape_) + offset}, Format::kRaw, true});
  }

  // Adds the base to a shard that is decoded, in its place.
  void add_base(Compute& compute) const {
    const size_t at = compute.target.offset;
    if (is_own(shape_, at))
      compute.target = {Region::kState, own_shadow(delta_.base, shape_) + at - own_offset(shape_)};
    else if (delta_.base == Base::kShadow)
      compute.target.region = Region::kState;
    compute.inputs.insert(compute.inputs.begin(), {compute.target, Format::kRaw});
  }

  const Shape& shape_;
  const Delta delta_;
};

// Gives an AllGather's own shard exact, in place of what is decoded of it.
class OwnKept : Assembly {
 public:
  OwnKept(Plan plan, const Shape& shape) : Assembly(std::move(plan)), shape_(shape) {}

  Plan build() {
    for (Step& step : clear()) {
      std::erase_if(step.compute, [&](const Compute& c) {
        return c.target.region == Region::kRecv && is_own(shape_, c.target.offset);
      });
      insert(std::move(step));
    }
    insert(give(shape_, {.own_exact = true}));
    return finish();
  }

 private:
  const Shape& shape_;
};

// Keeps nothing without a base.
Plan gather_in_full(const Shape& s, const Delta& delta) {
  Builder b(Collective::kAllGather, "AllGather in full", s);
  const bool to_state = delta.base == Base::kShadow;
  Step gather{.name = "gather", .lane = Lane::kCommunicate};
  gather.natives = {{.collective = Collective::kAllGather,
                     .send = {Region::kSend, 0},
                     .recv = {to_state ? Region::kState : Region::kRecv, 0},
                     .count = s.count}};
  const size_t gathered = b.add(std::move(gather));
  if (to_state) {
    Step last = give(s, delta);
    last.after = {gathered};
    b.add(std::move(last));
  } else if (delta.base == Base::kInplace) {
    Step remember{.name = "remember", .lane = Lane::kDecode, .after = {gathered}};
    remember.copies = {{{Region::kState, 0}, {Region::kSend, 0}, shard_bytes(s)}};
    b.add(std::move(remember));
  }
  Plan plan = b.take(size_t{0});
  plan.state = state_of(s, delta);
  return plan;
}

Plan gather_nothing(const Shape& s, const Delta& delta) {
  Builder b(Collective::kAllGather, "AllGather of nothing new", s);
  b.add(give(s, delta));
  Plan plan = b.take(size_t{0});
  plan.state = state_of(s, delta);
  return plan;
}

Plan drawn(Plan plan, const Shape& s, bool repeats) {
  return s.draws() ? with_content_rng_key(std::move(plan), repeats) : std::move(plan);
}

}  // namespace

size_t shadow_bytes(Base base, int ranks, size_t shard_bytes) {
  const size_t shards[] = {0, 1, static_cast<size_t>(ranks)};
  return shards[static_cast<size_t>(base)] * shard_bytes;
}

Plan build(const Algorithm& algorithm, const Shape& shape, const Delta& delta) {
  switch (delta.gathers) {
    case Gathers::kInFull:
      return gather_in_full(shape, delta);
    case Gathers::kNothing:
      return gather_nothing(shape, delta);
    case Gathers::kDifferences:
      return drawn(Differences(algorithm.build(shape), shape, delta).build(), shape, false);
    case Gathers::kAsUsual:
      break;
  }
  if (is_point_to_point(algorithm.collective)) return algorithm.build(shape);
  const bool gathers = algorithm.collective == Collective::kAllGather;
  Plan plan = drawn(algorithm.build(shape), shape, gathers);
  if (!gathers) return plan;
  return delta.own_exact ? OwnKept(std::move(plan), shape).build() : plan;
}

void shadow_what_stays_exact(Plan& plan, const Shape& s, const Delta& delta) {
  if (delta.base == Base::kNone) return;
  for (Step& step : plan.steps) {
    if (!step.is_extra) continue;
    std::vector<Copy> more;
    for (const Copy& copy : step.copies) {
      if (copy.target.region != Region::kRecv) continue;
      const size_t at = copy.target.offset;
      if (delta.base == Base::kShadow)
        more.push_back({{Region::kState, at}, copy.source, copy.bytes});
      else if (is_own(s, at))
        more.push_back({{Region::kState, at - own_offset(s)}, copy.source, copy.bytes});
    }
    step.copies.insert(step.copies.end(), more.begin(), more.end());
  }
}

}  // namespace terse::plan
