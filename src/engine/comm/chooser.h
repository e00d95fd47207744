// Choice of `auto` for a call, by a profile and by what all ranks know of the call: it is the same
// on all ranks.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "engine/comm/shape.h"
#include "model/predict.h"
#include "policy/automatic.h"

namespace terse {

// Call to be predicted.
struct Prospect {
  plan::Collective collective;
  size_t count = 0;  // NCCL's own argument
  codec::Dtype dtype = codec::Dtype::kFloat32;
  int ranks = 1, root = 0;

  auto operator<=>(const Prospect&) const = default;
};

// Call whose choice this one takes: of the same kind, with a size that differs by at most 1/32.
// Otherwise a program whose calls all differ in size would wait at each for predictions, which take
// as long as a call of many ranks.
Prospect as_chosen_for(const Prospect& call);

// Returns true if the scheme serves() the collective and may gain by it: its codes have fewer bits
// than the elements.
bool is_for(const Scheme& scheme, plan::Collective collective, codec::Dtype dtype);

// Returns true if the scheme names the algorithm of a call.
bool names_its_algorithm(const Scheme& scheme, const Prospect& call, const Machines& machines);

// Returns the root that predictions go by: any will do if all nodes are alike; a message's peers
// may be near or far.
int default_root(const Prospect& call, const Machines& machines);

// Returns the algorithm that a call takes by a profile: the scheme's; or, where it names none, the
// one with two levels, or more, in place of the table's, if that is predicted to be faster by more
// than predictions err, and sends no more than NCCL. Without a profile, or with pods without what
// it says of their links, or where it has measured such calls: the scheme's. Alike on all ranks.
plan::Algo algorithm_by(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                        const Machines& machines);

// Returns true if a call stays native because its algorithm would send more between nodes than NCCL
// does. False if the scheme names the algorithm: its user has decided. `scheme` is_for() the call,
// as on_ranks() has it.
bool nccl_sends_less(const Scheme& scheme, const Prospect& call, const Machines& machines);

// Predicted time of a call. `seconds` is empty if the profile says nothing of it.
struct Prediction {
  Scheme scheme;  // with the algorithm; off: native
  std::optional<double> seconds;
  bool measured = false;  // otherwise by the model
  bool is_fused = false;  // by what the profile has of such calls
  // Part that the profile lacks to predict a native call; null: nothing.
  const char* lacking = nullptr;
  plan::Algo algorithm = {};  // algorithm_by(), if predicted as called
};

// Min gain of a choice; a call with less stays native.
constexpr double kMinGain = 1.1;

// Max ratio to the fastest at which a choice is as fast: predictions are no better.
constexpr double kAsFast = 1.01;

// Max part of another's speed at which a call is as fast: predictions err by more.
constexpr double kMaxLoss = 0.97;

// Predicts by the model alone. Empty: the scheme serves no such call, or names no algorithm and
// would send more between nodes than NCCL does.
Prediction predict_native(const model::Profile& profile, const Prospect& call,
                          const Machines& machines);
std::optional<Prediction> predict(const model::Profile& profile, const Scheme& scheme,
                                  const Prospect& call, const Machines& machines);

// Predicts a call with this scheme, by algorithm_by(). Empty: the call stays native. `scheme` is as
// nccl_sends_less() has it.
std::optional<Prediction> predict_as_called(const model::Profile& profile, const Scheme& scheme,
                                            const Prospect& call, const Machines& machines);

// Simulated seconds of such a call, in steps (model/simulate.h). Throws Error(ncclInvalidUsage) if
// it fails.
double simulate_as_called(const model::Profile& profile, const Scheme& scheme, const Prospect& call,
                          const Machines& machines);

// Simulated seconds of a native call; empty: by model/simulate_native.h.
std::optional<double> simulate_native(const model::Profile& profile, const Prospect& call,
                                      const Machines& machines);

// Bytes of the whole message from which on fused calls in int8 are predicted to gain enough, at all
// powers of two from there to default_min_bytes(); as Facts has it. ~0: none is fused, or the
// profile says nothing of such calls. The least of them for a profile whose fused calls are an
// estimate is kUsualShard a shard.
size_t fused_from(const model::Profile& profile, plan::Collective collective, codec::Dtype dtype,
                  int ranks, const Machines& machines);

// Returns true if ranks of one node fuse the call, by the table's algorithm or the one that the
// scheme names.
bool is_fused(const Scheme& scheme, const Prospect& call, const Machines& machines);

// Native, and every candidate of the collective and type, each with its best algorithm, except
// those that would send more between nodes than NCCL does. If the profile has measured the native
// call: measured candidates, and no others. Throws Error(ncclInvalidUsage) if the profile says
// nothing of so many ranks.
std::vector<Prediction> predictions(const model::Profile& profile, const Scheme& scheme,
                                    const Prospect& call, const Machines& machines);

// Explains in words why a call stays native that lacks something.
std::string why_native_alone(const model::Profile& profile, plan::Collective collective,
                             const Prediction& native);

// Returns native, or the fastest of those that gain enough.
const Prediction& choose(const std::vector<Prediction>& predictions);

// Choices of one communicator, made once for each kind of call.
class Chooser {
 public:
  // Returns the choice, without the scheme's seed. Throws Error if there is no profile (null), or
  // none of so many ranks. Warns once for each collective of what the profile lacks.
  const Prediction& of(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                       const Machines& machines);
  // Chooses anew from now on.
  void forget() { made_.clear(); }

 private:
  struct Key {
    Auto automatic;
    Prospect call;

    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, Prediction> made_;
  std::set<plan::Collective> told_;
};

}  // namespace terse
