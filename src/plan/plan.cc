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

// What is known of a message's elements; of a collective's.
struct Format {
  size_t element_bytes;
  Packing packing;
};

// Walks a plan and stops at the first thing that is wrong.
class Checker {
 public:
  Checker(const Plan& plan, int ranks, int rank, std::vector<Format> formats)
      : plan_(plan), ranks_(ranks), rank_(rank), formats_(std::move(formats)) {}

  std::string check() {
    if (plan_.buffers.size() != formats_.size()) return "buffers of other messages";
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
    if (!s.copies.empty() && s.lane == Lane::kCommunicate) refuse("copies on a communicate lane");
    if (s.turn >= (s.lane == Lane::kCommunicate ? kCommunicateLanes : 1))
      return refuse("a lane that is not there");
    for (const Compute& c : s.compute) {
      if (c.message >= formats_.size()) return refuse("no such message");
      for (const Input& in : c.inputs) {
        extent(in.place, in.packed, c);
        if (in.packed) read(in.place);
      }
      extent(c.target, c.packed_target, c);
      if (c.packed_target) write(c.target);
      if (c.target.region == Region::kSend) refuse("writes to the send buffer");
      if (c.origin % 32 != 0) refuse("an origin that is not a multiple of 32");
      if (c.inputs.empty() || c.count == 0) refuse("an empty compute");
    }
    for (const Copy& c : s.copies) {
      within(c.source, c.bytes, 0);
      within(c.target, c.bytes, 0);
      if (c.source.region != Region::kSend || c.target.region != Region::kRecv || c.bytes == 0)
        refuse("a copy that is not from the send buffer to the receive buffer");
    }
    // All of a step's transfers run at once: what is sent must be there before.
    for (const Transfer& t : s.transfers) {
      if (t.message >= formats_.size()) return refuse("no such message");
      within(t.place, t.bytes, t.message);
      const bool packed = t.place.region == Region::kScratch;
      if (t.peer < 0 || t.peer >= ranks_ || (t.peer == rank_ && packed))
        refuse("a peer out of range");
      if (!packed && t.send != (t.place.region == Region::kSend))
        refuse("sends from the receive buffer, or receives into the send buffer");
      if (t.send && packed) read(t.place);
      if (t.send && packed) sent_ += t.bytes;
    }
    for (const Transfer& t : s.transfers)
      if (!t.send && t.place.region == Region::kScratch) write(t.place);
  }

  // The end of the decode lane is that of the whole call.
  void end() {
    const Step next{.name = "", .lane = Lane::kDecode, .after = {}, .compute = {}, .transfers = {}};
    for (at_ = 0; at_ < plan_.steps.size(); ++at_)
      if (!order_.is_done(at_, next)) refuse("the decode lane may end before it");
  }

  void extent(const Place& place, bool packed, const Compute& c) {
    const Format& format = formats_[c.message];
    if (packed != (place.region == Region::kScratch))
      refuse("packed data outside scratch, or raw data in it");
    within(place, packed ? format.packing.bytes(c.count) : c.count * format.element_bytes,
           c.message);
  }

  void within(const Place& place, size_t bytes, size_t message) {
    const Buffers& buffers = plan_.buffers[message];
    const size_t extents[] = {buffers.send_bytes, buffers.recv_bytes, plan_.scratch_bytes};
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
  const int ranks_, rank_;
  const std::vector<Format> formats_;  // by message
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

// Of which message a place is, where there are several.
std::string text(const Place& p, uint32_t message, size_t messages) {
  if (messages == 1 || p.region == Region::kScratch) return text(p);
  return fmt::format("{} of message {}", text(p), message);
}

void print_compute(const Compute& c, size_t messages, std::string& out) {
  out += fmt::format("    {} x{} <-", text(c.target, c.message, messages), c.count);
  for (const Input& in : c.inputs)
    out += fmt::format(" {}{}", text(in.place, c.message, messages), in.packed ? "" : " raw");
  if (c.packed_target)
    out += fmt::format(" [piece {} stage {} origin {}]", c.piece, c.stage, c.origin);
  out += c.final_sum ? " final\n" : "\n";
}

}  // namespace

std::string validate(const Plan& plan, const Shape& s) {
  return Checker(plan, s.ranks, s.rank, {{s.element_bytes, s.packing}}).check();
}

std::string validate(const Plan& plan, const Batch& batch) {
  std::vector<Format> formats;
  for (const Message& m : batch.messages) formats.push_back({m.element_bytes, m.packing});
  return Checker(plan, batch.ranks, batch.rank, std::move(formats)).check();
}

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
    for (const Compute& c : step.compute) print_compute(c, plan.buffers.size(), out);
    for (const Copy& c : step.copies)
      out += fmt::format("    {} x{} B <- {} as it is\n", text(c.target), c.bytes, text(c.source));
    for (const Transfer& t : step.transfers)
      out += fmt::format("    {} {} {} x{} B\n", t.send ? "to" : "from", t.peer,
                         text(t.place, t.message, plan.buffers.size()), t.bytes);
  }
  return out;
}

}  // namespace terse::plan
