// Grammar of schemes (terse.h, terseSchemeParse).
#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "policy/automatic.h"
#include "policy/presets.h"
#include "policy/scheme_draft.h"
#include "policy/scheme_options.h"

namespace terse {
namespace {

// Index of `word` in a list of names.
template <size_t n>
std::optional<int> find(const std::string_view (&names)[n], std::string_view word) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == word) return static_cast<int>(i);
  return {};
}

codec::Rounding parse_rounding(std::string_view text, std::string_view key,
                               std::string_view value) {
  const std::optional<int> rounding = find(kRoundingNames, value);
  if (!rounding)
    refuse_scheme(text, "{} is \"{}\", but must be nearest, stochastic or shift", key, value);
  return static_cast<codec::Rounding>(*rounding);
}

// Refuses a preset where one scheme is asked for, and lists its schemes.
[[noreturn]] void refuse_preset(std::string_view text, const Preset& preset) {
  std::vector<std::pair<std::string, Set>> all;  // schemes, and their collectives; none: all else
  for (const PresetPart& part : preset.parts) {
    const auto known = std::ranges::find(all, part.scheme, &std::pair<std::string, Set>::first);
    if (part.scheme == "off") continue;
    if (known == all.end() || part.collectives == 0)
      all.emplace_back(part.scheme, part.collectives);
    else
      known->second |= part.collectives;
  }
  std::string schemes;
  for (const auto& [scheme, collectives] : all)
    schemes += fmt::format("{}{} for {}", schemes.empty() ? "" : "; ", scheme,
                           collectives == 0 ? "all else" : print_collectives(collectives));
  refuse_scheme(text,
                "a preset has a scheme for each collective, and is for rules; of this one: {}",
                schemes);
}

constexpr OptionKey<SchemeDraft> kKeys[] = {
    {"block",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       draft.block = parse_number(value);
       if (!draft.block || *draft.block < codec::kMinBlock || *draft.block > codec::kMaxBlock ||
           *draft.block % codec::kBlockQuantum != 0)
         refuse_scheme(text, "block is \"{}\", but must be a multiple of {} from {} to {}", value,
                       codec::kBlockQuantum, codec::kMinBlock, codec::kMaxBlock);
     }},
    {"round", [](std::string_view text, std::string_view value,
                 SchemeDraft& draft) { draft.rounding = parse_rounding(text, "round", value); }},
    {"scale",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<int> scale = find(kScaleNames, value);
       if (!scale) refuse_scheme(text, "scale is \"{}\", but must be fp32, bf16 or e8m0", value);
       draft.scale = static_cast<codec::Number>(*scale);
     }},
    {"fit",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<int> fit = find(kFitNames, value);
       if (!fit) refuse_scheme(text, "fit is \"{}\", but must be absmax or mse", value);
       draft.fit = static_cast<codec::Fit>(*fit);
     }},
    {"hadamard",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<uint64_t> elements = parse_number(value);
       if (!elements || (*elements != 0 && *elements != codec::kHadamard))
         refuse_scheme(text, "hadamard is \"{}\", but must be 0 or {}", value, codec::kHadamard);
       draft.scheme.spec.hadamard = static_cast<uint8_t>(*elements);
     }},
    {"intra",
     [](std::string_view, std::string_view value, SchemeDraft& draft) { draft.intra = value; }},
    {"outer",
     [](std::string_view, std::string_view value, SchemeDraft& draft) { draft.outer = value; }},
    {"second",
     [](std::string_view, std::string_view value, SchemeDraft& draft) { draft.second = value; }},
    {"second-round",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       draft.second_rounding = parse_rounding(text, "second-round", value);
     }},
    {"delta",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<int> base = find(kBaseNames, value);
       if (!base) refuse_scheme(text, "delta is \"{}\", but must be off, inplace or shadow", value);
       draft.scheme.delta.base = static_cast<plan::Base>(*base);
     }},
    {"every",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       draft.every = parse_number(value);
       if (!draft.every || *draft.every > std::numeric_limits<uint32_t>::max())
         refuse_scheme(text, "every is \"{}\", but must be a number of calls, below 2^32", value);
     }},
    {"own",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<int> own = find(kOwnNames, value);
       if (!own) refuse_scheme(text, "own is \"{}\", but must be exact or quantized", value);
       draft.own_exact = *own != 0;
     }},
    {"learn",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       draft.learn = parse_learn(text, value);
     },
     true},
    {"seed",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       draft.scheme.seed = parse_number(value);
       if (!draft.scheme.seed)
         refuse_scheme(text, "seed is \"{}\", but must be a number below 2^64", value);
     }},
    {"algo",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<plan::Algo> algorithm = plan::find_algo(value);
       if (!algorithm) {
         const auto names = plan::algo_names();
         refuse_scheme(text, "algo is \"{}\", but must be {}", value,
                       listed({names.begin(), names.end()}));
       }
       draft.scheme.algorithm = *algorithm;
     }},
};

