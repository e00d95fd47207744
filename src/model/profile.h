// Capabilities of a machine, or of a job's ranks, by which the time of a call is predicted.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/codec.h"
#include "plan/collective.h"

namespace terse::model {

// Links of one class. Times in seconds, rates in bytes a second.
struct Link {
  double latency = 0;  // of a step: from a message's start until its first byte is there
  // Each way: within a node a rank's; between nodes, and between pods, that of all ranks of a node,
  // at its turn with the others of its pod.
  double bandwidth = 0;

  bool operator==(const Link&) const = default;
};

// Elements a second, of one rank at its turn with the others.
struct Rates {
  double encode = 0, decode = 0;

  bool operator==(const Rates&) const = default;
};

// Calls that ranks of one node fuse: each is one step, in memory that all of them write. Times in
// seconds.
struct FusedCalls {
  double launch = 0;     // of a rank to start one
  double flag = 0;       // from a rank's raising a flag until its peers see it
  double bandwidth = 0;  // bytes a second of a rank into its peers' memory
  double overlap = 0;    // how much of the shorter of coding and writing goes along with the other
  bool estimate = false;

  bool operator==(const FusedCalls&) const = default;
};

// Name of a native call, in place of a scheme.
constexpr std::string_view kNative = "native";

// Times of a kind of call, by size.
struct Curve {
  struct Point {
    size_t bytes;  // of the whole message
    double seconds;

    bool operator==(const Point&) const = default;
  };

  plan::Collective collective{};
  codec::Dtype dtype{};
  int ranks = 0, nodes = 0;
  std::string scheme;         // as it is written, or kNative
  std::vector<Point> points;  // by rising size; at least one
  bool fused = false;

  bool operator==(const Curve&) const = default;

  // Between two points on the line through them; below the first as that; beyond the last on as
  // from the one before to it, or in proportion where that does not rise, or is the only one.
  double seconds(size_t bytes) const;
};

struct Profile {
  std::string name, source;
  std::optional<Link> within, between;
  std::optional<Link> pods;  // between pods (plan/topology.h); empty: as between nodes
  bool gpu = false;          // chunks as for GPUs
  // Parts of the names of the GPUs that it describes, by which it is found; and the most nodes that
  // it is for, as of a rack with NVLink between nodes. 0: any.
  std::vector<std::string> devices;
  int max_nodes = 0;
  int node_ranks = 1;  // of a node, where a forecast is not told
  int nics = 1;        // links of a node between nodes, which its ranks take in turn
  double message = 0;  // seconds of a rank for each message to or from a peer
  double launch = 0;   // seconds of a rank to start each of a call's steps
  double overlap = 1;  // how much of the shorter of coding and sending goes along with the other
  std::optional<FusedCalls> fused;
  Rates coding;                                      // of codecs that are not named below
  std::map<std::string, Rates, std::less<>> codecs;  // by scheme name, such as "int4"
  std::vector<Curve> measured;

  bool operator==(const Profile&) const = default;

  // Null where nothing like it was measured. A type of the same width stands in for another, and
  // fused calls for those in steps, or these for those.
  const Curve* curve(plan::Collective collective, codec::Dtype dtype, int ranks, int nodes,
                     std::string_view scheme, bool fused = false) const;
};

}  // namespace terse::model
