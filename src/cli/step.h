// A training step, for `terse forecast --step`, as a file in TOML:
//
//   name = "..."              source = "..."
//   profile = "a100-8x-100gbit"          or a file; or --profile
//   ranks = 64                           of the communicator that the calls are on
//   node_ranks = 4                       of them on a node (default: the profile's)
//   pods = 1                             that the nodes are in
//   sharing = 1                          such communicators that call at once, on the same nodes
//   compute = 0.158                      seconds
//
//   [[call]]
//   collective = "reducescatter"
//   bytes = 5263278080                   of the whole message
//   dtype = "float32"
//   scheme = "int4"
//   times = 1                            in a step
//   beside = 0.0                         seconds of computing that go along with it
#pragma once

#include <string>
#include <vector>

#include "codec/codec.h"
#include "plan/collective.h"
#include "policy/scheme.h"

namespace terse::cli {

struct StepCall {
  plan::Collective collective{};
  double bytes = 0;
  codec::Dtype dtype{};
  Scheme scheme;
  double times = 1, beside = 0;
};

struct TrainingStep {
  std::string name, source, profile;
  int ranks = 0, node_ranks = 0, pods = 1, sharing = 1;
  double compute = 0;
  std::vector<StepCall> calls;
};

// Throws Error(ncclInvalidArgument) that says where the text is wrong.
TrainingStep read_step(const std::string& path);

}  // namespace terse::cli
