#include "policy/scheme.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>

#include "base/error.h"
#include "policy/automatic.h"
#include "policy/options.h"
#include "policy/presets.h"

namespace terse {
namespace {

constexpr std::string_view kRoundingNames[] = {"nearest", "stochastic", "shift"};

constexpr std::string_view kScaleNames[] = {"fp32", "bf16", "e8m0"};
constexpr std::string_view kFitNames[] = {"absmax", "mse"};
constexpr std::string_view kBaseNames[] = {"off", "inplace", "shadow"};
constexpr std::string_view kOwnNames[] = {"quantized", "exact"};

// What is read, before a codec is found for it all.
struct SchemeDraft {
  Scheme scheme;
  std::string_view name;  // of the codec, less its bits
  codec::Fit fit = codec::Fit::kAbsmax;
  std::optional<uint64_t> block;
  std::optional<codec::Rounding> rounding;
  std::optional<codec::Number> scale;
  std::optional<std::string_view> intra;  // what is said of it
  std::optional<bool> own_exact;
  std::optional<uint64_t> every;
  std::optional<Learn> learn;

  bool shares_grid() const {
    return std::ranges::any_of(codec::kDescriptors, [this](const codec::Descriptor& d) {
      return d.name == name && codec::shares_grid(d);
    });
  }
};

// The index of `word` in a list of names.
template <size_t n>
std::optional<int> find(const std::string_view (&names)[n], std::string_view word) {
  for (size_t i = 0; i < n; ++i)
    if (names[i] == word) return static_cast<int>(i);
  return {};
}

// "a, b or c"
std::string listed(const std::vector<std::string>& words, std::string_view last = "or") {
  std::string text;
  for (size_t i = 0; i < words.size(); ++i) {
    if (i != 0) text += i + 1 < words.size() ? ", " : fmt::format(" {} ", last);
    text += words[i];
  }
  return text;
}

// Those of the names that are in the set.
template <size_t n>
std::string listed(const std::string_view (&names)[n], codec::Choices set) {
  std::vector<std::string> words;
  for (size_t i = 0; i < n; ++i)
    if (codec::has(set, i)) words.emplace_back(names[i]);
  return listed(words);
}

// The codecs, each with its widths up to most(descriptor); those of which that is 0 are left out.
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

// NAME: a codec's name, followed by the bits where it has several widths.
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
  if (find_preset(name) != nullptr)
    refuse_scheme(text, "it is a preset, which names schemes by collective: for rules alone");
  std::vector<std::string> known = widths([](const codec::Descriptor& d) { return d.max_bits; });
  known.insert(known.begin(), {"off", "auto"});
  refuse_scheme(text, "unknown codec \"{}\"; known are {}", name, listed(known, "and"));
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
    {"round",
     [](std::string_view text, std::string_view value, SchemeDraft& draft) {
       const std::optional<int> rounding = find(kRoundingNames, value);
       if (!rounding)
         refuse_scheme(text, "round is \"{}\", but must be nearest, stochastic or shift", value);
       draft.rounding = static_cast<codec::Rounding>(*rounding);
     }},
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

// A codec's name in messages.
std::string name_of(const codec::Descriptor& d) {
  return std::string(d.name) + (d.fit == codec::Fit::kMse ? " with fit=mse" : "");
}

std::string print_codec(const codec::Spec& spec) {
  const codec::Descriptor& d = codec::descriptor(spec.codec);
  std::string text(d.name);
  if (!codec::has_one_width(d)) text += fmt::format("{}", spec.bits);
  return text;
}

auto find_codec(const SchemeDraft& draft) {
  return std::ranges::find_if(codec::kDescriptors, [&](const codec::Descriptor& d) {
    return d.name == draft.name && d.fit == draft.fit;
  });
}

Scheme finish(std::string_view text, const SchemeDraft& draft);

// Another codec with the same keys, less those that it does not have.
Intra finish_intra(std::string_view text, const SchemeDraft& draft, const codec::Spec& spec) {
  SchemeDraft other = draft;
  other.intra.reset();
  const bool off = draft.intra == "off";
  if (!off) parse_codec(text, *draft.intra, other);
  if (draft.shares_grid() || other.shares_grid())
    refuse_scheme(text, "intra is not for {}: all ranks have one grid, whatever the nodes",
                  draft.shares_grid() ? draft.name : other.name);
  if (off) return {.off = true};
  if (std::ranges::any_of(codec::kDescriptors, [&](const codec::Descriptor& d) {
        return d.name == other.name && d.codebook;
      }))
    refuse_scheme(text, "intra is not for {}: the ranks hold levels of what goes between nodes",
                  other.name);
  other.learn.reset();
  if (find_codec(other) == codec::kDescriptors.end()) other.fit = codec::Fit::kAbsmax;
  const codec::Descriptor& d = *find_codec(other);
  if (other.block && (*other.block < d.min_block || *other.block > d.max_block)) other.block = {};
  if (other.scale && !codec::has(d.scales, *other.scale)) other.scale = {};
  codec::Spec& within = other.scheme.spec;
  if (within.bits > d.max_hadamard_bits) within.hadamard = 0;
  within = finish(text, other).spec;
  if (within == spec) return {};
  if (within.block % spec.block != 0 && spec.block % within.block != 0)
    refuse_scheme(text, "blocks of {} within a node do not fit those of {} between nodes",
                  within.block, spec.block);
  return {.spec = within};
}

// Whose codes may become one.
int most_ranks(const codec::Descriptor& d) {
  constexpr int kMost = std::numeric_limits<decltype(codec::Spec::ranks)>::max();
  const int of[] = {0, codec::levels(d.max_bits, codec::kLeastLevels), kMost};
  return of[static_cast<size_t>(d.sharing)];
}

plan::Sharing sharing_of(const codec::Descriptor& d) {
  constexpr plan::Sharing kAll[] = {plan::Sharing::kNone, plan::Sharing::kSummed,
                                    plan::Sharing::kMerged};
  return kAll[static_cast<size_t>(d.sharing)];
}

// Codes of a shared grid have algorithms of their own, and no others have those.
void require_algorithm(std::string_view text, const codec::Descriptor& d, std::string_view algo) {
  const bool fits = std::ranges::any_of(plan::algorithms(), [&](const plan::Algorithm& a) {
    return a.sharing == sharing_of(d) && (a.names.own == algo || a.names.also == algo);
  });
  if (fits) return;
  constexpr const char* kWhy[] = {"each rank has a grid of its own", "NCCL itself sums its codes",
                                  "its codes are merged by the owners of shards"};
  refuse_scheme(text, "{} has no algo={}: {}", name_of(d), algo,
                kWhy[static_cast<size_t>(d.sharing)]);
}

Differences finish_delta(std::string_view text, const SchemeDraft& draft,
                         const codec::Descriptor& d) {
  Differences delta = draft.scheme.delta;
  if (!delta) {
    if (draft.every) refuse_scheme(text, "every is for delta=inplace or shadow");
    if (draft.own_exact && codec::shares_grid(d))
      refuse_scheme(text, "own is for AllGather, and {} is for sums alone", name_of(d));
    return {.own_exact = draft.own_exact.value_or(false)};
  }
  if (d.params == 0 || codec::shares_grid(d))
    refuse_scheme(text, "delta is for formats with parameters of a rank's own, not for {}",
                  name_of(d));
  if (d.codebook)
    refuse_scheme(text, "delta is not for {}, whose levels are those of what is sent", name_of(d));
  if (draft.scheme.spec.hadamard != 0)
    refuse_scheme(text, "hadamard is not for differences, which have no outliers to spread");
  if (draft.intra)
    refuse_scheme(text, "intra is not for differences: they go within a node as between nodes");
  delta.own_exact = draft.own_exact.value_or(true);
  delta.every = static_cast<uint32_t>(draft.every.value_or(0));
  return delta;
}

// The codec that is meant, and what it leaves open; or why there is none.
Scheme finish(std::string_view text, const SchemeDraft& draft) {
  const auto found = find_codec(draft);
  if (found == codec::kDescriptors.end())
    refuse_scheme(text, "{} has no fit={}", draft.name, kFitNames[static_cast<int>(draft.fit)]);
  const codec::Descriptor& d = *found;
  Scheme scheme = draft.scheme;
  codec::Spec& spec = scheme.spec;
  spec.codec = d.id;
  spec.block = static_cast<uint16_t>(draft.block.value_or(d.usual_block));
  spec.rounding = draft.rounding.value_or(d.usual_rounding);
  spec.scale = draft.scale.value_or(d.usual_scale);
  if (spec.block < d.min_block || spec.block > d.max_block) {
    if (d.params == 0) refuse_scheme(text, "{} has no blocks", name_of(d));
    refuse_scheme(text, "{} has blocks of {}", name_of(d), d.min_block);
  }
  if (!codec::has(d.roundings, spec.rounding)) {
    if (spec.rounding == codec::Rounding::kShift)
      refuse_scheme(text, "round=shift is for minmax codecs");
    if (d.fit == codec::Fit::kMse)
      refuse_scheme(text,
                    "fit=mse is biased whatever is drawn, for it leaves elements beyond the codes: "
                    "only round=nearest, or fit=absmax");
    refuse_scheme(text, "{} has no round={}, only {}", name_of(d),
                  kRoundingNames[static_cast<int>(spec.rounding)],
                  listed(kRoundingNames, d.roundings));
  }
  if (d.params == 0 && draft.scale) refuse_scheme(text, "{} has no scale", name_of(d));
  if (!codec::has(d.scales, spec.scale))
    refuse_scheme(text, "{} has no scale={}, only {}", name_of(d),
                  kScaleNames[static_cast<int>(spec.scale)], listed(kScaleNames, d.scales));
  if (spec.hadamard != 0 && d.params == 0)
    refuse_scheme(text, "hadamard does nothing for {}: it spreads outliers over blocks",
                  name_of(d));
  if (spec.hadamard != 0 && spec.bits > d.max_hadamard_bits)
    refuse_scheme(
        text, "hadamard is for {}, whose steps are coarse",
        listed(widths([](const codec::Descriptor& c) { return c.max_hadamard_bits; }), "and"));
  if (const char* fault = codec::fault(spec)) refuse_scheme(text, "{}: {}", name_of(d), fault);
  if (scheme.algorithm != plan::Algo{}) require_algorithm(text, d, plan::name(scheme.algorithm));
  scheme.delta = finish_delta(text, draft, d);
  if (draft.learn && !d.codebook) refuse_scheme(text, "learn is for learned codecs");
  scheme.learn = draft.learn.value_or(Learn{});
  if (draft.intra) scheme.intra = finish_intra(text, draft, spec);
  return scheme;
}

}  // namespace

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

Scheme without_seed(Scheme scheme) {
  scheme.seed.reset();
  return scheme;
}

plan::Sharing sharing_of(const codec::Spec& spec) {
  return sharing_of(codec::descriptor(spec.codec));
}

bool serves(const Scheme& scheme, plan::Collective collective) {
  if (codec::descriptor(scheme.spec.codec).codebook && plan::is_point_to_point(collective))
    return false;
  if (scheme.delta && collective != plan::Collective::kAllGather) return false;
  return plan::has_algorithm(collective, sharing_of(scheme.spec));
}

std::optional<Scheme> on_ranks(Scheme scheme, int ranks) {
  codec::Spec& spec = scheme.spec;
  const auto sharing = codec::descriptor(spec.codec).sharing;
  if (scheme.off || scheme.automatic || sharing == codec::Sharing::kNone) return scheme;
  for (const codec::Descriptor& d : codec::kDescriptors) {
    if (d.sharing != sharing || d.max_bits < spec.bits || ranks > most_ranks(d)) continue;
    spec.codec = d.id;
    spec.bits = static_cast<uint8_t>(d.max_bits);
    spec.ranks = static_cast<uint16_t>(ranks);
    return scheme;
  }
  return {};
}

Scheme require_on_ranks(const Scheme& scheme, int ranks) {
  if (const std::optional<Scheme> fitted = on_ranks(scheme, ranks)) return *fitted;
  const auto sharing = codec::descriptor(scheme.spec.codec).sharing;
  int most = 0;
  for (const codec::Descriptor& d : codec::kDescriptors)
    if (d.sharing == sharing) most = std::max(most, most_ranks(d));
  const bool summed = sharing == codec::Sharing::kSummed;
  fail(ncclInvalidArgument, "scheme \"{}\": {}no more than {} ranks may share a grid",
       print_scheme(scheme),
       summed ? fmt::format("the sum of {} ranks leaves fewer than {} levels on a side of zero; ",
                            ranks, codec::kLeastLevels)
              : "",
       most);
}

std::string print_scheme(const Scheme& s) {
  if (s.off) return "off";
  if (s.automatic) return print_auto(s);
  const codec::Descriptor& d = codec::descriptor(s.spec.codec);
  std::string text = print_codec(s.spec);
  text += ':';
  if (!codec::has_one_block(d)) text += fmt::format("block={},", s.spec.block);
  text += fmt::format("round={}", kRoundingNames[static_cast<int>(s.spec.rounding)]);
  if (s.spec.scale != d.usual_scale)
    text += fmt::format(",scale={}", kScaleNames[static_cast<int>(s.spec.scale)]);
  if (d.fit != codec::Fit::kAbsmax)
    text += fmt::format(",fit={}", kFitNames[static_cast<int>(d.fit)]);
  if (s.spec.hadamard != 0) text += fmt::format(",hadamard={}", s.spec.hadamard);
  if (s.delta) text += fmt::format(",delta={}", kBaseNames[static_cast<int>(s.delta.base)]);
  if (s.delta.every != 0) text += fmt::format(",every={}", s.delta.every);
  if (s.delta.own_exact != bool{s.delta})
    text += fmt::format(",own={}", kOwnNames[static_cast<int>(s.delta.own_exact)]);
  if (s.intra.off) text += ",intra=off";
  if (s.intra.spec) text += fmt::format(",intra={}", print_codec(*s.intra.spec));
  if (s.learn != Learn{}) text += fmt::format(",learn={}", print_learn(s.learn));
  if (s.seed) text += fmt::format(",seed={}", *s.seed);
  if (s.algorithm != plan::Algo{}) text += fmt::format(",algo={}", plan::name(s.algorithm));
  return text;
}

}  // namespace terse
