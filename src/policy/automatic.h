// The scheme `auto`: for each call the format and the algorithm that are predicted to be fastest
// among what the user allows, native included.
//
//   auto:bits=B    codes of at least B bits (default 8) and at most the error of integers of B;
//                  from 9 bits on, where there are none, that of bf16 with round=stochastic
//   auto:error=E   what has at most this error, relative, on Gaussian data; with bits=B, too, only
//                  codes of at least B bits
//   round=R        nearest (default) or stochastic
//   seed=N         as for all schemes
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "policy/scheme.h"

namespace terse {

// Throws Error(ncclInvalidArgument).
Scheme parse_auto(std::string_view text);
std::string print_auto(const Scheme& scheme);

// Candidates for a sum, or for a collective that only moves, on so many ranks; as on_ranks(). Most
// bits first, then in the order of the list, which decides among equals. Excludes fp16, whose range
// is too small for some sums, exp8, learned levels, and integers with fit=mse.
std::vector<Scheme> candidates(const Scheme& scheme, int ranks);

// Name of a candidate in profiles: the codec, and its rounding if that is not the default.
std::string short_name(const Scheme& scheme);

// Relative error of one encoding of Gaussian data, L2; of a shared grid, that of the sum of all
// ranks.
double gaussian_error(const codec::Spec& spec);

}  // namespace terse
