// Levels of learned codecs as values: given, reported, saved and read again, in TOML.
//
//   [[levels]]
//   collective = "allgather"   # of these calls; what is left out asks nothing
//   count = 1048576            # elements, as NCCL's call has it
//   dtype = "bfloat16"
//   scheme = "learned4:block=1024"
//   calls = 250                # that had gone by them (1): the next fits follow from it
//   fits = 2                   # of them to what was sent (0)
//   at = [0, 0.31, 0.69, 1]    # 4, 8, ... or 256 numbers from 0 to 1, ascending
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/layout.h"
#include "plan/collective.h"

namespace terse {

struct Levels {
  std::optional<plan::Collective> collective;
  std::optional<uint64_t> count;
  std::optional<codec::Dtype> dtype;
  std::optional<codec::Spec> spec;
  uint64_t calls = 1, fits = 0;
  std::vector<float> at;

  int bits() const;
  // Returns true if the levels serve such calls: stochastic rounding takes levels that begin with 0
  // and end with 1.
  bool fit(plan::Collective collective, uint64_t count, codec::Dtype dtype,
           const codec::Spec& spec) const;
  // Returns true if both are of the same calls. learn= is ignored: levels that one run has learned
  // serve another that learns at other calls, or never. Of schemes that differ in learn= alone the
  // last one's levels stay.
  bool same_calls(const Levels& other) const {
    return collective == other.collective && count == other.count && dtype == other.dtype &&
           spec == other.spec && at.size() == other.at.size();
  }
  bool operator==(const Levels&) const = default;
};

// `path`: named in errors. Throw Error(ncclInvalidArgument) for invalid levels.
std::vector<Levels> parse_levels(std::string_view text, const std::string& path);
// Returns none if there is no such file.
std::vector<Levels> read_levels(const std::string& path);

// Text that parses to the same levels.
std::string print_levels(std::span<const Levels> all);

// print_levels() within `most` bytes, which read_levels() accepts; if it is longer, of the most
// frequent calls only.
constexpr size_t kMaxLevelsBytes = size_t{16} << 20;
std::string print_most_used(std::vector<Levels> all, size_t most = kMaxLevelsBytes);

}  // namespace terse
