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

// How elements go from rank to rank within a node, where they also go between nodes.
struct Intra {
  bool off = false;                 // as they are
  std::optional<codec::Spec> spec;  // empty, and not off: as between nodes

  auto operator<=>(const Intra&) const = default;
};

// What `auto` may choose among (policy/automatic.h).
struct Auto {
  uint8_t bits = 8;  // at least so many a code
  double error = 0;  // relative, on Gaussian data, at most; 0: as automatic.h says of bits
  codec::Rounding rounding = codec::Rounding::kNearest;
  bool own_exact = false;

  auto operator<=>(const Auto&) const = default;
};

// AllGather of differences to what all ranks hold (plan/delta.h), or of what there is.
struct Differences {
  plan::Base base = plan::Base::kNone;
  bool own_exact = false;
  uint32_t every = 0;  // calls after which one is in full; 0: none

  explicit operator bool() const { return base != plan::Base::kNone; }
  auto operator<=>(const Differences&) const = default;
};

struct Scheme {
  bool off = false;
  std::optional<Auto> automatic;  // the rest, but for the seed, is chosen for each call
  codec::Spec spec;
  Intra intra;
  Differences delta;
  Learn learn;
  plan::Algo algorithm;
  std::optional<uint64_t> seed;  // empty: the setting TERSE_SEED

  bool operator==(const Scheme&) const = default;
};

// Throws Error(ncclInvalidArgument) that names the offending part.
Scheme parse_scheme(std::string_view text);

// The canonical text: parse_scheme(print_scheme(s)) == s.
std::string print_scheme(const Scheme& scheme);

// Programs count their steps by seeds: what is kept by scheme leaves them out.
Scheme without_seed(Scheme scheme);

// What becomes of the codes of all ranks.
plan::Sharing sharing_of(const codec::Spec& spec);

// Whether the collective is one of those that the scheme is for. Ranks that have no part in a
// message cannot hold its levels.
bool serves(const Scheme& scheme, plan::Collective collective);

// The scheme as so many ranks have it: where their codes are summed, with levels of which the sum
// of all fits in a code; in the next wider code where else they would be too few. Empty where there
// is none.
std::optional<Scheme> on_ranks(Scheme scheme, int ranks);
// The same; throws Error(ncclInvalidArgument) where there is none.
Scheme require_on_ranks(const Scheme& scheme, int ranks);

// What may stand before a scheme's colon: int2, int3, ..., mxfp4; without off.
std::vector<std::string> codec_names();

// A decimal number in the whole of `text`; empty when it is none or does not fit.
std::optional<uint64_t> parse_number(std::string_view text);

}  // namespace terse
