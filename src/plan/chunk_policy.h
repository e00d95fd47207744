// Sizes of chunks, whose encode, transfer and decode overlap. Small chunks start the pipeline
// early; but each costs launches and a round of messages, and what a rank sends a peer at a time
// must not be so small that its latency shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

namespace terse::plan {

struct ChunkPolicy {
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  size_t chunk_bytes;  // raw, of all shards of a chunk
  size_t shard_bytes;  // min of each shard's part
  size_t max_chunks;   // of a message between two ranks: longer ones have larger chunks
  // Number of chunks from which on a collective has half as many of twice the size: its pipeline is
  // full nearly all of the time, and the cost of each chunk counts for more.
  size_t many_chunks = kNoLimit;

  // Max chunks of a collective, as plans grow with them.
  static constexpr size_t kMaxChunks = 4096;

  // Raw bytes of a chunk of a collective with so many bytes, if those are not too many chunks.
  constexpr size_t chunk(size_t bytes, size_t shards) const {
    const size_t wanted = std::max(chunk_bytes, shards * shard_bytes);
    return bytes / wanted >= many_chunks ? 2 * wanted : wanted;
  }

  bool operator==(const ChunkPolicy&) const = default;
};

// Measured at 1 Gbit/s, alone on the machine and beside a busy process; a chunk stays in a
// processor's caches.
constexpr ChunkPolicy kHostChunks{size_t{1} << 20, size_t{256} << 10, 32, 32};

// A step's launches cost some 10 us, in which a fast link carries a megabyte or more, and a GPU's
// codec takes some 10 us for 16 MiB. An estimate, not a measurement. A message between two ranks is
// not cut (point_to_point.cc).
constexpr ChunkPolicy kGpuChunks{size_t{16} << 20, size_t{4} << 20, 1};

constexpr ChunkPolicy default_chunk_policy(bool gpu) { return gpu ? kGpuChunks : kHostChunks; }

// Chunks of so many raw bytes for any message.
constexpr ChunkPolicy exact_chunks(size_t bytes) { return {bytes, 0, ChunkPolicy::kNoLimit}; }

}  // namespace terse::plan
