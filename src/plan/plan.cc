#include "plan/plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "plan/order.h"

namespace terse::plan {
namespace {

constexpr const char* kRegionNames[] = {"send", "recv", "scratch"};
constexpr const char* kLaneNames[] = {"encode", "decode", "communicate"};

// Walks a plan and stops at the first thing that is wrong.
class Checker {
 public:
  Checker(const Plan& plan, const Shape& shape) : plan_(plan), shape_(shape) {}

  std::string check() {
    for (size_t i = 0; i < plan_.steps.size() && error_.empty(); ++i) {
      at_ = i;
      step(plan_.steps[i]);
      if (error_.empty()) order_.add(plan_.steps[i]);
    }
    if (error_.empty()) end();
    if (error_.empty() && sent_ != plan_.wire_bytes) error_ = "wire bytes are not those sent";
    return error_;
  }

 private:
  void step(const Step& s) {
    for (const size_t before : s.after)
      if (before >= at_) refuse("waits for a step that comes later");
    if (!s.transfers.empty() && s.lane != Lane::kCommunicate) refuse("transfers on a compute lane");
    if (s.turn >= (s.lane == Lane::kCommunicate ? kCommunicateLanes : 1))
      return refuse("a lane that is not there");
    for (const Compute& c : s.compute) {
      for (const Input& in : c.inputs) {
        extent(in.place, in.packed, c.count);
        if (in.packed) read(in.place);
      }
      extent(c.target, c.packed_target, c.count);
      if (c.packed_target) write(c.target);
      if (c.target.region == Region::kSend) refuse("writes to the send buffer");
      if (c.origin % 32 != 0) refuse("an origin that is not a multiple of 32");
      if (c.inputs.empty() || c.count == 0) refuse("an empty compute");
    }
    // All of a step's transfers run at once: what is sent must be there before.
    for (const Transfer& t : s.transfers) {
      within(t.place, t.bytes);
      if (t.peer < 0 || t.peer >= shape_.ranks || t.peer == shape_.rank)
        refuse("a peer out of range");
      if (t.send) read(t.place);
      if (t.send) sent_ += t.bytes;
    }
    for (const Transfer& t : s.transfers)
      if (!t.send) write(t.place);
  }

  // The end of the decode lane is that of the whole call.
  void end() {
    const Step next{.name = "", .lane = Lane::kDecode, .after = {}, .compute = {}, .transfers = {}};
    for (at_ = 0; at_ < plan_.steps.size(); ++at_)
      if (!order_.is_done(at_, next)) refuse("the decode lane may end before it");
  }

  void extent(const Place& place, bool packed, size_t count) {
    if (packed != (place.region == Region::kScratch))
      refuse("packed data outside scratch, or raw data in it");
    within(place, packed ? shape_.packing.bytes(count) : count * shape_.element_bytes);
  }

  void within(const Place& place, size_t bytes) {
    const size_t extents[] = {plan_.send_bytes, plan_.recv_bytes, plan_.scratch_bytes};
    if (place.offset + bytes > extents[static_cast<int>(place.region)])
      refuse("a place past its region");
  }

  // Pieces of scratch are known by where they begin. What a step uses is its own while it runs: it
  // must not change what another, or itself, may be reading or writing.
  void read(const Place& place) {
    const auto found = scratch_.find(place.offset);
    if (found == scratch_.end()) return refuse("reads scratch that nothing wrote");
    if (!is_done(found->second.writer)) refuse("reads scratch that may not be written yet");
    found->second.readers.push_back(at_);
  }

  void write(const Place& place) {
    const auto [found, is_new] = scratch_.try_emplace(place.offset);
    bool free = is_new || is_done(found->second.writer);
    for (const size_t reader : found->second.readers) free = free && is_done(reader);
    if (!free) refuse("writes scratch that may still be in use");
    found->second = {at_, {}};
  }

  bool is_done(size_t earlier) const { return order_.is_done(earlier, plan_.steps[at_]); }

  void refuse(const char* what) {
    if (error_.empty()) error_ = fmt::format("step {} ({}): {}", at_, plan_.steps[at_].name, what);
  }

  const Plan& plan_;
  const Shape& shape_;
  size_t at_ = 0;
  size_t sent_ = 0;
  struct Use {
    size_t writer = 0;
    std::vector<size_t> readers;  // since then
  };
  std::map<size_t, Use> scratch_;  // by offset
  Order order_;
  std::string error_;
};

std::string text(const Place& p) {
  return fmt::format("{}+{}", kRegionNames[static_cast<int>(p.region)], p.offset);
}

void print_compute(const Compute& c, std::string& out) {
  out += fmt::format("    {} x{} <-", text(c.target), c.count);
  for (const Input& in : c.inputs)
    out += fmt::format(" {}{}", text(in.place), in.packed ? "" : " raw");
  if (c.packed_target)
    out += fmt::format(" [piece {} stage {} origin {}]", c.piece, c.stage, c.origin);
  out += c.final_sum ? " final\n" : "\n";
}

}  // namespace

std::string validate(const Plan& plan, const Shape& shape) { return Checker(plan, shape).check(); }

std::string print(const Plan& plan) {
  std::string out =
      fmt::format("{}: {} steps, scratch {} B, wire {} B, raw {} B\n", plan.algorithm,
                  plan.steps.size(), plan.scratch_bytes, plan.wire_bytes, plan.raw_bytes);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    out += fmt::format("{:3} {} on {}", i, step.name, kLaneNames[static_cast<int>(step.lane)]);
    if (step.lane == Lane::kCommunicate) out += fmt::format(" {}", step.turn);
    for (const size_t before : step.after) out += fmt::format(" after {}", before);
    out += '\n';
    for (const Compute& c : step.compute) print_compute(c, out);
    for (const Transfer& t : step.transfers)
      out += fmt::format("    {} {} {} x{} B\n", t.send ? "to" : "from", t.peer, text(t.place),
                         t.bytes);
  }
  return out;
}

}  // namespace terse::plan
