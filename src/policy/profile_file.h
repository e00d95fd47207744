// Profiles (model/profile.h) as files in TOML, and those that come along:
//
//   name = "4 hosts"                    source = "terse tune, 2026-03-01"
//   gpu = false                         node_ranks = 1
//   devices = ["H100"]                  max_nodes = 18               nearest_profile.h
//   launch = 5e-6                       message = 2e-6               seconds
//   overlap = 0.5                       nics = 8                     links of a node, simulated
//
//   [within]                            [between]                    ranks of a node; nodes
//   latency = 3e-6                      latency = 14e-6              seconds
//   bandwidth = 230e9                   bandwidth = 12.5e9           bytes a second
//
//   [coding]                            [codec.int4]                 all codecs; one of them
//   encode = 2e9                        encode = 3e9                 elements a second
//   decode = 3e9                        decode = 3e9
//
//   [fused]                                                          calls that ranks of one node
//   launch = 5e-6                       flag = 2e-6                  fuse; estimate = true: not
//   bandwidth = 50e9                    overlap = 0.7                measured
//
//   [[measured]]                                                     what calls took
//   collective = "allreduce"
//   dtype = "float32"
//   ranks = 4
//   nodes = 4
//   scheme = "native"
//   fused = false
//   points = [[65536, 0.0011], [1048576, 0.013]]                     bytes, seconds
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/profile.h"

namespace terse {

// Bounds of a profile's numbers: bytes or elements a second, and a link's seconds.
constexpr double kMinRate = 1, kMaxRate = 1e15, kMaxLatency = 10;

// Throw Error(ncclInvalidArgument) that says where the text is wrong: "FILE:3:7: ...".
model::Profile parse_profile(std::string_view text, const std::string& path);
// `name`: a built-in profile, or a file.
model::Profile read_profile(const std::string& name);

// Text that parses back.
std::string print_profile(const model::Profile& profile);

// Name of no profile at all.
constexpr char kNoProfile[] = "none";

struct KnownProfile {
  std::string_view name, text;
};
std::span<const KnownProfile> known_profiles();
bool is_known_profile(std::string_view name);

}  // namespace terse
