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

// Records both calls, the second one on a stream that forks from the first one's and joins it, and
// expects of some replays what each must give.
inline void expect_forked(Piece& first, cudaStream_t stream, Piece& second, cudaStream_t other) {
  const DeviceEvent fork, join;
  const RecordedGraph graph(stream, [&] {
    must(cudaEventRecord(fork.get(), stream));
    must(cudaStreamWaitEvent(other, fork.get(), 0));
    first.enqueue(stream);
    second.enqueue(other);
    must(cudaEventRecord(join.get(), other));
    must(cudaStreamWaitEvent(stream, join.get(), 0));
  });
  for (unsigned k = 0; k < 6; ++k) {
    first.feed(2 * k, stream);
    second.feed(2 * k + 1, stream);
    graph.launch(stream);
    first.expect(stream, 2 * k);
    second.expect(stream, 2 * k + 1);
  }
}

}  // namespace terse::test
