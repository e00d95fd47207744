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

// What may be chosen for a sum, or for what only moves, on so many ranks; as on_ranks() has it. The
// order, and so the choice among equals: those of most bits first, as the list has them. Never
// chosen are fp16, whose range is too small for some sums, exp8, learned levels, and integers with
// fit=mse.
std::vector<Scheme> candidates(const Scheme& scheme, int ranks);

// How profiles name what may be chosen: the codec, and the rounding where it is not its usual one.
std::string short_name(const Scheme& scheme);

// The relative error of one encoding of Gaussian data, L2; where all ranks share a grid, of one
// that fits the data of all.
double gaussian_error(const codec::Spec& spec);

}  // namespace terse
