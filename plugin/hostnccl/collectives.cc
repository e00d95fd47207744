#include "collectives.h"

#include <cstring>
#include <iterator>

namespace hostnccl {
namespace {

// Up to here a rank sends its whole vector to everybody: one trip, more bytes.
constexpr size_t kOneShotBytes = size_t{32} << 10;
// Up to here parts go straight to where they are reduced or needed: nothing to pipeline yet.
constexpr size_t kDirectBytes = size_t{512} << 10;

size_t Others(const Channel& channel) { return static_cast<size_t>(channel.size()) - 1; }

void AllReduce(const Op& op, Channel& channel) {
  if (op.bytes() <= kOneShotBytes / Others(channel)) return OneShotAllReduce(op, channel);
  if (op.bytes() <= kDirectBytes) return TwoShotAllReduce(op, channel);
  RingAllReduce(op, channel);
}

void ReduceScatter(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / Others(channel)) return DirectReduceScatter(op, channel);
  RingReduceScatter(op, channel);
}

void AllGather(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / Others(channel)) return DirectAllGather(op, channel);
  RingAllGather(op, channel);
}

void Broadcast(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / Others(channel)) return DirectBroadcast(op, channel);
  ChainBroadcast(op, channel);
}

void Reduce(const Op& op, Channel& channel) {
  if (op.bytes() <= kDirectBytes / Others(channel)) return DirectReduce(op, channel);
  ChainReduce(op, channel);
}

void AlltoAll(const Op& op, Channel& channel) {
  ExchangeWithAll(channel, [&](int peer) {
    const size_t at = static_cast<size_t>(peer) * op.bytes();
    return Transfer::Both(peer, op.send + at, op.recv + at, op.bytes());
  });
}

void Gather(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return Exchange({Transfer::To(op.peer, op.send, op.bytes())}, channel);
  }
  ExchangeWithAll(channel, [&](int peer) {
    char* part = op.recv + static_cast<size_t>(peer) * op.bytes();
    return peer == channel.rank() ? Transfer::Both(peer, op.send, part, op.bytes())
                                  : Transfer::From(peer, part, op.bytes());
  });
}

void Scatter(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return Exchange({Transfer::From(op.peer, op.recv, op.bytes())}, channel);
  }
  ExchangeWithAll(channel, [&](int peer) {
    const char* part = op.send + static_cast<size_t>(peer) * op.bytes();
    return peer == channel.rank() ? Transfer::Both(peer, part, op.recv, op.bytes())
                                  : Transfer::To(peer, part, op.bytes());
  });
}

using Run = void (*)(const Op&, Channel&);
constexpr Run kRun[] = {&AllReduce, &Reduce,   &Broadcast, &ReduceScatter,
                        &AllGather, &AlltoAll, &Gather,    &Scatter};  // in the order of Kind
static_assert(std::size(kRun) == static_cast<size_t>(Kind::kSend));

// With one rank every collective is a copy, or a product with PreMulSum's scalar.
void RunAlone(const Op& op) {
  const Reduction reduction(op.op, op.dtype, 1);
  if (op.op.scaled) {
    reduction.Prepare(op.recv, op.send, op.count);
  } else {
    Copy(op.recv, op.send, op.bytes());
  }
}

}  // namespace

void Copy(void* dst, const void* src, size_t bytes) {
  if (dst != src && bytes > 0) std::memmove(dst, src, bytes);
}

void RunCollective(const Op& op, Channel& channel) {
  if (op.count == 0) return;
  if (channel.size() == 1) return RunAlone(op);
  kRun[static_cast<int>(op.kind)](op, channel);
}

namespace {

struct SelfMessages {
  std::vector<const Op*> sends, receives;
};

SelfMessages FindSelfMessages(const std::vector<Op>& ops, int rank) {
  SelfMessages found;
  for (const Op& op : ops) {
    if (!op.is_point_to_point() || op.peer != rank) continue;
    (op.kind == Kind::kSend ? found.sends : found.receives).push_back(&op);
  }
  return found;
}

}  // namespace

void CheckSelfMessages(const std::vector<Op>& ops, int rank) {
  const auto [sends, receives] = FindSelfMessages(ops, rank);
  if (sends.size() != receives.size()) {
    Fail(ncclInvalidUsage, "rank {} sends to itself {} times in this group and receives {} times",
         rank, sends.size(), receives.size());
  }
  for (size_t i = 0; i < sends.size(); ++i) {
    if (sends[i]->bytes() == receives[i]->bytes()) continue;
    Fail(ncclInvalidUsage, "rank {} sends {} bytes to itself and receives {}", rank,
         sends[i]->bytes(), receives[i]->bytes());
  }
}

void StartPointToPoint(const std::vector<Op>& ops, Channel& channel) {
  std::vector<Transfer> transfers;
  for (const Op& op : ops) {
    if (op.peer == channel.rank()) continue;
    transfers.push_back(op.kind == Kind::kSend ? Transfer::To(op.peer, op.send, op.bytes())
                                               : Transfer::From(op.peer, op.recv, op.bytes()));
  }
  const auto [sends, receives] = FindSelfMessages(ops, channel.rank());
  for (size_t i = 0; i < sends.size(); ++i) {
    transfers.push_back(
        Transfer::Both(channel.rank(), sends[i]->send, receives[i]->recv, sends[i]->bytes()));
  }
  channel.traffic().Start(transfers);
}

}  // namespace hostnccl
