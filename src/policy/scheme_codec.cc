// Codec of a scheme that was read.
#include <algorithm>

#include "policy/scheme_draft.h"
#include "policy/scheme_options.h"

namespace terse {
namespace {

// Name of a codec in messages.
std::string name_of(const codec::Descriptor& d) {
  return std::string(d.name) + (d.fit == codec::Fit::kMse ? " with fit=mse" : "");
}

auto find_codec(const SchemeDraft& draft) {
  return std::ranges::find_if(codec::kDescriptors, [&](const codec::Descriptor& d) {
    return d.name == draft.name && d.fit == draft.fit;
  });
}

bool has_codebook(std::string_view name) {
  return std::ranges::any_of(codec::kDescriptors, [&](const codec::Descriptor& d) {
    return d.name == name && d.codebook;
  });
}

// Codec of another part of the call, with the same keys, less those that it lacks. `where`: for a
// message.
codec::Spec finish_other(std::string_view text, SchemeDraft other, const codec::Spec& spec,
                         std::string_view where) {
  other.intra.reset();
  other.second.reset();
  other.outer.reset();
  other.second_rounding.reset();
  other.learn.reset();
  if (find_codec(other) == codec::kDescriptors.end()) other.fit = codec::Fit::kAbsmax;
  const codec::Descriptor& d = *find_codec(other);
  // The text names no block if there is only one.
  const bool is_said = !codec::has_one_block(codec::descriptor(spec.codec));
  if (other.block && (!is_said || *other.block < d.min_block || *other.block > d.max_block))
    other.block = {};
  if (other.scale && !codec::has(d.scales, *other.scale)) other.scale = {};
  codec::Spec& found = other.scheme.spec;
  if (found.bits > d.max_hadamard_bits) found.hadamard = 0;
  found = finish(text, other).spec;
  if (found.block % spec.block != 0 && spec.block % found.block != 0)
    refuse_scheme(text, "blocks of {} {} do not fit the others' of {}", found.block, where,
                  spec.block);
  return found;
}

// Requirements of the formats of some levels, by the key that names one.
void require_own_grids(std::string_view text, std::string_view key, const SchemeDraft& draft,
                       const SchemeDraft& other) {
  if (draft.shares_grid() || other.shares_grid())
    refuse_scheme(text, "{} is not for {}: all ranks have one grid, whatever the nodes", key,
                  draft.shares_grid() ? draft.name : other.name);
}
void require_no_codebook(std::string_view text, std::string_view key, const SchemeDraft& other) {
  if (has_codebook(other.name))
    refuse_scheme(text, "{} is not for {}: the ranks hold levels of what goes between nodes", key,
                  other.name);
}

Intra finish_intra(std::string_view text, const SchemeDraft& draft, const codec::Spec& spec) {
  SchemeDraft other = draft;
  const bool off = draft.intra == "off";
  if (!off) parse_codec(text, *draft.intra, other);
  require_own_grids(text, "intra", draft, other);
  if (off) return {.off = true};
  require_no_codebook(text, "intra", other);
  const codec::Spec within = finish_other(text, std::move(other), spec, "within a node");
  if (within == spec) return {};
  return {.spec = within};
}

std::optional<codec::Spec> finish_second(std::string_view text, const SchemeDraft& draft,
                                         const codec::Spec& spec) {
  SchemeDraft other = draft;
  if (draft.second) parse_codec(text, *draft.second, other);
  if (draft.second_rounding) other.rounding = draft.second_rounding;
  if (draft.shares_grid() || other.shares_grid())
    refuse_scheme(text, "second is not for {}: all ranks have one grid, and a sum its codes",
                  draft.shares_grid() ? draft.name : other.name);
  if (has_codebook(draft.name) || has_codebook(other.name))
    refuse_scheme(text,
                  "second is not for {}: the ranks hold levels of what they send, not of sums",
                  has_codebook(draft.name) ? draft.name : other.name);
  const codec::Spec second = finish_other(text, std::move(other), spec, "of sums");
  return second == spec ? std::nullopt : std::optional(second);
}

std::optional<codec::Spec> finish_outer(std::string_view text, const SchemeDraft& draft,
                                        const codec::Spec& spec) {
  SchemeDraft other = draft;
  parse_codec(text, *draft.outer, other);
  require_own_grids(text, "outer", draft, other);
  require_no_codebook(text, "outer", other);
  const codec::Spec outer = finish_other(text, std::move(other), spec, "between groups of nodes");
  return outer == finer_of(spec) ? std::nullopt : std::optional(outer);
}

// Codes of a shared grid have algorithms of their own, and no others.
void require_algorithm(std::string_view text, const codec::Spec& spec, std::string_view algo) {
  const bool fits = std::ranges::any_of(plan::algorithms(), [&](const plan::Algorithm& a) {
    return a.sharing == sharing_of(spec) && (a.names.own == algo || a.names.also == algo);
  });
  if (fits) return;
  constexpr const char* kWhy[] = {"each rank has a grid of its own", "NCCL itself sums its codes",
                                  "its codes are merged by the owners of shards"};
  const codec::Descriptor& d = codec::descriptor(spec.codec);
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
  // A step of codes -1..1 is as large as the largest difference.
  if (draft.scheme.spec.bits == 2 && d.params == 1 &&
      draft.rounding == codec::Rounding::kStochastic)
    refuse_scheme(text,
                  "round=stochastic is not for differences in {}2, of which more would be left out "
                  "than they are: round=nearest, or more bits",
                  d.name);
  if (draft.scheme.spec.hadamard != 0)
    refuse_scheme(text, "hadamard is not for differences, which have no outliers to spread");
  if (draft.intra)
    refuse_scheme(text, "intra is not for differences: they go within a node as between nodes");
  if (draft.outer) refuse_scheme(text, "outer is not for differences, which are not summed");
  if (draft.second || draft.second_rounding)
    refuse_scheme(text, "second is not for differences, which are not summed");
  delta.own_exact = draft.own_exact.value_or(false);
  delta.every = static_cast<uint32_t>(draft.every.value_or(0));
  return delta;
}

}  // namespace

Scheme finish(std::string_view text, const SchemeDraft& draft) {
  const auto found = find_codec(draft);
  if (found == codec::kDescriptors.end())
    refuse_scheme(text, "{} has no fit={}", draft.name, kFitNames[static_cast<int>(draft.fit)]);
  const codec::Descriptor& d = *found;
  Scheme scheme = draft.scheme;
  codec::Spec& spec = scheme.spec;
  spec.codec = d.id;
  spec.block = static_cast<uint16_t>(draft.block.value_or(d.default_block));
  spec.rounding = draft.rounding.value_or(d.default_rounding);
  spec.scale = draft.scale.value_or(d.default_scale);
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
  if (scheme.algorithm != plan::Algo{}) require_algorithm(text, spec, plan::name(scheme.algorithm));
  scheme.delta = finish_delta(text, draft, d);
  if (draft.learn && !d.codebook) refuse_scheme(text, "learn is for learned codecs");
  scheme.learn = draft.learn.value_or(Learn{});
  if (draft.intra) scheme.intra = finish_intra(text, draft, spec);
  if (draft.outer) scheme.outer = finish_outer(text, draft, spec);
  if (draft.second || draft.second_rounding) scheme.second = finish_second(text, draft, spec);
  return scheme;
}

}  // namespace terse
