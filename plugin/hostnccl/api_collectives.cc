// The C interface: collectives, point-to-point, operators.
#include <nccl_signatures.h>

#include <cstring>
#include <limits>

#include "api.h"
#include "check_call_config.h"
#include "op.h"

#define NCCL_COLLECTIVE(suffix, ...) \
  HOSTNCCL_EXPORT(suffix);           \
  HOSTNCCL_EXPORT(suffix##Config);
#define NCCL_MESSAGE(suffix, ...) HOSTNCCL_EXPORT(suffix);
#include <nccl_collectives.inc>
HOSTNCCL_EXPORT(Bcast);
HOSTNCCL_EXPORT(RedOpCreatePreMulSum);
HOSTNCCL_EXPORT(RedOpDestroy);

using namespace hostnccl;

namespace {

// Buffer of the caller's: the ranks that bring it, and whether it has a shard for every rank.
enum class Who { kNobody, kRoot, kAll };
struct Side {
  Who who;
  bool per_rank;
};
constexpr Side kNobody{Who::kNobody, false};
constexpr Side kAll{Who::kAll, false}, kAllShards{Who::kAll, true};
constexpr Side kRoot{Who::kRoot, false}, kRootShards{Who::kRoot, true};

// Rules of arguments, indexed by Kind.
struct Rules {
  Side send, recv;
  bool reduces;
};
constexpr bool kPlainReduces = false, kRootReduces = false, kSendReduces = false,
               kRecvReduces = false, kOpReduces = true, kOpRootReduces = true;
constexpr Rules kRules[] = {
#define NCCL_COLLECTIVE(suffix, form, send, recv, ...) {k##send, k##recv, k##form##Reduces},
#include <nccl_collectives.inc>
};

void check_buffer(const Side& side, const void* buffer, const char* name, const Op& op, int rank) {
  const bool needed = side.who == Who::kAll || (side.who == Who::kRoot && rank == op.peer);
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
  const bool per_rank = rules.send.per_rank || rules.recv.per_rank;
  const size_t share = op.element() * (per_rank ? static_cast<size_t>(comm.size()) : 1);
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
      // Skips an empty collective, as NCCL does: a rank may leave it out.
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

// ncclAllReduce and its like, and those with a configuration.
#define NCCL_COLLECTIVE(suffix, form, from, to, name, ...)                                  \
  ncclResult_t nccl##suffix(NCCL_PARAMETERS_##form, ncclComm_t comm, cudaStream_t stream) { \
    return submit(Kind::k##name, NCCL_ALL_ARGUMENTS_##form, comm, stream);                  \
  }
#include <nccl_collectives.inc>

#define NCCL_COLLECTIVE(suffix, form, from, to, name, ...)                                        \
  ncclResult_t nccl##suffix##Config(NCCL_PARAMETERS_##form, ncclComm_t comm, cudaStream_t stream, \
                                    const ncclCollConfig_t* config) {                             \
    return submit(config, Kind::k##name, NCCL_ALL_ARGUMENTS_##form, comm, stream);                \
  }
#define NCCL_MESSAGE(...)
#include <nccl_collectives.inc>

ncclResult_t ncclBcast(void* buff, size_t count, ncclDataType_t datatype, int root, ncclComm_t comm,
                       cudaStream_t stream) {
  return submit(Kind::kBroadcast, buff, buff, count, datatype, ncclSum, root, comm, stream);
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
