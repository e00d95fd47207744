// Fusion of a call, as ranks of one host do it.
#pragma once

#include "engine/comm/comm_windows.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/fuse.h"
#include "policy/settings.h"

namespace terse::cli {

inline plan::Fusion fusion_of(const plan::Algorithm& algorithm, const plan::Shape& shape,
                              const plan::Delta& delta) {
  return plan::fuse(
      algorithm.collective, [&](const plan::Shape& s) { return plan::build(algorithm, s, delta); },
      shape, settings().window_bytes);
}

}  // namespace terse::cli
