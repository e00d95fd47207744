// Collectives, and their properties under any algorithm.
#pragma once

#include <cstddef>

namespace terse::plan {

// Collectives by nccl_collectives.inc.
enum class Collective : unsigned char {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, ...) k##name,
#include <nccl_collectives.inc>
};
constexpr size_t kCollectives = 0
#define NCCL_COLLECTIVE(...) +1
#include <nccl_collectives.inc>
    ;

// Arguments of a collective beside buffers, count, type, communicator and stream.
struct Form {
  bool reduces;  // an operation
  bool rooted;   // a root, or a peer
};
constexpr Form kPlainForm{false, false}, kOpForm{true, false}, kRootForm{false, true},
    kOpRootForm{true, true}, kSendForm{false, true}, kRecvForm{false, true};

enum class Who : unsigned char { kNobody, kRoot, kAll };

// Buffer of the caller's: the ranks that have it, and whether it has a shard for every rank.
struct Side {
  Who who;
  bool per_rank;
};

struct Traits {
  const char* name;
  Side send, recv;
  bool reduces;  // takes an operation
  bool rooted;   // takes a root, or a peer
};

const Traits& traits(Collective collective);

inline const char* name(Collective collective) { return traits(collective).name; }

// Returns true for kSend and kRecv, which two ranks call.
inline bool is_point_to_point(Collective c) {
  return c == Collective::kSend || c == Collective::kRecv;
}

// Place of a rank in a call. The root is the peer of Send and Recv.
struct Position {
  int ranks = 1, rank = 0, root = 0;
};

// Number of shards of the whole message: one for each rank, or one.
size_t shards(Collective collective, int ranks);

// Extent of a buffer on one rank, in units of the call's count.
size_t extent(const Side& side, const Position& at);

// Bytes that a rank sends in NCCL's own algorithm for large messages, for a call that counts
// `bytes` bytes: rings for AllReduce, AllGather and ReduceScatter; a chain from the root, or to it,
// by rank, for Broadcast and Reduce; each shard once for the others. What stays on its rank is not
// sent.
size_t raw_bytes(Collective collective, size_t bytes, const Position& at);

}  // namespace terse::plan
