// What a plan's builder is told of a call: the codec as sizes alone, chunks as the settings say.
#pragma once

#include "codec/spec.h"
#include "plan/plan.h"
#include "policy/settings.h"

namespace terse {

inline plan::Shape shape_of(const codec::Spec& spec, size_t count, size_t element_bytes, int ranks,
                            int rank) {
  return {.count = count,
          .element_bytes = element_bytes,
          .ranks = ranks,
          .rank = rank,
          .chunk_bytes = settings().chunk_bytes,
          .packing = {spec.block, [spec](size_t n) { return codec::body_size(spec, n); }}};
}

}  // namespace terse
