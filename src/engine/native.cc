#include "engine/native.h"

namespace terse {

ncclResult_t call_native(const NcclTable& nccl, const Request& r) {
  switch (r.collective) {
    case plan::Collective::kAllReduce:
      return nccl.AllReduce(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
    case plan::Collective::kAllGather:
      return nccl.AllGather(r.send, r.recv, r.count, r.datatype, r.comm, r.stream);
    case plan::Collective::kReduceScatter:
      break;
  }
  return nccl.ReduceScatter(r.send, r.recv, r.count, r.datatype, r.op, r.comm, r.stream);
}

}  // namespace terse
