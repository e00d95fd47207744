// How long a call takes, as a profile has it.
//
// The time of a plan is that of its steps' latencies and launches, and of its bytes over links and
// through codecs, of which the shorter goes along with the other but for the first chunk:
//
//   steps * (latency + launch) + messages * message + longer + shorter * (1 - overlap (k-1)/k)
//
// for k chunks, with  sending = max(bytes within a node / rate, bytes out of the node / rate), and
// what the steps' messages take one after the other beyond that, of one chunk,
// and  coding = elements packed / encode + elements unpacked / decode.  For trees that is the model
// of Global-QSGD (arXiv 2305.18627, section 5), with rings or direct messages in their place.
//
// A fused call (plan/fuse.h) has flags in place of steps, and sends by writing: by what the profile
// has of such calls it takes
//
//   launch + flags * flag + longer + (1 - overlap) * shorter
#pragma once

#include <functional>

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
  bool is_fused = false;
};

// Estimates an algorithm that applies to the shape, which is the root's if only a root sends.
// `codec`: the scheme's name in the profile. `flags`: that a rank raises at each peer, if the call
// is fused; counts where the profile has fused calls.
Estimate estimate(const Profile& profile, const plan::Algorithm& algorithm,
                  const plan::Shape& shape, std::string_view codec, size_t flags = 0);

// Returns the estimate of the least time among the algorithms that apply.
// flags_of: the flags of the call by an algorithm, 0: it is not fused; empty: none is.
Estimate fastest(const Profile& profile, plan::Collective collective, const plan::Shape& shape,
                 std::string_view codec,
                 const std::function<size_t(const plan::Algorithm&)>& flags_of = {});

}  // namespace terse::model
