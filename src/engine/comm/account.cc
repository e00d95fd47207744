#include "engine/comm/account.h"

#include <algorithm>
#include <iterator>
#include <vector>

#include "policy/automatic.h"
#include "policy/names.h"
#include "policy/reasons.h"

namespace terse {
namespace {

// Example: "bfloat16, average, 25.2 MB, in place".
std::string print_message(const MessageKind& m, plan::Collective collective) {
  std::string text = print_dtype(m.datatype);
  if (plan::traits(collective).reduces)
    text += m.op == ncclAvg ? ", average" : m.op == ncclSum ? ", sum" : ", a premultiplied sum";
  text += ", " + report::show_bytes(static_cast<double>(m.bytes));
  return m.in_place ? text + ", in place" : text;
}

report::Row row_of(const Tally& t, const Policy& policy) {
  report::Row row;
  if (t.kind.rule != kNoRule) row.rule = policy.rules.at(t.kind.rule).number;
  row.collective = plan::name(t.kind.collective);
  row.scheme = print_scheme(t.kind.scheme);
  if (t.kind.message) row.message = print_message(*t.kind.message, t.kind.collective);
  row.calls = t.calls;
  row.fused_calls = t.fused;
  row.raw = t.sent.raw;
  row.wire = t.sent.wire;
  row.times = {.calls = t.timed,
               .total = t.times.total,
               .encode = t.times.encode,
               .communicate = t.times.communicate,
               .decode = t.times.decode,
               .fused = t.times.fused,
               .predicted = t.foreseen == t.timed ? t.predicted : 0,
               .predicted_native = t.foreseen == t.timed ? t.predicted_native : 0};
  row.race = {t.both.calls, t.both.native, t.both.compressed};
  row.error = {.relative = t.relative,
               .squares = t.difference.squares,
               .exact_squares = t.difference.exact_squares,
               .largest = t.difference.largest,
               .lost = t.difference.lost,
               .spread = t.difference.spread,
               .course = t.errors};
  if (row.error.calls() != 0) row.error_scale = error_scale_of(t.kind.scheme);
  return row;
}

report::Levels row_of(const Levels& l) {
  return {.collective = print_collectives(set_of(*l.collective)),
          .dtype = print_dtype(*l.dtype),
          .scheme = print_scheme({.spec = *l.spec}),
          .count = *l.count,
          .calls = l.calls,
          .fits = l.fits,
          .at = l.at};
}

// Indexed by lane number.
constexpr const char* kLaneNames[] = {"encode", "decode", "communicate 0", "communicate 1"};
static_assert(std::size(kLaneNames) == plan::kLanes);

report::TracedCall row_of(const TracedCall& t) {
  report::TracedCall row{.collective = plan::name(t.call.kind.collective),
                         .dtype = print_dtype(t.call.dtype),
                         .scheme = t.call.bypass
                                       ? fmt::format("native, {}", bypass_reason(*t.call.bypass))
                                       : print_scheme(t.call.kind.scheme),
                         .count = t.call.elements,
                         .raw_bytes = t.call.sent.raw.bytes,
                         .wire_bytes = t.call.sent.wire.bytes,
                         .begin = t.begin,
                         .end = t.end,
                         .left_out = t.left_out};
  for (const TracedCall::Step& step : t.steps)
    row.steps.push_back({step.name, kLaneNames[step.queue], step.begin, step.end});
  return row;
}

std::map<std::string, uint64_t> deltas_of(const Shadows& shadows) {
  const std::pair<const char*, size_t> all[] = {
      {"of differences", shadows.differences()},
      {"of nothing, for no shard had changed", shadows.unchanged()},
      {"in full, the first of a buffer", shadows.in_full(InFull::kFirst)},
      {"in full, for the ranks did not hold the same", shadows.in_full(InFull::kOthers)},
      {"in full, for every= asks for it", shadows.in_full(InFull::kEvery)},
      {"in full, for a rank has no memory to keep it", shadows.in_full(InFull::kMemory)},
      {"in full, for elements are or were not finite, or too large for differences",
       shadows.in_full(InFull::kNonfinite)}};
  std::map<std::string, uint64_t> calls;
  for (const auto& [how, number] : all)
    if (number != 0) calls.emplace(how, number);
  return calls;
}

}  // namespace

report::ErrorScale error_scale_of(const Scheme& scheme) {
  std::vector<codec::Spec> formats = {scheme.spec};
  if (scheme.intra.spec) formats.push_back(*scheme.intra.spec);
  if (scheme.second) formats.push_back(*scheme.second);
  if (scheme.outer) formats.push_back(*scheme.outer);
  report::ErrorScale scale{.unbiased = true};
  for (const codec::Spec& format : formats) {
    scale.gaussian = std::max(scale.gaussian, gaussian_error(format));
    scale.unbiased &= format.rounding != codec::Rounding::kNearest;
  }
  return scale;
}

report::Communicator account_of(Communicator& c, bool whole) {
  report::Communicator r{.id = c.agreed().identity(),
                         .names = {c.name(), c.made_from(), c.agreed().number()},
                         .rank = c.rank,
                         .ranks = c.ranks,
                         .released = whole};
  const plan::Topology topology = c.routing().plans().topology_now();
  r.nodes = topology.nodes();
  r.pods = topology.pods();
  if (r.nodes != 0) r.node = topology.node[c.rank];
  const terseStats_t stats = c.metrics().counters().stats();
  r.native = {stats.native_bytes, stats.native_off_node_bytes, stats.native_off_pod_bytes};
  for (int reason = 0; reason < TERSE_BYPASS_REASONS; ++reason)
    if (stats.bypasses[reason] != 0) r.bypasses[bypass_reason(reason)] = stats.bypasses[reason];
  r.deltas = deltas_of(c.memory().shadows());
  r.scratch_bytes = stats.scratch_bytes;
  r.window_bytes = stats.window_bytes;
  r.state_bytes = c.memory().state_bytes();
  r.verify_bytes = c.memory().exact().bytes();
  const auto [compressed, skipped, native] = c.metrics().counters().sizes();
  r.sizes = {compressed, skipped, native};
  for (const TracedCall& call : c.metrics().meter().traced()) r.trace.push_back(row_of(call));
  for (const Levels& levels : c.memory().codebooks().levels()) r.levels.push_back(row_of(levels));
  for (const Tally& tally : c.metrics().meter().tallies())
    r.rows.push_back(row_of(tally, c.settings.policy));
  return r;
}

}  // namespace terse
