// Predicted times of observed calls, natively and with their schemes, by the settings' profile.
#pragma once

#include <vector>

#include "engine/comm/chooser.h"

namespace terse {

// Seconds of a call; 0: the profile says nothing of it.
struct Saving {
  double native = 0, compressed = 0;
};

class Savings {
 public:
  Saving of(const Settings& settings, const Scheme& scheme, const Prospect& call,
            const Machines& machines);

 private:
  struct Known {
    Scheme scheme;
    Prospect call;
    Saving saving;
  };
  std::vector<Known> known_;
};

}  // namespace terse
