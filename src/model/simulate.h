// Simulation of a call: the steps of all ranks' plans, event by event, on a network of links.
//
//   rank 0   launch, encode -- launch, exchange ~~~~~~ done -- launch, decode
//   rank 1   launch, encode ---- launch, exchange ~~~~~ done -- launch, decode
//
// A step starts when those that it waits for are done. After its launches the rank's one processor
// codes, a step at a time, and messages leave. A message starts when both ends are there, goes in
// parts, by turns with others on the same links, and is there a latency after its last part.
// Coding and messages do not slow each other: a profile's `overlap` does not count. NCCL's own
// collectives in steps follow each other, and leave the links to messages.
#pragma once

#include <span>
#include <string>

#include "model/network.h"
#include "model/work.h"
#include "plan/algorithms.h"

namespace terse::model {

struct Simulation {
  double seconds = 0;       // until the slowest rank is done
  plan::Traffic sent = {};  // by all ranks, in messages
  // Messages that do not match, or are too many, or who waits for ever; empty: none.
  std::string failure = {};
};

// Simulates the steps of all ranks of a topology, who begin at once. Throws std::invalid_argument
// if the profile lacks() links of it.
Simulation simulate(const Profile& profile, const plan::Topology& topology,
                    std::span<const RankWork> ranks);

// Simulates an algorithm's plans of all ranks.
Simulation simulate(const Profile& profile, const plan::Algorithm& algorithm, plan::Shape shape,
                    std::string_view codec);

}  // namespace terse::model
