// The C interface: collectives, point-to-point, operators.
#include <cstring>
#include <limits>

#include "api.h"
#include "check_call_config.h"
#include "op.h"

HOSTNCCL_EXPORT(AllReduce);
HOSTNCCL_EXPORT(Reduce);
HOSTNCCL_EXPORT(Broadcast);
HOSTNCCL_EXPORT(Bcast);
HOSTNCCL_EXPORT(ReduceScatter);
HOSTNCCL_EXPORT(AllGather);
HOSTNCCL_EXPORT(AlltoAll);
HOSTNCCL_EXPORT(Gather);
HOSTNCCL_EXPORT(Scatter);
HOSTNCCL_EXPORT(Send);
HOSTNCCL_EXPORT(Recv);
HOSTNCCL_EXPORT(AllReduceConfig);
HOSTNCCL_EXPORT(ReduceConfig);
HOSTNCCL_EXPORT(BroadcastConfig);
HOSTNCCL_EXPORT(ReduceScatterConfig);
HOSTNCCL_EXPORT(AllGatherConfig);
HOSTNCCL_EXPORT(AlltoAllConfig);
HOSTNCCL_EXPORT(GatherConfig);
HOSTNCCL_EXPORT(ScatterConfig);
HOSTNCCL_EXPORT(RedOpCreatePreMulSum);
HOSTNCCL_EXPORT(RedOpDestroy);

using namespace hostnccl;

namespace {

// Which ranks must bring a buffer.
enum class Needs { kNobody, kAll, kRoot };

struct Rules {
  Needs send;
  Needs recv;
  bool reduces;
  bool per_rank;  // a buffer holds count elements for every rank
};

constexpr Rules kRules[] = {
    {Needs::kAll, Needs::kAll, true, false},      // AllReduce
    {Needs::kAll, Needs::kRoot, true, false},     // Reduce
    {Needs::kRoot, Needs::kAll, false, false},    // Broadcast
    {Needs::kAll, Needs::kAll, true, true},       // ReduceScatter
    {Needs::kAll, Needs::kAll, false, true},      // AllGather
    {Needs::kAll, Needs::kAll, false, true},      // AlltoAll
    {Needs::kAll, Needs::kRoot, false, true},     // Gather
    {Needs::kRoot, Needs::kAll, false, true},     // Scatter
    {Needs::kAll, Needs::kNobody, false, false},  // Send
    {Needs::kNobody, Needs::kAll, false, false},  // Recv
};
static_assert(std::size(kRules) == kKinds);

void check_buffer(Needs needs, const void* buffer, const char* name, const Op& op, int rank) {
  const bool needed = needs == Needs::kAll || (needs == Needs::kRoot && rank == op.peer);
  if (needed && op.count > 0) require_pointer(buffer, name);
}

void check(const Op& op, const Comm& comm) {
  const Rules& rules = kRules[static_cast<int>(op.kind)];
  if (size_of(op.dtype) == 0) {
    fail(ncclInvalidArgument, "data type {} does not exist", static_cast<int>(op.dtype));
  }
  if (op.peer < 0 || op.peer >= comm.size()) {
    fail(ncclInvalidArgument, "{} {} is not a rank of {}", op.is_point_to_point() ? "peer" : "root",
         op.peer, comm.size());
  }
  const size_t share = op.element() * (rules.per_rank ? static_cast<size_t>(comm.size()) : 1);
  if (op.count > std::numeric_limits<std::ptrdiff_t>::max() / share) {
    fail(ncclInvalidArgument, "count {} is beyond any memory", op.count);
  }
  check_buffer(rules.send, op.send, "sendbuff", op, comm.rank());
  check_buffer(rules.recv, op.recv, "recvbuff", op, comm.rank());
}

ncclResult_t submit(Kind kind, const void* send, void* recv, size_t count, ncclDataType_t dtype,
                    ncclRedOp_t redop, int peer, ncclComm_t handle, cudaStream_t stream) {
  return guard_in_group(name_of(kind), [&] {
    const CommPtr comm = find_comm(handle);
    comm->check_usable();
    try {
      Op op{kind, static_cast<const char*>(send), static_cast<char*>(recv), count, dtype, {}, peer};
      check(op, *comm);
      if (kRules[static_cast<int>(kind)].reduces) op.op = comm->resolve_operator(redop, dtype);
      // As NCCL has it, an empty collective is nothing: a rank may leave it out.
      if (count == 0 && !op.is_point_to_point()) return ncclSuccess;
      return Group::current().add(comm, std::move(op), find_stream(stream));
    } catch (const Failure& failure) {
      if (failure.code() != ncclInvalidArgument) throw;
      throw Failure(failure.code(), fmt::format("rank {}: {}", comm->rank(), failure.text()));
    }
  });
}

// A group goes on without a call whose configuration is refused, as in NCCL.
template <class... Args>
ncclResult_t submit(const ncclCollConfig_t* config, Kind kind, Args... args) {
  const std::string function = std::string(name_of(kind)) + "Config";
  const ncclResult_t result = guard(function.c_str(), [&] { check_call_config(config); });
  return result == ncclSuccess ? submit(kind, args...) : result;
}

}  // namespace

