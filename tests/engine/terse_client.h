// libterse's C interface, as these tests use it.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include "host_stream.h"
#include "reference.h"
#include "scheme_handle.h"
#include "terse/terse.h"

namespace terse::test {

inline ncclResult_t call_terse(const Call& c, const void* in, void* out,
                               const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  switch (c.collective) {
    case plan::Collective::kAllReduce:
      return terseAllReduce(in, out, c.count, c.datatype, c.op, scheme, comm, stream);
    case plan::Collective::kAllGather:
      return terseAllGather(in, out, c.count, c.datatype, scheme, comm, stream);
    case plan::Collective::kReduceScatter:
      return terseReduceScatter(in, out, c.count, c.datatype, c.op, scheme, comm, stream);
    case plan::Collective::kAllToAll:
      return terseAllToAll(in, out, c.count, c.datatype, scheme, comm, stream);
    case plan::Collective::kBroadcast:
      return terseBroadcast(in, out, c.count, c.datatype, c.root, scheme, comm, stream);
    case plan::Collective::kReduce:
      return terseReduce(in, out, c.count, c.datatype, c.op, c.root, scheme, comm, stream);
    case plan::Collective::kGather:
      return terseGather(in, out, c.count, c.datatype, c.root, scheme, comm, stream);
    case plan::Collective::kScatter:
      return terseScatter(in, out, c.count, c.datatype, c.root, scheme, comm, stream);
    case plan::Collective::kSend:
      return terseSend(in, c.count, c.datatype, c.root, scheme, comm, stream);
    case plan::Collective::kRecv:
      break;
  }
  return terseRecv(out, c.count, c.datatype, c.root, scheme, comm, stream);
}

}  // namespace terse::test
