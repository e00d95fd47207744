// The collectives, run on the communicator's thread: each returns when this rank's part is done.
//
//   collectives.cc   what each collective is, and when which algorithm is taken
//   exchange.cc      direct: everybody to everybody at once (small messages)
//   ring.cc          pipelined rings and chains (large messages)
//
// All ranks end with identical bytes: every element is reduced on one rank, or by all of them in
// the order of the ranks.
#ifndef HOSTNCCL_COLLECTIVES_H_
#define HOSTNCCL_COLLECTIVES_H_

#include <vector>

#include "channel.h"
#include "op.h"
#include "traffic.h"

namespace hostnccl {

void RunCollective(const Op& op, Channel& channel);

// All at once, for the channel's present call, which knows when they are through. Messages of a
// rank to itself pair up in order: CheckSelfMessages has seen to it.
void StartPointToPoint(const std::vector<Op>& ops, Channel& channel);

void CheckSelfMessages(const std::vector<Op>& ops, int rank);  // throws ncclInvalidUsage

// ---- exchange.cc ----

void Exchange(const std::vector<Transfer>& transfers, Channel& channel);

// Calls `with(peer)` for every peer, itself last and the next rank first, so that not everybody
// calls on rank 0 at once; then exchanges.
template <class TransferWith>
void ExchangeWithAll(Channel& channel, TransferWith with) {
  std::vector<Transfer> transfers;
  for (int i = 1; i <= channel.size(); ++i) {
    transfers.push_back(with((channel.rank() + i) % channel.size()));
  }
  Exchange(transfers, channel);
}

// dst may be src.
void Copy(void* dst, const void* src, size_t bytes);

void OneShotAllReduce(const Op& op, Channel& channel);
void TwoShotAllReduce(const Op& op, Channel& channel);
void DirectReduceScatter(const Op& op, Channel& channel);
void DirectAllGather(const Op& op, Channel& channel);
void DirectBroadcast(const Op& op, Channel& channel);
void DirectReduce(const Op& op, Channel& channel);

// ---- ring.cc ----

void RingAllReduce(const Op& op, Channel& channel);
void RingReduceScatter(const Op& op, Channel& channel);
void RingAllGather(const Op& op, Channel& channel);
void ChainBroadcast(const Op& op, Channel& channel);
void ChainReduce(const Op& op, Channel& channel);

}  // namespace hostnccl

#endif  // HOSTNCCL_COLLECTIVES_H_
