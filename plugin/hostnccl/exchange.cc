// Direct algorithms: every message goes straight to where it is needed, all at once.
#include <algorithm>
#include <vector>

#include "collectives.h"

namespace hostnccl {
namespace {

// Sums up, in the order of the ranks, `count` elements of each: mine from `own`, rank r's from
// `parts + r * bytes`. The same order everywhere makes the same bytes everywhere.
void CombineInOrder(const Reduction& reduction, const Channel& channel, char* dst, const char* own,
                    char* parts, size_t count, size_t bytes) {
  const auto part = [&](int rank) -> char* { return parts + static_cast<size_t>(rank) * bytes; };
  // In place, dst is own: a copy in my place among the parts keeps it from being overwritten.
  Copy(part(channel.rank()), own, bytes);
  reduction.Combine(dst, part(0), part(1), count);
  for (int rank = 2; rank < channel.size(); ++rank) {
    reduction.Combine(dst, dst, part(rank), count);
  }
  reduction.Finish(dst, count);
}

// The input as it enters the sum: itself, or prepared in `room`.
const char* Prepared(const Reduction& reduction, const char* input, char* room, size_t count) {
  if (!reduction.prepares()) return input;
  reduction.Prepare(room, input, count);
  return room;
}

// A message to every peer and one from it, whose sizes may differ.
template <class To, class From>
void SwapWithAll(Channel& channel, To to, From from) {
  std::vector<Transfer> transfers;
  for (int i = 1; i < channel.size(); ++i) {
    const int peer = (channel.rank() + i) % channel.size();
    transfers.push_back(to(peer));
    transfers.push_back(from(peer));
  }
  Exchange(transfers, channel);
}

}  // namespace

void Exchange(const std::vector<Transfer>& transfers, Channel& channel) {
  const Call& call = *channel.present();
  channel.traffic().Start(transfers);
  channel.WaitUntil([&] {
    const bool moved = channel.traffic().Advance();
    return call.awaited == 0 ? Step::kDone : moved ? Step::kMoved : Step::kIdle;
  });
}

void OneShotAllReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.Scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own =
      Prepared(reduction, op.send, parts + bytes * static_cast<size_t>(channel.size()), op.count);
  ExchangeWithAll(channel, [&](int peer) {
    char* part = parts + static_cast<size_t>(peer) * bytes;
    return peer == channel.rank() ? Transfer{.peer = peer} : Transfer::Both(peer, own, part, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, own, parts, op.count, bytes);
}

void DirectReduceScatter(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes(), all = bytes * static_cast<size_t>(channel.size());
  char* parts = channel.Scratch(2 * all);
  const char* input =
      Prepared(reduction, op.send, parts + all, op.count * static_cast<size_t>(channel.size()));
  ExchangeWithAll(channel, [&](int peer) {
    const size_t at = static_cast<size_t>(peer) * bytes;
    if (peer == channel.rank()) return Transfer{.peer = peer};
    return Transfer::Both(peer, input + at, parts + at, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, input + static_cast<size_t>(channel.rank()) * bytes,
                 parts, op.count, bytes);
}

void DirectAllGather(const Op& op, Channel& channel) {
  ExchangeWithAll(channel, [&](int peer) {
    return Transfer::Both(peer, op.send, op.recv + static_cast<size_t>(peer) * op.bytes(),
                          op.bytes());
  });
}

// Everybody reduces its share, then collects the others'. Shares differ by at most one element.
void TwoShotAllReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const auto ranks = static_cast<size_t>(channel.size());
  const auto begin = [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return op.count / ranks * r + std::min(r, op.count % ranks);
  };
  const auto at = [&](int rank) { return begin(rank) * op.element(); };
  const auto bytes = [&](int rank) { return at(rank + 1) - at(rank); };
  const int me = channel.rank();

  char* parts = channel.Scratch(op.bytes() + (ranks + 1) * (op.element() + bytes(0)));
  char* prepared = parts + ranks * bytes(0);
  const char* input = Prepared(reduction, op.send, prepared, op.count);
  SwapWithAll(
      channel, [&](int peer) { return Transfer::To(peer, input + at(peer), bytes(peer)); },
      [&](int peer) {
        return Transfer::From(peer, parts + static_cast<size_t>(peer) * bytes(me), bytes(me));
      });
  CombineInOrder(reduction, channel, op.recv + at(me), input + at(me), parts,
                 begin(me + 1) - begin(me), bytes(me));
  SwapWithAll(
      channel, [&](int peer) { return Transfer::To(peer, op.recv + at(me), bytes(me)); },
      [&](int peer) { return Transfer::From(peer, op.recv + at(peer), bytes(peer)); });
}

void DirectBroadcast(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return Exchange({Transfer::From(op.peer, op.recv, op.bytes())}, channel);
  }
  ExchangeWithAll(channel, [&](int peer) {
    return peer == op.peer ? Transfer::Both(peer, op.send, op.recv, op.bytes())
                           : Transfer::To(peer, op.send, op.bytes());
  });
}

void DirectReduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.Scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own =
      Prepared(reduction, op.send, parts + bytes * static_cast<size_t>(channel.size()), op.count);
  if (channel.rank() != op.peer) return Exchange({Transfer::To(op.peer, own, bytes)}, channel);
  ExchangeWithAll(channel, [&](int peer) {
    if (peer == op.peer) return Transfer{.peer = peer};
    return Transfer::From(peer, parts + static_cast<size_t>(peer) * bytes, bytes);
  });
  CombineInOrder(reduction, channel, op.recv, own, parts, op.count, bytes);
}

}  // namespace hostnccl
