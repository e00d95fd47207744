// One collective call, as the caller made it, but for the communicator that it is on.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "plan/collective.h"
#include "policy/datatype.h"
#include "policy/scheme.h"

namespace terse {

// Requests of a call's own configuration (ncclCollConfig_t), alike on all ranks.
struct CallConfig {
  uint64_t tag = 0;                      // for rules; 0: none
  std::shared_ptr<const Scheme> scheme;  // in place of the rules'; null: by the rules
  bool native = false;                   // asks for what NCCL alone can do
  bool exact = false;                    // asks for an uncompressed call
  bool must_compress = false;            // asks for an error if the call is not compressed
};

struct Request {
  plan::Collective collective;
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;  // NCCL's argument
  ncclDataType_t datatype = ncclFloat32;
  ncclRedOp_t op = ncclSum;  // if the collective reduces
  cudaStream_t stream = nullptr;
  int root = 0;  // or the peer of Send and Recv
  CallConfig config = {};
};

// Call without a configuration.
inline Request request_of(plan::Collective collective, const void* send, void* recv, size_t count,
                          ncclDataType_t datatype, ncclRedOp_t op, int root, cudaStream_t stream) {
  return {.collective = collective,
          .send = send,
          .recv = recv,
          .count = count,
          .datatype = datatype,
          .op = op,
          .stream = stream,
          .root = root};
}

// Returns true if the reduction can be compressed: a sum, an average, an operator of
// ncclRedOpCreatePreMulSum, or none.
bool compressible(const Request& request);

// Returns true if each rank's contribution is multiplied by a number of its own.
bool premultiplies(const Request& request);

// Returns true if a scheme that sends raw within a node leaves the call to NCCL: a neighbour would
// multiply what it receives by its own number.
bool is_native_within_nodes(const Request& request, const Scheme& scheme);

// Bytes of the whole message: nranks * count elements if there is a shard for every rank.
size_t message_bytes(const Request& request, int ranks);

// Returns true if memory can hold so many elements of a known type, and the count is not negative.
bool fits_memory(const Request& request);

// Throws Error(ncclInvalidArgument) that names the invalid argument, as NCCL checks them: unknown
// type or operation, more than memory can hold; and, on a rank of a communicator, a root that does
// not exist, or null buffers that this rank needs.
void validate(const Request& request);
void validate(const Request& request, int rank, int ranks);

}  // namespace terse
