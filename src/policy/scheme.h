// A scheme as a value, and its grammar (terse.h, terseSchemeParse).
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "codec/layout.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "policy/learn_schedule.h"

namespace terse {

// Format within a node, for algorithms in two levels.
struct Intra {
  bool off = false;                 // raw within a node
  std::optional<codec::Spec> spec;  // empty, and not off: the scheme's own

  auto operator<=>(const Intra&) const = default;
};

// Formats of a scheme.
struct Forms {
  codec::Spec spec;
  Intra intra = {};
  std::optional<codec::Spec> second = {};  // of sums on their way to all ranks; empty: `spec`
  std::optional<codec::Spec> outer = {};   // of sums between groups of nodes; empty: finer_of(spec)

  auto operator<=>(const Forms&) const = default;
};

// Format of the same family with 8 bits; or the format itself, if it has as many.
codec::Spec finer_of(const codec::Spec& spec);

// Format of sums between groups of nodes.
inline codec::Spec outer_of(const Forms& forms) {
  return forms.outer ? *forms.outer : finer_of(forms.spec);
}

// Limits of `auto` (policy/automatic.h).
struct Auto {
  uint8_t bits = 8;  // min of a code
  double error = 0;  // max relative error on Gaussian data; 0: by the bits, as in automatic.h
  codec::Rounding rounding = codec::Rounding::kNearest;
  bool own_exact = false;

  auto operator<=>(const Auto&) const = default;
};

// AllGather of differences to what all ranks hold (plan/delta.h).
struct Differences {
  plan::Base base = plan::Base::kNone;
  bool own_exact = false;
  uint32_t every = 0;  // calls after which one is in full; 0: none

  explicit operator bool() const { return base != plan::Base::kNone; }
  auto operator<=>(const Differences&) const = default;
};

struct Scheme {
  bool off = false;
  std::optional<Auto> automatic;  // all but the seed is chosen for each call
  codec::Spec spec;
  Intra intra;
  std::optional<codec::Spec> second;  // of sums on their way to all ranks; empty: `spec`
  std::optional<codec::Spec> outer;   // of sums between groups of nodes; empty: finer_of(spec)
  Differences delta;
  Learn learn;
  plan::Algo algorithm;
  std::optional<uint64_t> seed;  // empty: by TERSE_SEED

  Forms forms() const { return {spec, intra, second, outer}; }

  bool operator==(const Scheme&) const = default;
};

// Throws Error(ncclInvalidArgument) that names the offending part.
Scheme parse_scheme(std::string_view text);

// Canonical text: parse_scheme(print_scheme(s)) == s.
std::string print_scheme(const Scheme& scheme);

// Scheme as a key: programs count their steps by seeds.
Scheme without_seed(Scheme scheme);

// Sharing of the codes of all ranks.
plan::Sharing sharing_of(const codec::Spec& spec);

// Returns true if the scheme is for the collective. Ranks without a part in a message cannot hold
// its levels.
bool serves(const Scheme& scheme, plan::Collective collective);

// Returns true if calls of the type are compressed with the scheme: its codes have fewer bits than
// the elements, or they are the elements, and the collective reduces. Such a sum is exchanged as it
// is, made in fp32, and rounded once, not at each of the ranks.
bool is_for_type(const Scheme& scheme, plan::Collective collective, codec::Dtype dtype);

// Scheme on so many ranks: summed codes have levels whose sum over all ranks fits in a code, in the
// next wider code if they would be too few. Empty: there is none.
std::optional<Scheme> on_ranks(Scheme scheme, int ranks);
// on_ranks(); throws Error(ncclInvalidArgument) if there is none.
Scheme require_on_ranks(const Scheme& scheme, int ranks);

// Names before a scheme's colon: int2, int3, ..., mxfp4; without off.
std::vector<std::string> codec_names();

// Decimal number in the whole of `text`; empty: it is none, or does not fit.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace terse
