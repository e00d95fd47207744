// The calls that are recorded in graphs.
#pragma once

#include <cstdlib>

#include "player.h"

namespace terse::test {

// Several chunks for a call of some thousand elements.
[[maybe_unused]] inline const bool small_chunks = setenv("TERSE_CHUNK_BYTES", "16384", 1) == 0;

inline Call call_of(plan::Collective collective, const char* scheme, size_t count,
                    ncclDataType_t datatype = ncclFloat32) {
  return {.collective = collective,
          .scheme = parse_scheme(scheme),
          .datatype = datatype,
          .count = count};
}

}  // namespace terse::test