ncclResult_t ncclAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
}

ncclResult_t ncclReduce(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

ncclResult_t ncclBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                           ncclDataType_t datatype, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  return submit(Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
}

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return submit(Kind::kBroadcast, buff, buff, count, datatype, ncclSum, root, comm, stream);
}

ncclResult_t ncclReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                               ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit(Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm, stream);
}

ncclResult_t ncclAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                           ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm,
                stream);
}

ncclResult_t ncclAlltoAll(const void* sendbuff, void* recvbuff, size_t count,
                          ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, 0, comm, stream);
}

ncclResult_t ncclGather(const void* sendbuff, void* recvbuff, size_t count, ncclDataType_t datatype,
                        int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
}

ncclResult_t ncclScatter(const void* sendbuff, void* recvbuff, size_t count,
                         ncclDataType_t datatype, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kScatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm, stream);
}

ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kAllReduce, sendbuff, recvbuff, count, datatype, op, 0, comm, stream);
}

ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kReduce, sendbuff, recvbuff, count, datatype, op, root, comm, stream);
}

ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, root, comm,
                stream);
}

ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, 0, comm,
                stream);
}

ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config) {
  return submit(config, Kind::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, 0, comm,
                stream);
}

ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config) {
  return submit(config, Kind::kAlltoAll, sendbuff, recvbuff, count, datatype, ncclSum, 0, comm,
                stream);
}

ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kGather, sendbuff, recvbuff, count, datatype, ncclSum, root, comm,
                stream);
}

ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config) {
  return submit(config, Kind::kScatter, sendbuff, recvbuff, count, datatype, ncclSum, root, comm,
                stream);
}

ncclResult_t ncclSend(const void* sendbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kSend, sendbuff, nullptr, count, datatype, ncclSum, peer, comm, stream);
}

ncclResult_t ncclRecv(void* recvbuff, size_t count, ncclDataType_t datatype, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(Kind::kReceive, nullptr, recvbuff, count, datatype, ncclSum, peer, comm, stream);
}

ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* op, void* scalar, ncclDataType_t datatype,
                                      ncclScalarResidence_t residence, ncclComm_t comm) {
  return guard("ncclRedOpCreatePreMulSum", [&] {
    require_pointer(op, "op");
    require_pointer(scalar, "scalar");
    const size_t size = size_of(datatype);
    require(size != 0, ncclInvalidArgument, "the data type does not exist");
    Operator created{.kind = ncclSum, .scaled = true};
    if (residence == ncclScalarHostImmediate) {
      std::memcpy(created.scalar.data(), scalar, size);
    } else {
      require(residence == ncclScalarDevice, ncclInvalidArgument, "no such residence");
      created.device_scalar = scalar;
    }
    *op = find_comm(comm)->add_operator(created, datatype);
  });
}

ncclResult_t ncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm) {
  return guard("ncclRedOpDestroy", [&] {
    require(op >= ncclNumOps, ncclInvalidArgument, "a built-in operator cannot be destroyed");
    find_comm(comm)->remove_operator(op);
  });
}
