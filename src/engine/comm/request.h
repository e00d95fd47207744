// One collective call, as the caller gave it.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plan/collective.h"
#include "policy/datatype.h"
#include "policy/scheme.h"

namespace terse {

// What the call's own configuration asks for (ncclCollConfig_t), alike on all ranks.
struct CallConfig {
  uint64_t tag = 0;                      // for rules; 0: none
  std::shared_ptr<const Scheme> scheme;  // in place of the rules'; null: theirs
  bool native = false;                   // what NCCL alone does
  bool exact = false;                    // that nothing is compressed
  bool must_compress = false;            // that it is an error where the call is not
};

struct Request {
  plan::Collective collective;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // NCCL's argument
  ncclDataType_t datatype = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // where the collective reduces
  ncclComm_t comm = nullptr;
  cudaStream_t stream = nullptr;
  int root = 0;  // or the peer of Send and Recv
  CallConfig config = {};
};

// Whether the reduction is one that can be compressed: a sum, an average, or an operator of
// ncclRedOpCreatePreMulSum. Always, for calls that do not reduce.
bool compressible(const Request& request);

// Whether each rank's contribution is multiplied by a number of its own.
bool premultiplies(const Request& request);

// Whether a scheme that sends raw within a node leaves the call to NCCL: what goes to a neighbour
// would be multiplied there, by the neighbour's number.
bool is_native_within_nodes(const Request& request, const Scheme& scheme);

// Bytes of the whole message: nranks * count elements where there is a shard for every rank.
size_t message_bytes(const Request& request, int ranks);

// Whether any memory holds so many elements of a known type: none holds a negative count.
bool fits_memory(const Request& request);

// Throws Error(ncclInvalidArgument) naming the argument that cannot be right, as NCCL checks its
// arguments: null communicator, unknown type or operation, more than memory can hold; and, on a
// rank of a communicator, a root that is not there, null buffers that this rank needs.
void validate(const Request& request);
void validate(const Request& request, int rank, int ranks);

}  // namespace terse
