// Predicted times of calls, natively and with their schemes.
#pragma once

#include <vector>

#include "engine/comm/chooser.h"

namespace terse {

// Seconds of a call, 0: the profile says nothing of it; and its algorithm.
struct Saving {
  double native = 0, compressed = 0;
  plan::Algo algorithm = {};  // algorithm_by()

  // Returns true if the call gains too little for a preset to compress it.
  bool is_too_little() const { return native != 0 && compressed * kMinGain > native; }
  // Returns true if the call is slower than native by more than predictions err: then it stays
  // native, though the user names its scheme.
  bool is_loss() const { return compressed * kMaxLoss > native; }
};

class Savings {
 public:
  // `profile`: null if there is none.
  Saving of(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
            const Machines& machines);

  // Return true if the call gains too little for a preset to compress it, or loses too much for a
  // scheme that is named. What has as many bits as the elements is for its sums, and not for time.
  bool are_too_little(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                      const Machines& machines) {
    return saves_bytes(scheme, call) && of(profile, scheme, call, machines).is_too_little();
  }
  bool are_a_loss(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                  const Machines& machines) {
    return saves_bytes(scheme, call) && of(profile, scheme, call, machines).is_loss();
  }

  // Predicts anew from now on.
  void forget() { known_.clear(); }

 private:
  static bool saves_bytes(const Scheme& scheme, const Prospect& call) {
    return scheme.spec.bits < 8 * codec::dtype_size(call.dtype);
  }

  struct Known {
    Scheme scheme;
    Prospect call;
    Saving saving;
  };
  std::vector<Known> known_;
};

}  // namespace terse
