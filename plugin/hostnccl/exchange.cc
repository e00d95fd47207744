// Direct algorithms: every message goes straight to where it is needed, all at once.
#include <algorithm>
#include <vector>

#include "host_collectives.h"

namespace hostnccl {
namespace {

// Sums up, in the order of the ranks, `count` elements of each: mine from `own`, rank r's from
// `parts + r * bytes`. The same order everywhere makes the same bytes everywhere.
void combine_in_order(const Reduction& reduction, const Channel& channel, char* dst,
                      const char* own, char* parts, size_t count, size_t bytes) {
  const auto part = [&](int rank) -> char* { return parts + static_cast<size_t>(rank) * bytes; };
  // Copies own data to its place among the parts, so that an operation in place, with dst == own,
  // does not overwrite it.
  copy(part(channel.rank()), own, bytes);
  reduction.combine(dst, part(0), part(1), count);
  for (int rank = 2; rank < channel.size(); ++rank) {
    reduction.combine(dst, dst, part(rank), count);
  }
  reduction.finish(dst, count);
}

// The input as it enters the sum: itself, or prepared in `room`.
const char* prepare_input(const Reduction& reduction, const char* input, char* room, size_t count) {
  if (!reduction.prepares()) return input;
  reduction.prepare(room, input, count);
  return room;
}

// A message to every peer and one from it, whose sizes may differ.
template <class To, class From>
void swap_with_all(Channel& channel, To to, From from) {
  std::vector<Transfer> transfers;
  for (int i = 1; i < channel.size(); ++i) {
    const int peer = (channel.rank() + i) % channel.size();
    transfers.push_back(to(peer));
    transfers.push_back(from(peer));
  }
  transfer_all(transfers, channel);
}

}  // namespace

void transfer_all(const std::vector<Transfer>& transfers, Channel& channel) {
  const Call& call = *channel.present();
  channel.traffic().start(transfers);
  channel.wait_until([&] {
    const bool moved = channel.traffic().advance();
    return call.awaited == 0 ? Step::kDone : moved ? Step::kMoved : Step::kIdle;
  });
}

void one_shot_all_reduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own = prepare_input(reduction, op.send,
                                  parts + bytes * static_cast<size_t>(channel.size()), op.count);
  exchange_with_all(channel, [&](int peer) {
    char* part = parts + static_cast<size_t>(peer) * bytes;
    return peer == channel.rank() ? Transfer{.peer = peer} : Transfer::both(peer, own, part, bytes);
  });
  combine_in_order(reduction, channel, op.recv, own, parts, op.count, bytes);
}

void direct_reduce_scatter(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes(), all = bytes * static_cast<size_t>(channel.size());
  char* parts = channel.scratch(2 * all);
  const char* input = prepare_input(reduction, op.send, parts + all,
                                    op.count * static_cast<size_t>(channel.size()));
  exchange_with_all(channel, [&](int peer) {
    const size_t at = static_cast<size_t>(peer) * bytes;
    if (peer == channel.rank()) return Transfer{.peer = peer};
    return Transfer::both(peer, input + at, parts + at, bytes);
  });
  combine_in_order(reduction, channel, op.recv, input + static_cast<size_t>(channel.rank()) * bytes,
                   parts, op.count, bytes);
}

void direct_all_gather(const Op& op, Channel& channel) {
  exchange_with_all(channel, [&](int peer) {
    return Transfer::both(peer, op.send, op.recv + static_cast<size_t>(peer) * op.bytes(),
                          op.bytes());
  });
}

// Everybody reduces its share, then collects the others'. Shares differ by at most one element.
void two_shot_all_reduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const auto ranks = static_cast<size_t>(channel.size());
  const auto begin = [&](int rank) {
    const auto r = static_cast<size_t>(rank);
    return op.count / ranks * r + std::min(r, op.count % ranks);
  };
  const auto at = [&](int rank) { return begin(rank) * op.element(); };
  const auto bytes = [&](int rank) { return at(rank + 1) - at(rank); };
  const int me = channel.rank();

  char* parts = channel.scratch(op.bytes() + (ranks + 1) * (op.element() + bytes(0)));
  char* prepared = parts + ranks * bytes(0);
  const char* input = prepare_input(reduction, op.send, prepared, op.count);
  swap_with_all(
      channel, [&](int peer) { return Transfer::to(peer, input + at(peer), bytes(peer)); },
      [&](int peer) {
        return Transfer::from(peer, parts + static_cast<size_t>(peer) * bytes(me), bytes(me));
      });
  combine_in_order(reduction, channel, op.recv + at(me), input + at(me), parts,
                   begin(me + 1) - begin(me), bytes(me));
  swap_with_all(
      channel, [&](int peer) { return Transfer::to(peer, op.recv + at(me), bytes(me)); },
      [&](int peer) { return Transfer::from(peer, op.recv + at(peer), bytes(peer)); });
}

void direct_broadcast(const Op& op, Channel& channel) {
  if (channel.rank() != op.peer) {
    return transfer_all({Transfer::from(op.peer, op.recv, op.bytes())}, channel);
  }
  exchange_with_all(channel, [&](int peer) {
    return peer == op.peer ? Transfer::both(peer, op.send, op.recv, op.bytes())
                           : Transfer::to(peer, op.send, op.bytes());
  });
}

void direct_reduce(const Op& op, Channel& channel) {
  const Reduction reduction(op.op, op.dtype, channel.size());
  const size_t bytes = op.bytes();
  char* parts = channel.scratch(bytes * static_cast<size_t>(channel.size() + 1));
  const char* own = prepare_input(reduction, op.send,
                                  parts + bytes * static_cast<size_t>(channel.size()), op.count);
  if (channel.rank() != op.peer) return transfer_all({Transfer::to(op.peer, own, bytes)}, channel);
  exchange_with_all(channel, [&](int peer) {
    if (peer == op.peer) return Transfer{.peer = peer};
    return Transfer::from(peer, parts + static_cast<size_t>(peer) * bytes, bytes);
  });
  combine_in_order(reduction, channel, op.recv, own, parts, op.count, bytes);
}

}  // namespace hostnccl
