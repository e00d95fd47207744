// What a plan's builder is told of a call: the codec as sizes alone, chunks as the settings say.
#pragma once

#include "codec/spec.h"
#include "plan/plan.h"
#include "policy/settings.h"

namespace terse {

inline plan::Packing packing_of(const codec::Spec& spec) {
  return {spec.block, [spec](size_t n) { return codec::body_size(spec, n); }};
}

inline plan::Shape shape_of(const codec::Spec& spec, size_t count, size_t element_bytes,
                            const plan::Position& at) {
  return {.count = count,
          .element_bytes = element_bytes,
          .ranks = at.ranks,
          .rank = at.rank,
          .root = at.root,
          .chunk_bytes = settings().chunk_bytes,
          .packing = packing_of(spec)};
}

}  // namespace terse
