#include "engine/call/trace.h"

#include "base/log.h"
#include "plan/algorithms.h"
#include "policy/names.h"
#include "policy/reasons.h"

namespace terse {
const char* algorithm(const Communicator& c, const Request& r, const Scheme& scheme) {
  const plan::Shape shape =
      c.routing().plans().shape(scheme.forms(), r.count, datatype_size(r.datatype), r.root);
  codec::Dtype dtype{};
  compressible(r.datatype, &dtype);
  const plan::Algo taken = algorithm_by(
      c.profile(), scheme, as_chosen_for({r.collective, r.count, dtype, c.ranks, r.root}),
      c.routing().machines());
  return plan::select(r.collective, shape, taken).algorithm->build(shape).algorithm;
}

namespace {

std::string outcome(const Communicator& c, const Request& r, const Route& way) {
  const std::string rule =
      way.rule == kNoRule ? "" : describe_rule(c.settings.policy.rules.at(way.rule)) + ": ";
  if (const auto reason = way.bypass())
    return fmt::format("{}native, {}", rule, bypass_reason(*reason));
  if (r.count == 0) return rule + "no elements, nothing to do";
  const Scheme& scheme = way.compressed().scheme;
  return fmt::format("{}{}, {}", rule, print_scheme(scheme), algorithm(c, r, scheme));
}

}  // namespace

void trace(const Communicator& c, const Request& r, const Route& way) {
  if (log_level() < LogLevel::kTrace) return;
  c.log(LogLevel::kTrace, "{}, {} B of {}: {}", plan::name(r.collective), message_bytes(r, c.ranks),
        print_dtype(r.datatype), outcome(c, r, way));
}

void trace(const Communicator& c, const Request& r, int bypass_reason) {
  trace(c, r, Route{.way = Native{bypass_reason}});
}

}  // namespace terse
