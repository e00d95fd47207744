#include "engine/run/call_native.h"

#include <iterator>

#include "base/error.h"

namespace terse {
namespace {

// Call under way, with NCCL's functions and its communicator.
struct Call {
  const NcclTable& nccl;
  const Communicator& c;
  const Request& r;

  ncclResult_t send(const void* from, int peer) const {
    return nccl.Send(from, r.count, r.datatype, peer, r.comm, r.stream);
  }
  ncclResult_t receive(void* to, int peer) const {
    return nccl.Recv(to, r.count, r.datatype, peer, r.comm, r.stream);
  }
  const void* send_shard(int p) const { return static_cast<const char*>(r.send) + offset(p); }
  void* recv_shard(int p) const { return static_cast<char*>(r.recv) + offset(p); }
  bool is_root() const { return c.rank == r.root; }

 private:
  size_t offset(int p) const { return p * r.count * datatype_size(r.datatype); }
};

ncclResult_t all_reduce(const Call& call) {
  const Request& r = call.r;
  return call.nccl.AllReduce(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
}

ncclResult_t all_gather(const Call& call) {
  const Request& r = call.r;
  return call.nccl.AllGather(r.send, r.recv, r.count, r.datatype, r.comm, r.stream);
}

ncclResult_t reduce_scatter(const Call& call) {
  const Request& r = call.r;
  return call.nccl.ReduceScatter(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
}

ncclResult_t all_to_all(const Call& call) {
  const Request& r = call.r;
  if (call.nccl.AlltoAll != nullptr)
    return call.nccl.AlltoAll(r.send, r.recv, r.count, r.datatype, r.comm, r.stream);
  ncclResult_t result = ncclSuccess;
  for (int p = 0; p < call.c.ranks && result == ncclSuccess; ++p) {
    result = call.send(call.send_shard(p), p);
    if (result == ncclSuccess) result = call.receive(call.recv_shard(p), p);
  }
  return result;
}

ncclResult_t broadcast(const Call& call) {
  const Request& r = call.r;
  if (call.nccl.Broadcast == nullptr) fail(ncclInvalidUsage, "this NCCL has no ncclBroadcast");
  return call.nccl.Broadcast(r.send, r.recv, r.count, r.datatype, r.root, r.comm, r.stream);
}

ncclResult_t reduce(const Call& call) {
  const Request& r = call.r;
  if (call.nccl.Reduce == nullptr) fail(ncclInvalidUsage, "this NCCL has no ncclReduce");
  return call.nccl.Reduce(r.send, r.recv, r.count, r.datatype, r.op, r.root, r.comm, r.stream);
}

ncclResult_t gather(const Call& call) {
  const Request& r = call.r;
  if (call.nccl.Gather != nullptr)
    return call.nccl.Gather(r.send, r.recv, r.count, r.datatype, r.root, r.comm, r.stream);
  ncclResult_t result = call.send(r.send, r.root);
  for (int p = 0; call.is_root() && p < call.c.ranks && result == ncclSuccess; ++p)
    result = call.receive(call.recv_shard(p), p);
  return result;
}

ncclResult_t scatter(const Call& call) {
  const Request& r = call.r;
  if (call.nccl.Scatter != nullptr)
    return call.nccl.Scatter(r.send, r.recv, r.count, r.datatype, r.root, r.comm, r.stream);
  ncclResult_t result = call.receive(r.recv, r.root);
  for (int p = 0; call.is_root() && p < call.c.ranks && result == ncclSuccess; ++p)
    result = call.send(call.send_shard(p), p);
  return result;
}

ncclResult_t send(const Call& call) { return call.send(call.r.send, call.r.root); }

ncclResult_t receive(const Call& call) { return call.receive(call.r.recv, call.r.root); }

// By plan::Collective.
constexpr ncclResult_t (*kCalls[])(const Call&) = {
    all_reduce, all_gather, reduce_scatter, all_to_all, broadcast,
    reduce,     gather,     scatter,        send,       receive};
static_assert(std::size(kCalls) == plan::kCollectives);

}  // namespace

ncclResult_t call_native(const Communicator& c, const Request& request) {
  const Call call{c.library.nccl, c, request};
  return kCalls[static_cast<size_t>(request.collective)](call);
}

}  // namespace terse
