// How long a call takes, as a profile has it.
//
// The time of a plan is that of its steps' latencies and launches, and of its bytes over links and
// through codecs, of which the shorter goes along with the other but for the first chunk:
//
//   steps * (latency + launch) + messages * message + longer + shorter * (1 - overlap (k-1)/k)
//
// for k chunks, with  sending = max(bytes within a node / rate, bytes out of the node / rate)
// and  coding = elements packed / encode + elements unpacked / decode.  For trees that is the model
// of Global-QSGD (arXiv 2305.18627, section 5), with rings or direct messages in their place.
#pragma once

#include "model/profile.h"
#include "plan/algorithms.h"

namespace terse::model {

// Why a profile says nothing of ranks on a topology; null: it does.
const char* lacks(const Profile& profile, const plan::Topology& topology);

// Predicts NCCL's own algorithms: as many steps as a tree has, or else the others, and a ring's
// bytes.
double native_seconds(const Profile& profile, plan::Collective collective,
                      const plan::Shape& shape);

// Time of a call with an algorithm, and what then leaves a node.
struct Estimate {
  const plan::Algorithm* algorithm = nullptr;
  double seconds = 0;
  plan::Link link;
};

// Estimates an algorithm that applies to the shape, which is the root's if only a root sends.
// `codec`: the scheme's name in the profile.
Estimate estimate(const Profile& profile, const plan::Algorithm& algorithm,
                  const plan::Shape& shape, std::string_view codec);

// Returns the estimate of the least time among the algorithms that apply.
Estimate fastest(const Profile& profile, plan::Collective collective, const plan::Shape& shape,
                 std::string_view codec);

}  // namespace terse::model
