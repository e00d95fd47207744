#include "policy/scheme.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "base/error.h"

namespace terse {
namespace {

// Max ranks whose codes may become one.
int most_ranks(const codec::Descriptor& d) {
  constexpr int kMax = std::numeric_limits<decltype(codec::Spec::ranks)>::max();
  const int of[] = {0, codec::levels(d.max_bits, codec::kMinLevels), kMax};
  return of[static_cast<size_t>(d.sharing)];
}

// Codecs of fewer than 8 bits, and those of 8 that err less.
struct FinerCodec {
  std::string_view codec, finer;
};
constexpr FinerCodec kFinerCodecs[] = {{"int", "int"},        {"minmax", "minmax"},
                                       {"learned", "minmax"}, {"mxfp4", "mxfp8"},
                                       {"mxfp6", "mxfp8"},    {"nvfp4", "int"}};

}  // namespace

codec::Spec finer_of(const codec::Spec& spec) {
  constexpr int kBits = 8;
  const codec::Descriptor& own = codec::descriptor(spec.codec);
  const auto family = std::ranges::find(kFinerCodecs, own.name, &FinerCodec::codec);
  if (spec.bits >= kBits || family == std::end(kFinerCodecs)) return spec;
  const codec::Descriptor& d =
      *std::ranges::find_if(codec::kDescriptors, [&](const codec::Descriptor& each) {
        return each.name == family->finer && each.fit == codec::Fit::kAbsmax;
      });
  codec::Spec finer = spec;
  finer.codec = d.id;
  finer.bits = kBits;
  finer.hadamard = 0;
  if (codec::has_one_block(own) || codec::has_one_block(d))
    finer.block = std::min(spec.block, static_cast<uint16_t>(d.default_block));
  if (!codec::has(d.roundings, spec.rounding)) finer.rounding = d.default_rounding;
  if (!codec::has(d.scales, spec.scale)) finer.scale = d.default_scale;
  return finer;
}

Scheme without_seed(Scheme scheme) {
  scheme.seed.reset();
  return scheme;
}

plan::Sharing sharing_of(const codec::Spec& spec) {
  constexpr plan::Sharing kAll[] = {plan::Sharing::kNone, plan::Sharing::kSummed,
                                    plan::Sharing::kMerged};
  static_assert(std::size(kAll) == static_cast<size_t>(codec::Sharing::kMerged) + 1);
  return kAll[static_cast<size_t>(codec::descriptor(spec.codec).sharing)];
}

bool is_for_type(const Scheme& scheme, plan::Collective collective, codec::Dtype dtype) {
  constexpr std::string_view kCasts[] = {"", "fp16", "bf16"};  // by Dtype
  static_assert(std::size(kCasts) == codec::kDtypes);
  const std::string_view codec = codec::descriptor(scheme.spec.codec).name;
  return scheme.spec.bits < 8 * codec::dtype_size(dtype) ||
         (plan::traits(collective).reduces && codec == kCasts[static_cast<size_t>(dtype)]);
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
                            ranks, codec::kMinLevels)
              : "",
       most);
}

}  // namespace terse
