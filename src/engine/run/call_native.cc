#include "engine/run/call_native.h"

#include <nccl_signatures.h>

#include "base/error.h"

namespace terse {
namespace {

// Call under way, with NCCL's functions and its communicator.
struct Call {
  const NcclTable& nccl;
  const Communicator& c;
  const Request& r;

  ncclResult_t send(const void* from, int peer) const {
    return nccl.Send(from, r.count, r.datatype, peer, c.comm, r.stream);
  }
  ncclResult_t receive(void* to, int peer) const {
    return nccl.Recv(to, r.count, r.datatype, peer, c.comm, r.stream);
  }
  const void* send_shard(int p) const { return static_cast<const char*>(r.send) + offset(p); }
  void* recv_shard(int p) const { return static_cast<char*>(r.recv) + offset(p); }
  bool is_root() const { return c.rank == r.root; }

 private:
  size_t offset(int p) const { return p * r.count * datatype_size(r.datatype); }
};

ncclResult_t all_to_all_by_messages(const Call& call) {
  ncclResult_t result = ncclSuccess;
  for (int p = 0; p < call.c.ranks && result == ncclSuccess; ++p) {
    result = call.send(call.send_shard(p), p);
    if (result == ncclSuccess) result = call.receive(call.recv_shard(p), p);
  }
  return result;
}

ncclResult_t gather_by_messages(const Call& call) {
  ncclResult_t result = call.send(call.r.send, call.r.root);
  for (int p = 0; call.is_root() && p < call.c.ranks && result == ncclSuccess; ++p)
    result = call.receive(call.recv_shard(p), p);
  return result;
}

ncclResult_t scatter_by_messages(const Call& call) {
  ncclResult_t result = call.receive(call.r.recv, call.r.root);
  for (int p = 0; call.is_root() && p < call.c.ranks && result == ncclSuccess; ++p)
    result = call.send(call.send_shard(p), p);
  return result;
}

// Does what a function that this NCCL lacks would do; of collectives that came with NCCL 2.28.
ncclResult_t call_lacking(const Call& call, const char* function) {
  switch (call.r.collective) {
    case plan::Collective::kAllToAll:
      return all_to_all_by_messages(call);
    case plan::Collective::kGather:
      return gather_by_messages(call);
    case plan::Collective::kScatter:
      return scatter_by_messages(call);
    default:
      fail(ncclInvalidUsage, "this NCCL has no {}", function);
  }
}

// Indexed by plan::Collective.
constexpr ncclResult_t (*kCalls[])(const Call&) = {
#define NCCL_COLLECTIVE(suffix, form, ...)                                                    \
  [](const Call& call) {                                                                      \
    const auto& [collective, send, recv, count, datatype, op, stream, root, config] = call.r; \
    const ncclComm_t comm = call.c.comm;                                                      \
    const auto function = call.nccl.suffix;                                                   \
    return function != nullptr ? function(NCCL_ARGUMENTS_##form, comm, stream)                \
                               : call_lacking(call, "nccl" #suffix);                          \
  },
#include <nccl_collectives.inc>
};

}  // namespace

ncclResult_t call_native(const Communicator& c, const Request& request) {
  const Call call{c.library.nccl, c, request};
  return kCalls[static_cast<size_t>(request.collective)](call);
}

}  // namespace terse
