#include "policy/scheme.h"

#include <fmt/ranges.h>

#include <charconv>
#include <iterator>

#include "base/error.h"

namespace terse {
namespace {

constexpr std::string_view kRoundingNames[] = {"nearest", "stochastic", "shift"};

struct FamilyName {
  std::string_view name;
  codec::Family family;
};
constexpr FamilyName kFamilyNames[] = {{"int", codec::Family::kSymmetric},
                                       {"minmax", codec::Family::kMinMax}};

template <class... Args>
[[noreturn]] void refuse(std::string_view text, fmt::format_string<Args...> format,
                         Args&&... args) {
  fail(ncclInvalidArgument, "scheme \"{}\": {}", text,
       fmt::format(format, std::forward<Args>(args)...));
}

// The index of `word` in a list of names.
template <size_t n>
std::optional<int> find(const std::string_view (&names)[n], std::string_view word) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == word) return static_cast<int>(i);
  return {};
}

// "a, b or c".
std::string one_of(std::span<const std::string_view> names) {
  return fmt::format("{} or {}", fmt::join(names.first(names.size() - 1), ", "), names.back());
}

// NAME: a family's name followed by the bits.
void parse_codec(std::string_view text, std::string_view name, codec::Spec& spec) {
  for (const FamilyName& f : kFamilyNames) {
    if (!name.starts_with(f.name)) continue;
    const std::string_view digits = name.substr(f.name.size());
    const std::optional<uint64_t> bits = parse_number(digits);
    if (!bits || digits.front() == '0') break;
    if (*bits < codec::kMinBits || *bits > codec::kMaxBits)
      refuse(text, "{} bits are not offered, only {} to {}", *bits, codec::kMinBits,
             codec::kMaxBits);
    spec.family = f.family;
    spec.bits = static_cast<uint8_t>(*bits);
    return;
  }
  refuse(text, "unknown codec \"{}\"; known are off, int2 to int8 and minmax2 to minmax8", name);
}

// One key=value; a table entry for each key.
struct Key {
  std::string_view name;
  void (*set)(std::string_view text, std::string_view value, Scheme& scheme);
};

constexpr Key kKeys[] = {
    {"block",
     [](std::string_view text, std::string_view value, Scheme& scheme) {
       const std::optional<uint64_t> block = parse_number(value);
       if (!block || *block < codec::kMinBlock || *block > codec::kMaxBlock ||
           *block % codec::kBlockQuantum != 0)
         refuse(text, "block is \"{}\", but must be a multiple of {} from {} to {}", value,
                codec::kBlockQuantum, codec::kMinBlock, codec::kMaxBlock);
       scheme.spec.block = static_cast<uint16_t>(*block);
     }},
    {"round",
     [](std::string_view text, std::string_view value, Scheme& scheme) {
       const std::optional<int> rounding = find(kRoundingNames, value);
       if (!rounding)
         refuse(text, "round is \"{}\", but must be nearest, stochastic or shift", value);
       scheme.spec.rounding = static_cast<codec::Rounding>(*rounding);
     }},
    {"seed",
     [](std::string_view text, std::string_view value, Scheme& scheme) {
       scheme.seed = parse_number(value);
       if (!scheme.seed) refuse(text, "seed is \"{}\", but must be a number below 2^64", value);
     }},
    {"algo",
     [](std::string_view text, std::string_view value, Scheme& scheme) {
       const std::optional<plan::Algo> algorithm = plan::find_algo(value);
       if (!algorithm)
         refuse(text, "algo is \"{}\", but must be {}", value, one_of(plan::algo_names()));
       scheme.algorithm = *algorithm;
     }},
};

void parse_option(std::string_view text, std::string_view option, unsigned& seen, Scheme& scheme) {
  const size_t equals = option.find('=');
  if (equals == option.npos) refuse(text, "\"{}\" is not key=value", option);
  const std::string_view name = option.substr(0, equals);
  for (size_t i = 0; i < std::size(kKeys); ++i) {
    if (kKeys[i].name != name) continue;
    if (seen & 1u << i) refuse(text, "{} is given twice", name);
    seen |= 1u << i;
    return kKeys[i].set(text, option.substr(equals + 1), scheme);
  }
  refuse(text, "unknown key \"{}\"; known are block, round, seed and algo", name);
}

}  // namespace

std::optional<uint64_t> parse_number(std::string_view text) {
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (text.empty() || error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

Scheme parse_scheme(std::string_view text) {
  Scheme scheme;
  const size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  if (name == "off") {
    if (colon != text.npos) refuse(text, "off takes no options");
    scheme.off = true;
    return scheme;
  }
  parse_codec(text, name, scheme.spec);
  if (colon != text.npos) {
    unsigned seen = 0;
    for (std::string_view rest = text.substr(colon + 1);;) {
      const size_t comma = rest.find(',');
      parse_option(text, rest.substr(0, comma), seen, scheme);
      if (comma == rest.npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  if (!codec::valid(scheme.spec)) refuse(text, "round=shift is for minmax codecs");
  return scheme;
}

std::string print_scheme(const Scheme& s) {
  if (s.off) return "off";
  std::string text;
  for (const FamilyName& f : kFamilyNames)
    if (f.family == s.spec.family) text = fmt::format("{}{}", f.name, s.spec.bits);
  text += fmt::format(":block={},round={}", s.spec.block,
                      kRoundingNames[static_cast<int>(s.spec.rounding)]);
  if (s.seed) text += fmt::format(",seed={}", *s.seed);
  if (s.algorithm != plan::Algo{}) text += fmt::format(",algo={}", plan::name(s.algorithm));
  return text;
}

}  // namespace terse
