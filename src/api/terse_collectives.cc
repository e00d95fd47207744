// The collectives, Send and Recv, and groups of them (terse.h).
#include "api/require.h"
#include "engine/call/pending_group.h"
#include "policy/settings.h"

using namespace terse;

namespace {

void compress(const Request& request, const terseScheme_t* scheme) {
  submit(request, scheme != nullptr ? &scheme->value : nullptr, settings());
}

}  // namespace

extern "C" {

terseResult_t terseAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             terseDataType_t datatype, terseRedOp_t op, const terseScheme_t* scheme,
                             ncclComm_t comm, cudaStream_t stream) {
  return answer("terseAllReduce", [&] {
    compress({plan::Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op, comm, stream},
             scheme);
  });
}

terseResult_t terseAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             terseDataType_t datatype, const terseScheme_t* scheme, ncclComm_t comm,
                             cudaStream_t stream) {
  return answer("terseAllGather", [&] {
    compress({plan::Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, comm,
              stream},
             scheme);
  });
}

terseResult_t terseReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                 terseDataType_t datatype, terseRedOp_t op,
                                 const terseScheme_t* scheme, ncclComm_t comm,
                                 cudaStream_t stream) {
  return answer("terseReduceScatter", [&] {
    compress({plan::Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, comm,
              stream},
             scheme);
  });
}

terseResult_t terseAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                            terseDataType_t datatype, const terseScheme_t* scheme, ncclComm_t comm,
                            cudaStream_t stream) {
  return answer("terseAllToAll", [&] {
    compress(
        {plan::Collective::kAllToAll, sendbuff, recvbuff, count, datatype, ncclSum, comm, stream},
        scheme);
  });
}

terseResult_t terseBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             terseDataType_t datatype, int root, const terseScheme_t* scheme,
                             ncclComm_t comm, cudaStream_t stream) {
  return answer("terseBroadcast", [&] {
    compress({plan::Collective::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseReduce(const void* sendbuff, void* recvbuff, size_t count,
                          terseDataType_t datatype, terseRedOp_t op, int root,
                          const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return answer("terseReduce", [&] {
    compress(
        {plan::Collective::kReduce, sendbuff, recvbuff, count, datatype, op, comm, stream, root},
        scheme);
  });
}

terseResult_t terseGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                          terseDataType_t datatype, int root, const terseScheme_t* scheme,
                          ncclComm_t comm, cudaStream_t stream) {
  return answer("terseGather", [&] {
    compress({plan::Collective::kGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                           terseDataType_t datatype, int root, const terseScheme_t* scheme,
                           ncclComm_t comm, cudaStream_t stream) {
  return answer("terseScatter", [&] {
    compress({plan::Collective::kScatter, sendbuff, recvbuff, recvcount, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseSend(const void* sendbuff, size_t count, terseDataType_t datatype, int peer,
                        const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return answer("terseSend", [&] {
    compress(
        {plan::Collective::kSend, sendbuff, nullptr, count, datatype, ncclSum, comm, stream, peer},
        scheme);
  });
}

terseResult_t terseRecv(void* recvbuff, size_t count, terseDataType_t datatype, int peer,
                        const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return answer("terseRecv", [&] {
    compress(
        {plan::Collective::kRecv, nullptr, recvbuff, count, datatype, ncclSum, comm, stream, peer},
        scheme);
  });
}

terseResult_t terseGroupStart(void) {
  return answer("terseGroupStart", [] { group_start(); });
}

terseResult_t terseGroupEnd(void) {
  return answer("terseGroupEnd", [] { group_end(); });
}

}  // extern "C"
