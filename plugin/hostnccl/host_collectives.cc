#include "host_collectives.h"

#include <cstring>

namespace hostnccl {
namespace {

// Up to here a rank sends its whole vector to everybody: one trip, more bytes.
constexpr size_t kOneShotBytes = size_t{32} << 10;
// Up to here parts go straight to where they are reduced or needed: nothing to pipeline yet.
constexpr size_t kDirectBytes = size_t{512} << 10;

size_t others(const Channel& channel) { return static_cast<size_t>(channel.size()) - 1; }

void all_reduce(const Op& op, Channel& channel) {
  if (op.bytes() <= kOneShotBytes / others(channel)) return one_shot_all_reduce(op, channel);
  if (op.bytes() <= kDirectBytes) return two_shot_all_reduce(op, channel);
  ring_all_reduce(op, channel);
}

void reduce_scatter(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / others(channel)) return direct_reduce_scatter(op, channel);
  ring_reduce_scatter(op, channel);
}

void all_gather(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / others(channel)) return direct_all_gather(op, channel);
  ring_all_gather(op, channel);
}

void broadcast(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / others(channel)) return direct_broadcast(op, channel);
  chain_broadcast(op, channel);
}

void reduce(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / others(channel)) return direct_reduce(op, channel);
  chain_reduce(op, channel);
}

void all_to_all(const Op& op, Channel& channel) {
  exchange_with_all(channel, [&](int peer) {
    const size_t at = static_cast<size_t>(peer) * op.bytes();
    return Transfer::both(peer, op.send + at, op.recv + at, op.bytes());
  });
}

void gather(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return transfer_all({Transfer::to(op.peer, op.send, op.bytes())}, channel);
  }
  exchange_with_all(channel, [&](int peer) {
    char* part = op.recv + static_cast<size_t>(peer) * op.bytes();
    return peer == channel.rank() ? Transfer::both(peer, op.send, part, op.bytes())
                                  : Transfer::from(peer, part, op.bytes());
  });
}

void scatter(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return transfer_all({Transfer::from(op.peer, op.recv, op.bytes())}, channel);
  }
  exchange_with_all(channel, [&](int peer) {
    const char* part = op.send + static_cast<size_t>(peer) * op.bytes();
    return peer == channel.rank() ? Transfer::both(peer, part, op.recv, op.bytes())
                                  : Transfer::to(peer, part, op.bytes());
  });
}

using Run = void (*)(const Op&, Channel&);

Run run_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return all_reduce;
    case Kind::kAllGather:
      return all_gather;
    case Kind::kReduceScatter:
      return reduce_scatter;
    case Kind::kAllToAll:
      return all_to_all;
    case Kind::kBroadcast:
      return broadcast;
    case Kind::kReduce:
      return reduce;
    case Kind::kGather:
      return gather;
    case Kind::kScatter:
      return scatter;
    case Kind::kSend:
    case Kind::kRecv:
      break;  // no collective: start_point_to_point()
  }
  fail(ncclInternalError, "{} is no collective", name_of(kind));
}

// Runs a collective of one rank: a copy, or a product with PreMulSum's scalar.
void run_alone(const Op& op) {
  const Reduction reduction(op.op, op.dtype, 1);
  if (op.op.scaled) {
    reduction.prepare(op.recv, op.send, op.count);
  } else {
    copy(op.recv, op.send, op.bytes());
  }
}

}  // namespace

void copy(void* dst, const void* src, size_t bytes) {
  if (dst != src && bytes > 0) std::memmove(dst, src, bytes);
}

void run_collective(const Op& op, Channel& channel) {
  if (channel.size() == 1) return run_alone(op);
  run_of(op.kind)(op, channel);
}

namespace {

struct SelfMessages {
  std::vector<const Op*> sends, receives;
};

SelfMessages find_self_messages(const std::vector<Op>& ops, int rank) {
  SelfMessages found;
  for (const Op& op : ops) {
    if (!op.is_point_to_point() || op.peer != rank) continue;
    (op.kind == Kind::kSend ? found.sends : found.receives).push_back(&op);
  }
  return found;
}

}  // namespace

void check_self_messages(const std::vector<Op>& ops, int rank) {
  const auto [sends, receives] = find_self_messages(ops, rank);
  if (sends.size() != receives.size()) {
    fail(ncclInvalidUsage, "rank {} sends to itself {} times in this group and receives {} times",
         rank, sends.size(), receives.size());
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes() == receives[i]->bytes()) continue;
    fail(ncclInvalidUsage, "rank {} sends {} bytes to itself and receives {}", rank,
         sends[i]->bytes(), receives[i]->bytes());
  }
}

void start_point_to_point(const std::vector<Op>& ops, Channel& channel) {
  std::vector<Transfer> transfers;
  for (const Op& op : ops) {
    if (op.peer == channel.rank()) continue;
    transfers.push_back(op.kind == Kind::kSend ? Transfer::to(op.peer, op.send, op.bytes())
                                               : Transfer::from(op.peer, op.recv, op.bytes()));
  }
  const auto [sends, receives] = find_self_messages(ops, channel.rank());
  for (size_t i = 0; i < sends.size(); ++i) {
    transfers.push_back(
        Transfer::both(channel.rank(), sends[i]->send, receives[i]->recv, sends[i]->bytes()));
  }
  channel.traffic().start(transfers);
}

}  // namespace hostnccl
