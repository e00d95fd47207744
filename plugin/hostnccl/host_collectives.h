// The collectives, run on the communicator's thread: each returns when this rank's part is done.
//
//   collectives.cc   what each collective is, and when which algorithm is taken
//   exchange.cc      direct: everybody to everybody at once (small messages)
//   ring.cc          pipelined rings and chains (large messages)
//
// All ranks end with identical bytes: every element is reduced on one rank, or by all of them in
// the order of the ranks.
#pragma once

#include <vector>

#include "channel.h"
#include "op.h"
#include "traffic.h"

namespace hostnccl {

void run_collective(const Op& op, Channel& channel);  // of one element at least

// All at once, for the channel's present call, which knows when they are through. Messages of a
// rank to itself pair up in order: check_self_messages has seen to it.
void start_point_to_point(const std::vector<Op>& ops, Channel& channel);

void check_self_messages(const std::vector<Op>& ops, int rank);  // throws ncclInvalidUsage

// ---- exchange.cc ----

void transfer_all(const std::vector<Transfer>& transfers, Channel& channel);

// Calls `with(peer)` for every peer, itself last and the next rank first, so that not everybody
// calls on rank 0 at once; then exchanges.
template <class TransferWith>
void exchange_with_all(Channel& channel, TransferWith with) {
  std::vector<Transfer> transfers;
  for (int i = 1; i <= channel.size(); ++i) {
    transfers.push_back(with((channel.rank() + i) % channel.size()));
  }
  transfer_all(transfers, channel);
}

// dst may be src.
void copy(void* dst, const void* src, size_t bytes);

void one_shot_all_reduce(const Op& op, Channel& channel);
void two_shot_all_reduce(const Op& op, Channel& channel);
void direct_reduce_scatter(const Op& op, Channel& channel);
void direct_all_gather(const Op& op, Channel& channel);
void direct_broadcast(const Op& op, Channel& channel);
void direct_reduce(const Op& op, Channel& channel);

// ---- ring.cc ----

void ring_all_reduce(const Op& op, Channel& channel);
void ring_reduce_scatter(const Op& op, Channel& channel);
void ring_all_gather(const Op& op, Channel& channel);
void chain_broadcast(const Op& op, Channel& channel);
void chain_reduce(const Op& op, Channel& channel);

}  // namespace hostnccl
