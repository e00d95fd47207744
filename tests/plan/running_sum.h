// A plan that keeps something: an AllReduce that gives the sum over all calls so far.
#pragma once

#include <fmt/format.h>

#include "plan/builder.h"

namespace terse::plan {

// The state: the sum so far, and behind it that of this call.
inline Plan running_sum(const Shape& s) {
  const size_t bytes = s.count * s.element_bytes;
  const Place sum{Region::kState, 0}, fresh{Region::kState, bytes};
  Plan plan{.algorithm = "running sum",
            .state = {fmt::format("running sum of {}", s.count), 2 * bytes},
            .buffers = {{bytes, bytes}},
            .raw_bytes = raw_bytes(Collective::kAllReduce, bytes, s.position())};
  Step reduce{.name = "sum", .lane = Lane::kCommunicate};
  reduce.natives = {{.collective = Collective::kAllReduce,
                     .send = {Region::kSend, 0},
                     .recv = fresh,
                     .count = s.count}};
  Step add{.name = "add", .lane = Lane::kDecode, .after = {0}};
  add.compute = {{.inputs = {{sum, Format::kRaw}, {fresh, Format::kRaw}},
                  .target = sum,
                  .target_format = Format::kRaw,
                  .count = s.count}};
  Step give{.name = "give", .lane = Lane::kDecode};
  give.copies = {{{Region::kRecv, 0}, sum, bytes}};
  plan.steps = {reduce, add, give};
  plan.native = native_traffic(plan.steps, s);
  return plan;
}

}  // namespace terse::plan
