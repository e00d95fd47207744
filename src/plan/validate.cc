// Validation of a plan: a walk over its steps.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <vector>

#include "plan/chunks.h"
#include "plan/native_traffic.h"
#include "plan/order.h"
#include "plan/plan.h"
#include "plan/uses.h"

namespace terse::plan {
namespace {

// Returns true if elements of a message may be so.
bool has(const Shape& message, Format format) {
  return format == Format::kRaw || message.packing_of(format).bytes;
}

// Format whose bodies these are.
Format unrounded(const Shape& message, Format format) {
  return format == Format::kSumPacked && message.sum.is_rounding ? Format::kPacked : format;
}

// Ranks, and the one that has the plan.
struct Ranks {
  int count, self;
};

// Walks a plan and stops at the first error.
class Checker {
 public:
  Checker(const Plan& plan, const Ranks& ranks, std::vector<Shape> formats)
      : plan_(plan), ranks_(ranks.count), rank_(ranks.self), formats_(std::move(formats)) {}

  std::string check() {
    if (plan_.buffers.size() != formats_.size()) return "buffers of other messages";
    if (plan_.state.key.empty() && plan_.state.bytes != 0) return "a state without a key";
    for (size_t i = 0; i < plan_.steps.size() && error_.empty(); ++i) {
      at_ = i;
      start_ = order_.start(plan_.steps[i]);
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
    if (!s.learns.empty() && s.lane == Lane::kCommunicate)
      refuse("levels are learned on a communicate lane");
    if (!s.natives.empty() && s.lane != Lane::kCommunicate)
      refuse("native collectives on a compute lane");
    if (!s.natives.empty() && !s.transfers.empty()) refuse("native collectives beside transfers");
    if (s.turn >= (s.lane == Lane::kCommunicate ? kCommunicateLanes : 1))
      return refuse("a lane that is not there");
    if (!s.fingerprints.empty() && s.lane == Lane::kCommunicate)
      refuse("fingerprints on a communicate lane");
    if (s.header) header(s);
    for (const Fingerprint& f : s.fingerprints) fingerprint(f);
    for (const Compute& c : s.compute) compute(c);
    for (const Copy& c : s.copies) copy(c);
    for (const Learn& l : s.learns) learn(l);
    // All transfers, or native collectives, of a step run at once: what is sent must be there
    // before.
    for (const Transfer& t : s.transfers) send(t);
    for (const Transfer& t : s.transfers)
      if (!t.send) change(t.place, t.bytes);
    for (const Native& n : s.natives) send(n);
    for (const Native& n : s.natives) receive(n);
  }

  void compute(const Compute& c) {
    if (c.message >= formats_.size()) return refuse("no such message");
    for (const Input& in : c.inputs) {
      extent(in.place, in.format, c);
      if (in.negated && in.format != Format::kRaw) refuse("takes away what is packed");
      for_each_part(in.place, in.format, c, taken(c), [&](const Place& place, size_t bytes) {
        if (is_own(place)) read(place, bytes);
      });
    }
    read_codebook(c);
    extent(c.target, c.target_format, c);
    parts(c);
    formats(c);
    // Raw elements may be replaced in place, one by one.
    const bool in_place = std::ranges::any_of(c.inputs, [&](const Input& in) {
      return in.place == c.target && in.format == Format::kRaw && c.target_format == Format::kRaw;
    });
    for_each_part(c.target, c.target_format, c, c.part,
                  [&](const Place& place, size_t bytes) { change(place, bytes, in_place); });
    give(c.target);
    if (c.target.region == Region::kSend) refuse("writes to the send buffer");
    if (c.origin % 32 != 0) refuse("an origin that is not a multiple of 32");
    if (c.inputs.empty() || c.count == 0) refuse("an empty compute");
    if (c.rng_key && c.rng_key->fingerprint) read(*c.rng_key->fingerprint, kFingerprintBytes);
  }

  // Writes all slots; those to be received are checked when they have come.
  void header(const Step& s) {
    const Header& h = *s.header;
    const size_t slots = Header::kReceived + h.first + h.count;
    within(h.memory, slots * kHeaderBytes, 0);
    if (s.lane != Lane::kDecode || plan_.verdict != h.memory) refuse("a header out of place");
    if (h.stage == Header::Stage::kWrite) {
      unchecked_ = h.count;
      return write(h.memory, slots * kHeaderBytes, false);
    }
    if (h.count > unchecked_) refuse("checks headers that do not come");
    unchecked_ -= std::min(unchecked_, h.count);
    read({h.memory.region, h.memory.offset + (slots - h.count) * kHeaderBytes},
         h.count * kHeaderBytes);
    any_checked_ = true;
  }

  // Gives results only by the verdict, and after a header was checked, if any come.
  void give(const Place& place) {
    if (place.region != Region::kRecv || !plan_.verdict) return;
    read(*plan_.verdict, sizeof(uint32_t));
    if (unchecked_ != 0 && !any_checked_) refuse("gives what may be of another call");
  }

  void fingerprint(const Fingerprint& f) {
    within(f.source, f.bytes, 0);
    within(f.target, kFingerprintBytes, 0);
    if (f.source.region != Region::kSend || f.target.region != Region::kScratch)
      refuse("a fingerprint from or to where none may be");
    use_send_buffer();
    write(f.target, kFingerprintBytes, false);
  }

  // Reads the send buffer, which may be the receive buffer.
  void learn(const Learn& l) {
    if (plan_.codebook_bytes == 0) return refuse("learns levels that the call does not have");
    if (l.state.region != Region::kScratch) return refuse("learns outside scratch");
    within(l.state, Learn::kStateBytes, 0);
    within({Region::kSend, 0}, l.count * formats_.front().element_bytes, 0);
    const Place bins{l.state.region, l.state.offset + Learn::kBinsAt};
    switch (l.stage) {
      case Learn::Stage::kWidest:
        write(l.state, Learn::kStateBytes, false);
        break;
      case Learn::Stage::kHistogram:
        read(l.state, Learn::kStateBytes);
        write(bins, Learn::kBins * sizeof(uint64_t), true);
        break;
      case Learn::Stage::kFit:
        read(l.state, Learn::kStateBytes);
        return write({Region::kCodebook, 0}, plan_.codebook_bytes, false);
    }
    use_send_buffer();
  }

  // Packing and unpacking read the table of levels.
  void read_codebook(const Compute& c) {
    const bool packed =
        c.target_format != Format::kRaw ||
        std::ranges::any_of(c.inputs, [](const Input& in) { return in.format != Format::kRaw; });
    if (packed && plan_.codebook_bytes != 0) read({Region::kCodebook, 0}, plan_.codebook_bytes);
  }

  void copy(const Copy& c) {
    within(c.source, c.bytes, 0);
    within(c.target, c.bytes, 0);
    const bool from = c.source.region == Region::kSend || is_own(c.source);
    const bool to = c.target.region == Region::kRecv || c.target.region == Region::kState ||
                    c.target.region == Region::kScratch;
    if (!from || !to || c.bytes == 0) refuse("a copy from or to where none may be");
    if (is_own(c.source))
      read(c.source, c.bytes);
    else if (c.target.region == Region::kScratch)
      use_send_buffer();
    give(c.target);
    change(c.target, c.bytes);
  }

  void send(const Transfer& t) {
    if (t.message >= formats_.size()) return refuse("no such message");
    within(t.place, t.bytes, t.message);
    if (t.peer < 0 || t.peer >= ranks_ || (t.peer == rank_ && !t.native))
      refuse("a peer out of range");
    const bool scratch = t.place.region == Region::kScratch;
    if (!scratch && t.place.region != (t.send ? Region::kSend : Region::kRecv))
      refuse("sends from the receive buffer, or receives into the send buffer");
    if (t.send && scratch) read(t.place, t.bytes, Chunks::kAlignment - 1);
    if (t.send && !t.native && !t.header) sent_ += t.bytes;
  }

  void send(const Native& n) {
    if (is_point_to_point(n.collective)) return refuse("a message among native collectives");
    if (n.count == 0) return refuse("a native collective of nothing");
    const Traits& t = traits(n.collective);
    if (t.rooted && (n.root < 0 || n.root >= ranks_)) return refuse("a root out of range");
    const size_t shards = shards_of(n, t.send);
    if (shards == 0) return;
    within(n.send, shards * shard_bytes(n), 0);
    if (n.send.region == Region::kSend) return send_own(n);
    if (!is_own(n.send)) return refuse("sends neither from the send buffer nor scratch or state");
    if (n.meets) return;
    for (size_t p = 0; p < shards; ++p) read(shard(n.send, n, p), shard_bytes(n));
  }

  // The caller's own call: NCCL knows whether it is in place.
  static bool is_the_call(const Native& n) {
    return n.send == Place{Region::kSend, 0} && n.recv == Place{Region::kRecv, 0} &&
           n.element == Element::kOfCall && n.operation == Operation::kOfCall;
  }

  // Reads the send buffer, which may be the receive buffer.
  void send_own(const Native& n) {
    if (n.recv.region == Region::kRecv && !is_the_call(n))
      refuse("receives where it may still send");
    use_send_buffer();
  }

  void use_send_buffer() {
    if (changed_) refuse("reads what may have been changed");
    if (sends_.empty() || sends_.back() != at_) sends_.push_back(at_);
  }

  void receive(const Native& n) {
    const Traits& t = traits(n.collective);
    const size_t shards = shards_of(n, t.recv);
    if (shards == 0) return;
    within(n.recv, shards * shard_bytes(n), 0);
    if (n.recv.region == Region::kSend) refuse("receives into the send buffer");
    if (is_the_call(n)) {
      changed_ = true;
      return;
    }
    if (!is_own(n.recv)) return change(n.recv, shards * shard_bytes(n));
    const auto own = [&](const Place& place, const Side& side) {
      return shard(place, n, side.per_rank ? static_cast<size_t>(rank_) : 0);
    };
    const Place from = own(n.send, t.send), to = own(n.recv, t.recv);
    const bool in_place = from == to && !(t.send.per_rank && t.recv.per_rank);
    for (size_t p = 0; p < shards; ++p) {
      const Place place = shard(n.recv, n, p);
      write(place, shard_bytes(n), in_place && place == to);
    }
  }

  size_t shards_of(const Native& n, const Side& side) const {
    return plan::extent(side, {ranks_, rank_, n.root});
  }
  size_t shard_bytes(const Native& n) const {
    return n.count * element_bytes(n.element, formats_.front().element_bytes);
  }
  Place shard(const Place& place, const Native& n, size_t p) const {
    return {place.region, place.offset + p * shard_bytes(n)};
  }

  // The end of the decode lane is that of the whole call.
  void end() {
    const Step next{.name = "", .lane = Lane::kDecode, .after = {}, .compute = {}, .transfers = {}};
    for (at_ = 0; at_ < plan_.steps.size(); ++at_)
      if (!order_.is_done(at_, next)) refuse("the decode lane may end before it");
  }

  void extent(const Place& place, Format format, const Compute& c) {
    const bool packed = format != Format::kRaw;
    if (packed && place.region != Region::kScratch && place.region != Region::kState)
      refuse("packed data outside scratch");
    if (place.region == Region::kExact) refuse("computes with the exact result");
    if (place.region == Region::kCodebook) refuse("computes with the levels");
    if (!has(formats_[c.message], format)) return refuse("a format that the call does not have");
    for_each_part(place, format, c, taken(c),
                  [&](const Place& part, size_t bytes) { within(part, bytes, c.message); });
  }

  // Part that a compute reads: codes are merged alone.
  static Part taken(const Compute& c) {
    return c.part == Part::kMerged ? Part::kMerged : Part::kAll;
  }

  // Codes are made of existing parameters.
  void parts(const Compute& c) {
    const bool shared = formats_[c.message].packing.shared_grid.has_value();
    if ((c.part != Part::kAll || c.params_offset != 0) && !shared)
      return refuse("codes and parameters apart, of a grid that is not shared");
    if (c.params_offset != 0 &&
        (c.params_offset % 4 != 0 ||
         c.params_offset < formats_[c.message].packing.shared_grid->code_bytes(c.count)))
      return refuse("parameters within the codes, or that are not aligned");
    if (c.part == Part::kAll) return;
    if (c.target_format != Format::kPacked) return refuse("a part of what is not packed");
    if (c.part == Part::kMerged) return merges(c);
    if (c.part == Part::kCodes)
      for_each_part(c.target, c.target_format, c, Part::kParams,
                    [&](const Place& place, size_t bytes) { read(place, bytes); });
  }

  void merges(const Compute& c) {
    if (formats_[c.message].packing.sharing() != Sharing::kMerged)
      refuse("merges codes that are not merged");
    for (const Input& in : c.inputs)
      if (in.format != Format::kPacked) refuse("merges what is not packed");
  }

  // Places of elements: codes and parameters may be apart.
  template <class See>
  void for_each_part(const Place& place, Format format, const Compute& c, Part part,
                     const See& see) const {
    const std::optional<SharedGrid>& grid = formats_[c.message].packing.shared_grid;
    const size_t bytes = bytes_of(format, c);
    if (!grid || format != Format::kPacked) return see(place, bytes);
    const size_t codes = grid->code_bytes(c.count);
    const size_t apart = c.params_offset != 0 ? c.params_offset : codes;
    if (part != Part::kParams) see(place, codes);
    if (part == Part::kAll || part == Part::kParams)
      see({place.region, place.offset + apart}, bytes - codes);
  }

  size_t bytes_of(Format format, const Compute& c) const {
    const Shape& message = formats_[c.message];
    return has(message, format) ? message.bytes(format, c.count) : 0;
  }

  // A kernel knows one packed format.
  void formats(const Compute& c) {
    std::optional<Format> packed;
    for (const Input& in : c.inputs) {
      if (in.format == Format::kRaw) continue;
      if (packed && in.format != *packed) refuse("packed inputs of two formats");
      packed = in.format;
    }
    const bool changes =
        packed && c.target_format != Format::kRaw &&
        unrounded(formats_[c.message], *packed) != unrounded(formats_[c.message], c.target_format);
    if (changes != c.sums.has_value()) refuse("sums without a change of formats, or none with one");
    if (!changes || !c.sums) return;
    if (std::ranges::find(c.inputs, Format::kRaw, &Input::format) != c.inputs.end())
      refuse("a raw input beside a change of formats");
    if (c.sums->region != Region::kScratch) refuse("sums outside scratch");
    within(*c.sums, c.count * sizeof(float), c.message);
    change(*c.sums, c.count * sizeof(float));
  }

  void within(const Place& place, size_t bytes, size_t message) {
    const Buffers& buffers = plan_.buffers[message];
    const size_t extents[] = {buffers.send_bytes, buffers.recv_bytes, plan_.scratch_bytes,
                              plan_.exact_bytes,  plan_.state.bytes,  plan_.codebook_bytes};
    if (place.offset + bytes > extents[static_cast<int>(place.region)])
      refuse("a place past its region");
  }

  // Returns true for memory that only the plan uses.
  static bool is_own(const Place& place) {
    return place.region == Region::kScratch || is_kept(place);
  }

  // Returns true for memory with what an earlier call wrote.
  static bool is_kept(const Place& place) {
    return place.region == Region::kState || place.region == Region::kCodebook;
  }

  Uses& uses(const Place& place) {
    if (place.region == Region::kScratch) return scratch_;
    return place.region == Region::kState ? state_ : codebook_;
  }

  // Reads memory, which is the step's own while it runs: no step may change what another, or
  // itself, may be reading or writing. A message may have several shards, with up to `padding`
  // unwritten bytes between them.
  void read(const Place& place, size_t bytes, size_t padding = 0) {
    const bool was_written = is_kept(place);
    const size_t queue = plan_.steps[at_].queue();
    size_t unwritten = padding;  // so far; none before the beginning
    uses(place).visit(place.offset, place.offset + bytes, [&](Use& use, size_t length) {
      unwritten = use.writer != kNone || was_written ? 0 : unwritten + length;
      if (unwritten > padding) refuse("reads scratch that nothing wrote");
      if (!is_done(use.writer)) refuse("reads what may not be written yet");
      use.read(at_, queue);
    });
    if (unwritten != 0) refuse("reads scratch that nothing wrote");
  }

  // Changes a place to what it did not have. The receive buffer may be the send buffer.
  void change(const Place& place, size_t bytes, bool in_place = false) {
    if (is_own(place)) return write(place, bytes, in_place);
    if (place.region != Region::kRecv) return;
    changed_ = true;
    for (const size_t sends : sends_)
      if (!is_done(sends)) refuse("changes what may still be read as it was");
  }

  // `in_place`: written by its reader.
  void write(const Place& place, size_t bytes, bool in_place) {
    const auto see = [&](const Use& use) {
      bool free = is_done(use.writer);
      for (const size_t reader : use.readers)
        free = free && ((in_place && reader == at_ && use.reads == 1) || is_done(reader));
      if (!free) refuse("writes what may still be in use");
    };
    uses(place).replace(place.offset, place.offset + bytes, {.writer = at_}, see);
  }

  bool is_done(size_t earlier) const { return earlier == kNone || order_.is_done(earlier, start_); }

  void refuse(const char* what) {
    if (error_.empty()) error_ = fmt::format("step {} ({}): {}", at_, plan_.steps[at_].name, what);
  }

  const Plan& plan_;
  const int ranks_, rank_;
  const std::vector<Shape> formats_;  // by message, of which sizes alone count
  size_t at_ = 0;
  size_t sent_ = 0;
  Uses scratch_, state_, codebook_;
  std::vector<size_t> sends_;  // steps that copy from the send buffer
  bool changed_ = false;       // the receive buffer was written
  size_t unchecked_ = 0;       // headers to be checked
  bool any_checked_ = false;
  Order order_;
  Order::Front start_{};  // of the step
  std::string error_;
};

}  // namespace

std::string validate(const Plan& plan, const Shape& s) {
  const Shape sizes{.element_bytes = s.element_bytes,
                    .packing = s.packing,
                    .within = s.within,
                    .sum = s.sum,
                    .outer = s.outer};
  std::string wrong = Checker(plan, {s.ranks, s.rank}, {sizes}).check();
  if (wrong.empty() && plan.native != native_traffic(plan.steps, s))
    wrong = "native traffic is not that of its collectives";
  return wrong;
}

std::string validate(const Plan& plan, const Batch& batch) {
  std::vector<Shape> formats;
  for (const Message& m : batch.messages)
    formats.push_back({.element_bytes = m.element_bytes, .packing = m.packing});
  return Checker(plan, {batch.ranks, batch.rank}, std::move(formats)).check();
}

}  // namespace terse::plan