std::string known_keys() {
  std::vector<std::string> known;
  for (const auto& key : kKeys) known.emplace_back(key.name);
  return "known are " + listed(known, "and");
}

std::string print_codec(const codec::Spec& spec) {
  const codec::Descriptor& d = codec::descriptor(spec.codec);
  std::string text(d.name);
  if (!codec::has_one_width(d)) text += fmt::format("{}", spec.bits);
  return text;
}

}  // namespace

std::string listed(const std::vector<std::string>& words, std::string_view last) {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i != 0) text += i + 1 < words.size() ? ", " : fmt::format(" {} ", last);
    text += words[i];
  }
  return text;
}

void parse_codec(std::string_view text, std::string_view name, SchemeDraft& draft) {
  for (const codec::Descriptor& d : codec::kDescriptors) {
    const bool one_width = codec::has_one_width(d);
    if (one_width ? name != d.name : !name.starts_with(d.name)) continue;
    std::optional<uint64_t> bits = d.min_bits;
    if (!one_width) {
      const std::string_view digits = name.substr(d.name.size());
      bits = parse_number(digits);
      if (!bits || digits.front() == '0') continue;
      if (*bits < static_cast<uint64_t>(d.min_bits) || *bits > static_cast<uint64_t>(d.max_bits))
        refuse_scheme(text, "{} bits are not offered, only {} to {}", *bits, d.min_bits,
                      d.max_bits);
    }
    draft.name = d.name;
    draft.scheme.spec.bits = static_cast<uint8_t>(*bits);
    return;
  }
  if (const Preset* const preset = find_preset(name)) refuse_preset(text, *preset);
  std::vector<std::string> known = widths([](const codec::Descriptor& d) { return d.max_bits; });
  known.insert(known.begin(), {"off", "auto"});
  refuse_scheme(text, "unknown codec \"{}\"; known are {}", shortened(name), listed(known, "and"));
}

std::vector<std::string> codec_names() {
  std::vector<std::string> names;
  for (const codec::Descriptor& d : codec::kDescriptors) {
    if (d.fit != codec::Fit::kAbsmax) continue;
    if (codec::has_one_width(d)) {
      names.emplace_back(d.name);
    } else {
      for (int bits = d.min_bits; bits <= d.max_bits; ++bits)
        names.push_back(fmt::format("{}{}", d.name, bits));
    }
  }
  return names;
}

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
    if (colon != text.npos) refuse_scheme(text, "off takes no options");
    scheme.off = true;
    return scheme;
  }
  if (name == "auto") return parse_auto(text);
  SchemeDraft draft;
  parse_codec(text, name, draft);
  read_options(text, kKeys, known_keys, draft);
  return finish(text, draft);
}

std::string print_scheme(const Scheme& s) {
  if (s.off) return "off";
  if (s.automatic) return print_auto(s);
  const codec::Descriptor& d = codec::descriptor(s.spec.codec);
  std::string text = print_codec(s.spec);
  text += ':';
  if (!codec::has_one_block(d)) text += fmt::format("block={},", s.spec.block);
  text += fmt::format("round={}", kRoundingNames[static_cast<int>(s.spec.rounding)]);
  if (s.spec.scale != d.default_scale)
    text += fmt::format(",scale={}", kScaleNames[static_cast<int>(s.spec.scale)]);
  if (d.fit != codec::Fit::kAbsmax)
    text += fmt::format(",fit={}", kFitNames[static_cast<int>(d.fit)]);
  if (s.spec.hadamard != 0) text += fmt::format(",hadamard={}", s.spec.hadamard);
  if (s.delta) text += fmt::format(",delta={}", kBaseNames[static_cast<int>(s.delta.base)]);
  if (s.delta.every != 0) text += fmt::format(",every={}", s.delta.every);
  if (s.delta.own_exact) text += ",own=exact";
  if (s.intra.off) text += ",intra=off";
  if (s.intra.spec) text += fmt::format(",intra={}", print_codec(*s.intra.spec));
  if (s.outer) text += fmt::format(",outer={}", print_codec(*s.outer));
  if (s.second && !codec::packs_alike(*s.second, s.spec))
    text += fmt::format(",second={}", print_codec(*s.second));
  if (s.second && s.second->rounding != s.spec.rounding)
    text += fmt::format(",second-round={}", kRoundingNames[static_cast<int>(s.second->rounding)]);
  if (s.learn != Learn{}) text += fmt::format(",learn={}", print_learn(s.learn));
  if (s.seed) text += fmt::format(",seed={}", *s.seed);
  if (s.algorithm != plan::Algo{}) text += fmt::format(",algo={}", plan::name(s.algorithm));
  return text;
}

}  // namespace terse
