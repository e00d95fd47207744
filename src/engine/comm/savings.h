// Predicted times of calls, natively and with their schemes.
#pragma once

#include <vector>

#include "engine/comm/chooser.h"

namespace terse {

// Seconds of a call; 0: the profile says nothing of it.
struct Saving {
  double native = 0, compressed = 0;

  // Returns true if the call gains too little to be compressed.
  bool is_too_little() const { return native != 0 && compressed * kMinGain > native; }
};

class Savings {
 public:
  // `profile`: null if there is none.
  Saving of(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
            const Machines& machines);

  // Returns true if the call gains too little for a preset to compress it. What has as many bits as
  // the elements is for its sums, and not for time.
  bool are_too_little(const model::Profile* profile, const Scheme& scheme, const Prospect& call,
                      const Machines& machines) {
    const bool saves_bytes = scheme.spec.bits < 8 * codec::dtype_size(call.dtype);
    return saves_bytes && of(profile, scheme, call, machines).is_too_little();
  }

 private:
  struct Known {
    Scheme scheme;
    Prospect call;
    Saving saving;
  };
  std::vector<Known> known_;
};

}  // namespace terse
