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

  size_t chunk_bytes;  // min, raw, of all shards of a chunk
  size_t shard_bytes;  // min of each shard's part
  size_t max_chunks;   // of a message between two ranks: longer ones have larger chunks
  // Number of chunks from which on a collective has half as many of twice the size: its pipeline is
  // full nearly all of the time, and the cost of each chunk counts for more.
  size_t many_chunks = kNoLimit;
  // Chunks grow with the square root of the message: k chunks hide all but 1/k of the codec's time
  // and cost k times their launches, and the sum of both is least where k grows so.
  bool grows = false;
  // Max of each shard's part as it is sent: what is hardly smaller than raw costs the link more.
  size_t sent_bytes = kNoLimit;

  // Max chunks of a collective, as plans grow with them.
  static constexpr size_t kMaxChunks = 4096;

  // Raw bytes of a chunk of a collective with so many bytes, raw and as they are sent, if those are
  // not too many chunks.
  constexpr size_t chunk(size_t bytes, size_t sent, size_t shards) const {
    size_t least = std::max(chunk_bytes, shards * shard_bytes);
    if (sent_bytes != kNoLimit && sent != 0)
      least = std::min(least, static_cast<size_t>(static_cast<unsigned __int128>(shards) *
                                                  sent_bytes * bytes / sent));
    least = std::max<size_t>(least, 1);
    const size_t wanted = grows ? std::max(least, square_root(least) * square_root(bytes)) : least;
    return bytes / wanted >= many_chunks ? 2 * wanted : wanted;
  }

  bool operator==(const ChunkPolicy&) const = default;

 private:
  // Largest number whose square is at most n, in integers: the same whatever a rank's
  // floating-point mode.
  static constexpr size_t square_root(size_t n) {
    size_t root = 0;
    for (size_t bit = size_t{1} << 31; bit != 0; bit >>= 1)
      if (root + bit <= n / (root + bit)) root += bit;
    return root;
  }
};

// Measured at 1 Gbit/s, alone on the machine and beside a busy process; a chunk stays in a
// processor's caches.
constexpr ChunkPolicy kHostChunks{.chunk_bytes = size_t{1} << 20,
                                  .shard_bytes = size_t{256} << 10,
                                  .max_chunks = 32,
                                  .many_chunks = 32,
                                  .sent_bytes = size_t{160} << 10};

// A chunk costs some 70 us of launches and messages, in which a fast link carries a megabyte or
// more to each peer, and its codec takes some 75 us for 16 MiB. An estimate, not a measurement. A
// message between two ranks is not cut (point_to_point.cc).
constexpr ChunkPolicy kGpuChunks{.chunk_bytes = size_t{16} << 20,
                                 .shard_bytes = size_t{1} << 20,
                                 .max_chunks = 1,
                                 .grows = true};

constexpr ChunkPolicy default_chunk_policy(bool gpu) { return gpu ? kGpuChunks : kHostChunks; }

// Chunks of so many raw bytes for any message.
constexpr ChunkPolicy exact_chunks(size_t bytes) { return {bytes, 0, ChunkPolicy::kNoLimit}; }

}  // namespace terse::plan
