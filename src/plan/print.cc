// A plan as text, one line for each step, for people.
#include <fmt/format.h>

#include "plan/fuse.h"
#include "plan/plan.h"

namespace terse::plan {
namespace {

constexpr const char* kRegionNames[] = {"send", "recv", "scratch", "exact", "state", "codebook"};
constexpr const char* kVariateNames[] = {"", ", mirrored", ", doubled", ", shifted"};
constexpr const char* kPartNames[] = {"", " parameters", " codes", " merged"};
static_assert(std::size(kVariateNames) == static_cast<size_t>(Variate::kShifted) + 1 &&
              std::size(kPartNames) == static_cast<size_t>(Part::kMerged) + 1);
constexpr const char* kFormatNames[] = {" raw", "", " of a node", " of a sum", " of a group"};
static_assert(std::size(kFormatNames) == kFormats);
constexpr const char* kLaneNames[] = {"encode", "decode", "communicate"};
constexpr const char* kElementNames[] = {
    "", " of uint8", " of uint32", " of float32", " of bfloat16", " of uint64"};
constexpr const char* kOperationNames[] = {"", " sum", " max"};

std::string text(const Place& p) {
  return fmt::format("{}+{}", kRegionNames[static_cast<int>(p.region)], p.offset);
}

// Message of a place, if there are several.
std::string text(const Place& p, uint32_t message, size_t messages) {
  if (messages == 1 || p.region == Region::kScratch) return text(p);
  return fmt::format("{} of message {}", text(p), message);
}

void print_compute(const Compute& c, size_t messages, std::string& out) {
  out += fmt::format("    {}{} x{} <-", text(c.target, c.message, messages),
                     kPartNames[static_cast<int>(c.part)], c.count);
  for (const Input& in : c.inputs)
    out += fmt::format(" {}{}{}", in.negated ? "-" : "", text(in.place, c.message, messages),
                       kFormatNames[static_cast<int>(in.format)]);
  if (c.params_offset != 0) out += fmt::format(" with parameters at +{}", c.params_offset);
  if (c.target_format == Format::kIntraPacked) out += " packed for a node";
  if (c.target_format == Format::kSumPacked) out += " packed as a sum";
  if (c.target_format == Format::kOuterPacked) out += " packed for a group";
  if (c.sums) out += fmt::format(" by {}", text(*c.sums));
  if (c.target_format != Format::kRaw)
    out += fmt::format(" [shard {} stage {} origin {}]", c.shard, c.stage, c.origin);
  if (c.shared_draw)
    out += fmt::format(" drawn with rank {}{}", c.shared_draw->rank,
                       kVariateNames[static_cast<int>(c.shared_draw->variate)]);
  if (c.rng_key && c.rng_key->fingerprint)
    out += fmt::format(" drawn by {}", text(*c.rng_key->fingerprint));
  out += c.averages ? " final\n" : "\n";
}

void print_fingerprint(const Fingerprint& f, std::string& out) {
  out +=
      fmt::format("    {} <- fingerprint of {} x{} B\n", text(f.target), text(f.source), f.bytes);
}

void print_copy(const Copy& c, std::string& out) {
  out += fmt::format("    {} x{} B <- {} as it is\n", text(c.target), c.bytes, text(c.source));
}

void print_learn(const Learn& l, std::string& out) {
  const std::string state = text(l.state);
  if (l.stage == Learn::Stage::kFit)
    out += fmt::format("    {} <- levels of {}\n", text({Region::kCodebook, 0}), state);
  else
    out += fmt::format("    {} <- {} of send x{}\n", state,
                       l.stage == Learn::Stage::kWidest ? "widest" : "histogram", l.count);
}

void print_header(const Header& h, std::string& out) {
  if (h.stage == Header::Stage::kWrite)
    out += fmt::format("    {} <- header, for {} more\n", text(h.memory), h.count);
  else
    out += fmt::format("    {} <- check of {} headers from {}\n", text(h.memory), h.count, h.first);
}

void print_native(const Native& n, std::string& out) {
  const Traits& t = traits(n.collective);
  out += fmt::format("    native {} {} <- {} x{}{}{}", t.name, text(n.recv), text(n.send), n.count,
                     kElementNames[static_cast<int>(n.element)],
                     kOperationNames[static_cast<int>(n.operation)]);
  out += t.rooted ? fmt::format(" root {}\n", n.root) : "\n";
}

}  // namespace

std::string print(const Plan& plan) {
  std::string out =
      fmt::format("{}: {} steps, scratch {} B, wire {} B, raw {} B\n", plan.algorithm,
                  plan.steps.size(), plan.scratch_bytes, plan.wire_bytes, plan.raw_bytes);
  if (plan.native.bytes != 0)
    out += fmt::format("  native collectives send {} B\n", plan.native.bytes);
  if (!plan.state.key.empty())
    out += fmt::format("  keeps {} B, \"{}\"\n", plan.state.bytes, plan.state.key);
  if (plan.codebook_bytes != 0) out += fmt::format("  keeps {} B of levels\n", plan.codebook_bytes);
  for (size_t i = 0; i < plan.steps.size(); ++i) {
    const Step& step = plan.steps[i];
    out += fmt::format("{:3} {} on {}", i, step.name, kLaneNames[static_cast<int>(step.lane)]);
    if (step.lane == Lane::kCommunicate) out += fmt::format(" {}", step.turn);
    for (const size_t before : step.after) out += fmt::format(" after {}", before);
    out += '\n';
    for (const Fingerprint& f : step.fingerprints) print_fingerprint(f, out);
    for (const Compute& c : step.compute) print_compute(c, plan.buffers.size(), out);
    for (const Copy& c : step.copies) print_copy(c, out);
    for (const Learn& l : step.learns) print_learn(l, out);
    if (step.header) print_header(*step.header, out);
    for (const Transfer& t : step.transfers)
      out += fmt::format("    {} {} {} x{} B\n", t.send ? "to" : "from", t.peer,
                         text(t.place, t.message, plan.buffers.size()), t.bytes);
    for (const Native& n : step.natives) print_native(n, out);
  }
  return out;
}

// Places in scratch are those of the areas, and of fingerprints.
std::string print(const Fused& f) {
  std::string out = fmt::format(
      "fused {}: 1 kernel, {} flag{} to each peer, areas of {} B pushed and {} B shared{}, wire {} "
      "B\n",
      f.algorithm, f.flags(), f.flags() == 1 ? "" : "s", f.pushed_bytes, f.shared_bytes,
      f.alternates() ? ", by turns" : "", f.wire_bytes);
  for (const Fingerprint& print : f.fingerprints) print_fingerprint(print, out);
  for (const Fused::Push& push : f.pushes) {
    out += fmt::format("  to {}\n", push.peer);
    print_compute(push.compute, 1, out);
  }
  if (f.pushing()) out += "  flags\n";
  for (const Compute& c : f.makes) print_compute(c, 1, out);
  if (f.sharing()) out += "  to all, flags\n";
  for (const Compute& c : f.takes) print_compute(c, 1, out);
  for (const Copy& c : f.copies) print_copy(c, out);
  return out;
}

}  // namespace terse::plan
