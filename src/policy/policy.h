// The policy: which scheme compresses a call, by rules, of which the first that matches wins. A
// pure function of what all ranks know of the call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "plan/select.h"
#include "policy/scheme.h"

namespace terse {

// A call as rules see it.
struct Facts {
  plan::Collective collective;
  size_t bytes = 0;  // of the whole message
};

constexpr uint32_t kNoRule = static_cast<uint32_t>(-1);

struct Decision {
  const Scheme* scheme = nullptr;  // null: the call stays native, and `bypass` says why
  uint32_t rule = kNoRule;         // that has matched
  int bypass = 0;                  // a TERSE_BYPASS reason
};

// Matches every call of at least `min_bytes`.
struct Rule {
  Scheme scheme;
  size_t min_bytes = 0;
};

class Policy {
 public:
  std::vector<Rule> rules;

  Decision decide(const Facts& facts) const;
  bool compresses() const;    // whether there is a rule with a scheme that is not off
  std::string print() const;  // canonical: equal policies have equal texts
};

}  // namespace terse
