// Scheme while it is read: its text's contents (scheme_text.cc), before a codec is found for all of
// them (scheme_codec.cc).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "policy/scheme.h"

namespace terse {

inline constexpr std::string_view kRoundingNames[] = {"nearest", "stochastic", "shift"};
static_assert(std::size(kRoundingNames) == codec::kRoundings);

inline constexpr std::string_view kScaleNames[] = {"fp32", "bf16", "e8m0"};
inline constexpr std::string_view kFitNames[] = {"absmax", "mse"};
inline constexpr std::string_view kBaseNames[] = {"off", "inplace", "shadow"};
inline constexpr std::string_view kOwnNames[] = {"quantized", "exact"};

// Contents of a scheme's text.
struct SchemeDraft {
  Scheme scheme;
  std::string_view name;  // of the codec, without its bits
  codec::Fit fit = codec::Fit::kAbsmax;
  std::optional<uint64_t> block;
  std::optional<codec::Rounding> rounding;
  std::optional<codec::Number> scale;
  std::optional<std::string_view> intra, second, outer;  // values of intra=, second= and outer=
  std::optional<codec::Rounding> second_rounding;
  std::optional<bool> own_exact;
  std::optional<uint64_t> every;
  std::optional<Learn> learn;

  bool shares_grid() const {
    return std::ranges::any_of(codec::kDescriptors, [this](const codec::Descriptor& d) {
      return d.name == name && codec::shares_grid(d);
    });
  }
};

// NAME: a codec's name, with the bits if it has several widths. Throws Error(ncclInvalidArgument),
// as finish() does.
void parse_codec(std::string_view text, std::string_view name, SchemeDraft& draft);

// Scheme with the codec that fits the draft; throws why there is none.
Scheme finish(std::string_view text, const SchemeDraft& draft);

// "a, b or c"
std::string listed(const std::vector<std::string>& words, std::string_view last = "or");

// Names that are in the set.
template <size_t n>
std::string listed(const std::string_view (&names)[n], codec::Choices set) {
  std::vector<std::string> words;
  for (size_t i = 0; i < n; ++i)
    if (codec::has(set, i)) words.emplace_back(names[i]);
  return listed(words);
}

// Codecs, each with its widths up to most(descriptor), without those for which that is 0.
template <class Most>
std::vector<std::string> widths(const Most& most) {
  std::vector<std::string> words;
  for (const codec::Descriptor& d : codec::kDescriptors) {
    if (d.fit != codec::Fit::kAbsmax || most(d) == 0) continue;
    words.push_back(codec::has_one_width(d)
                        ? std::string(d.name)
                        : fmt::format("{0}{1} to {0}{2}", d.name, d.min_bits, most(d)));
  }
  return words;
}

}  // namespace terse
