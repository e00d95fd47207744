// What `auto` takes for a call, by the settings' profile and what all ranks know of the call: so it
// is the same on all of them.
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

// A call that is to be predicted.
struct Prospect {
  plan::Collective collective;
  size_t count = 0;  // NCCL's own argument
  codec::Dtype dtype = codec::Dtype::kFloat32;
  int ranks = 1, root = 0;

  auto operator<=>(const Prospect&) const = default;
};

// The call that is chosen for in this one's place: of the same kind, and of a size that differs by
// a thirty-second part at most. A program whose calls are all of different sizes would else wait
// for predictions at each, which take as long as a call of many ranks.
Prospect as_chosen_for(const Prospect& call);

// Whether the scheme serves() the collective, and whether the scheme's codes are fewer bits than
// the elements.
bool is_for(const Scheme& scheme, plan::Collective collective, codec::Dtype dtype);

// Whether a call stays native because the algorithm that the table takes for it would send more
// between nodes than NCCL does. Not where the scheme names what is taken: then its user has
// decided. For a scheme that is_for() the call, as on_ranks() has it.
bool nccl_sends_less(const Scheme& scheme, const Prospect& call, const Machines& machines);

// Seconds; empty: the profile says nothing of it.
struct Prediction {
  Scheme scheme;  // with the algorithm; off: native
  std::optional<double> seconds;
  bool measured = false;  // otherwise by the model
  // Of a native call: what the profile lacks to predict another one; null: nothing.
  const char* lacking = nullptr;
};

// What is taken has to gain so much, or the call stays native.
constexpr double kMinGain = 1.1;

// What takes no more than so many times the least is as fast: predictions are no better than that.
constexpr double kAsFast = 1.01;

// By the model alone. Empty: the scheme does not do such calls; or it names no algorithm, and would
// send more between nodes than NCCL does.
Prediction predict_native(const model::Profile& profile, const Prospect& call,
                          const Machines& machines);
std::optional<Prediction> predict(const model::Profile& profile, const Scheme& scheme,
                                  const Prospect& call, const Machines& machines);

// What a call with this scheme takes: by the algorithm that the table has for it, unless the scheme
// names one. Empty: it stays native. For a scheme as nccl_sends_less() has it.
std::optional<double> seconds_as_called(const model::Profile& profile, const Scheme& scheme,
                                        const Prospect& call, const Machines& machines);

// Native and then every candidate that the collective and the type have, each with its best
// algorithm; but none that would send more between nodes than NCCL does, for it would not run.
// Where the profile has measured the native call, those that were measured, too, and no others.
// Throws Error(ncclInvalidUsage) where it says nothing of such ranks.
std::vector<Prediction> predictions(const model::Profile& profile, const Scheme& scheme,
                                    const Prospect& call, const Machines& machines);

// In words, of one that lacks something.
std::string why_native_alone(const model::Profile& profile, plan::Collective collective,
                             const Prediction& native);

// Native, or the fastest of those that gain enough.
const Prediction& choose(const std::vector<Prediction>& predictions);

// A communicator's choices, made once for each kind of call.
class Chooser {
 public:
  // Without the scheme's seed. Throws Error where the settings have no profile, or not for such
  // ranks. Warns of what the profile lacks, once for a collective.
  const Prediction& of(const Settings& settings, const Scheme& scheme, const Prospect& call,
                       const Machines& machines);

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
