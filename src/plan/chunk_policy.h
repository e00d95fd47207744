// How finely messages are cut into chunks, whose encode, transfer and decode overlap. Small chunks
// start the pipeline early; but each costs launches and a round of messages, and what a rank sends
// a peer at a time must not become so small that its latency shows.
#pragma once

#include <algorithm>
#include <cstddef>
#include <limits>

namespace terse::plan {

struct ChunkPolicy {
  static constexpr size_t kNoLimit = std::numeric_limits<size_t>::max();

  size_t chunk_bytes;  // raw, of all shards of a chunk
  size_t shard_bytes;  // and at least this much of each of them
  size_t max_chunks;   // of a message between two ranks: longer ones have larger chunks
  // A collective of so many chunks has half as many of twice the size: there the pipeline is full
  // nearly all of the time, and what each chunk costs counts for more.
  size_t many_chunks = kNoLimit;

  // A plan grows with them: no collective has more, however small they were to be.
  static constexpr size_t kMaxChunks = 4096;

  // Raw bytes of a chunk of a collective of so many, where those are not too many chunks.
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

// Chunks of so many raw bytes, whatever the message.
constexpr ChunkPolicy exact_chunks(size_t bytes) { return {bytes, 0, ChunkPolicy::kNoLimit}; }

}  // namespace terse::plan
