// Whether a program that ran under terse received what it received without: the same bytes where
// calls are bypassed, values within the scheme's error where they are compressed.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "player.h"

namespace terse::program {

// What the preload library was set up with.
struct Expectation {
  std::set<std::string> collectives;  // compressed ones, by name
  size_t min_bytes = 0;
  double error = 0;        // of one compressed call, relative, in the L2 norm
  bool own_exact = false;  // what a rank gathers of itself is as it was
};

struct Verdict {
  std::string wrong;  // empty: nothing
  size_t compressed = 0, exact = 0;
};

// The results of rank `rank` of `ranks`.
Verdict compare(const Program& program, const Results& native, const Results& found, int rank,
                int ranks, const Expectation& expectation);

// What two ranks of a communicator hold alike and have not; empty: nothing. `results`: by rank.
std::string differ(const Program& program, const std::vector<Results>& results,
                   const Expectation& expectation);

}  // namespace terse::program
