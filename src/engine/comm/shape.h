// Shape of a call as plan builders see it: the codec as sizes alone, chunks by the settings.
#pragma once

#include "codec/codebook.h"
#include "codec/layout.h"
#include "plan/plan.h"
#include "policy/scheme.h"
#include "policy/settings.h"

namespace terse {

inline plan::Packing packing_of(const codec::Spec& spec) {
  const auto codes = [spec](size_t n) { return codec::body_layout(spec, n).params_offset; };
  plan::Packing packing{spec.block, [spec](size_t n) { return codec::body_size(spec, n); }};
  packing.codes = codes;
  if (const plan::Sharing sharing = sharing_of(spec); sharing != plan::Sharing::kNone)
    packing.shared_grid = {
        codes,
        spec.scale == codec::Number::kFp32 ? plan::Element::kUint32 : plan::Element::kBfloat16,
        sharing};
  packing.draws = spec.rounding != codec::Rounding::kNearest;
  // Merges of codes round once more, which outweighs what shared draws would cancel.
  packing.shares_draws =
      spec.rounding == codec::Rounding::kStochastic && packing.sharing() != plan::Sharing::kMerged;
  if (codec::descriptor(spec.codec).codebook)
    packing.codebook_bytes = codec::codebook_bytes(spec.bits);
  return packing;
}

struct Fusing;

// Machines of the ranks.
struct Machines {
  plan::ChunkPolicy chunk_policy;
  const plan::Topology& topology;
  const Fusing* fusing = nullptr;  // null: no call is fused
};

// Chunks by the settings, or else by the machine's default. A machine that does not cut messages
// keeps them whole.
inline plan::ChunkPolicy chunk_policy_of(const Settings& settings,
                                         const plan::ChunkPolicy& machine) {
  if (settings.chunk_bytes == 0) return machine;
  plan::ChunkPolicy chunk_policy = plan::exact_chunks(settings.chunk_bytes);
  if (machine.max_chunks == 1) chunk_policy.max_chunks = 1;
  return chunk_policy;
}

inline plan::IntraNode within_of(const Intra& intra) {
  if (intra.off) return {plan::Format::kRaw};
  if (intra.spec) return {plan::Format::kIntraPacked, packing_of(*intra.spec)};
  return {};
}

inline plan::SumFormat sum_format_of(const Forms& forms) {
  if (!forms.second) return {};
  return {plan::Format::kSumPacked, packing_of(*forms.second),
          codec::packs_alike(*forms.second, forms.spec)};
}

inline plan::OuterFormat outer_format_of(const Forms& forms) {
  const codec::Spec outer = outer_of(forms);
  if (codec::packs_alike(outer, forms.spec)) return {};
  return {plan::Format::kOuterPacked, packing_of(outer)};
}

inline plan::Shape shape_of(const Forms& forms, size_t count, size_t element_bytes,
                            const plan::Position& at, const Machines& machines) {
  return {.count = count,
          .element_bytes = element_bytes,
          .ranks = at.ranks,
          .rank = at.rank,
          .root = at.root,
          .chunk_policy = machines.chunk_policy,
          .packing = packing_of(forms.spec),
          .topology = machines.topology,
          .within = within_of(forms.intra),
          .sum = sum_format_of(forms),
          .outer = outer_format_of(forms)};
}

}  // namespace terse
