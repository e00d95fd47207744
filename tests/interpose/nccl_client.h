// NCCL's interface, as these tests use it.
#pragma once

#include <nccl.h>

#include "reference.h"

namespace terse::test {

inline ncclResult_t call_nccl(const Call& c, const void* in, void* out, ncclComm_t comm,
                              cudaStream_t stream) {
  switch (c.collective) {
    case plan::Collective::kAllReduce:
      return ncclAllReduce(in, out, c.count, c.datatype, c.op, comm, stream);
    case plan::Collective::kAllGather:
      return ncclAllGather(in, out, c.count, c.datatype, comm, stream);
    case plan::Collective::kReduceScatter:
      return ncclReduceScatter(in, out, c.count, c.datatype, c.op, comm, stream);
    case plan::Collective::kAllToAll:
      return ncclAlltoAll(in, out, c.count, c.datatype, comm, stream);
    case plan::Collective::kBroadcast:
      return ncclBroadcast(in, out, c.count, c.datatype, c.root, comm, stream);
    case plan::Collective::kReduce:
      return ncclReduce(in, out, c.count, c.datatype, c.op, c.root, comm, stream);
    case plan::Collective::kGather:
      return ncclGather(in, out, c.count, c.datatype, c.root, comm, stream);
    case plan::Collective::kScatter:
      return ncclScatter(in, out, c.count, c.datatype, c.root, comm, stream);
    case plan::Collective::kSend:
      return ncclSend(in, c.count, c.datatype, c.root, comm, stream);
    case plan::Collective::kRecv:
      break;
  }
  return ncclRecv(out, c.count, c.datatype, c.root, comm, stream);
}

}  // namespace terse::test
