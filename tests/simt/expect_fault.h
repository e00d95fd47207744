// For tests of what is noticed: the Fault that a body makes.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "simt/arch.h"
#include "simt/executor.h"

namespace terse::simt {

inline constexpr uint64_t kSeeds = 50;

struct Nothing {};

template <class Shared = Nothing, class Body>
std::optional<Fault> fault_of(const Launch& launch, const Body& body) {
  try {
    run<Shared>(launch, body);
  } catch (const Fault& fault) {
    return fault;
  }
  return std::nullopt;
}

// Returns true if the message has one of `words`, which are alternatives between '|'.
inline bool says(const Fault& fault, const std::string& words) {
  const std::string what = fault.what();
  for (size_t begin = 0, end = 0; end != std::string::npos; begin = end + 1) {
    end = words.find('|', begin);
    if (what.find(words.substr(begin, end - begin)) != std::string::npos) return true;
  }
  return false;
}

// Each seed makes `body` fail, and says one of `words`.
template <class Shared = Nothing, class Body>
void expect_fault(Launch launch, const std::string& words, const Body& body) {
  for (launch.seed = 0; launch.seed < kSeeds; ++launch.seed) {
    const std::optional<Fault> fault = fault_of<Shared>(launch, body);
    ASSERT_TRUE(fault.has_value()) << "seed " << launch.seed;
    EXPECT_TRUE(says(*fault, words)) << "seed " << launch.seed << ": " << fault->what();
  }
}

}  // namespace terse::simt
