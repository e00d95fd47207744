// One call of one rank, and NCCL's and libterse's functions in one form.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "origin.h"
#include "shape.h"
#include "terse_api.h"

namespace terse::perf {

struct Call {
  const char* send;
  char* receive;
  const Shape& shape;
  Seat seat;
  std::size_t element_bytes;
  ncclDataType_t type;
  ncclRedOp_t op;
  ncclComm_t comm;
  cudaStream_t stream;
  int step = 0;  // of collectives that have several

  std::size_t count() const { return shape.parameter; }
};

using NativeCall = ncclResult_t (*)(const Call& call);
ncclResult_t native_all_reduce(const Call& call);
ncclResult_t native_all_gather(const Call& call);
ncclResult_t native_reduce_scatter(const Call& call);
ncclResult_t native_broadcast(const Call& call);
ncclResult_t native_reduce(const Call& call);
ncclResult_t native_all_to_all(const Call& call);
ncclResult_t native_gather(const Call& call);
ncclResult_t native_scatter(const Call& call);

// Whether the NCCL in use is older than these functions (2.28).
bool lacks_all_to_all();
bool lacks_gather();
bool lacks_scatter();

using QuantizedCall = ncclResult_t (*)(const TerseApi& api, const terseScheme_t* scheme,
                                       const Call& call);
ncclResult_t quantized_all_reduce(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_all_gather(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_reduce_scatter(const TerseApi& api, const terseScheme_t* scheme,
                                      const Call& c);
ncclResult_t quantized_broadcast(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_reduce(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_all_to_all(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_gather(const TerseApi& api, const terseScheme_t* scheme, const Call& c);
ncclResult_t quantized_scatter(const TerseApi& api, const terseScheme_t* scheme, const Call& c);

}  // namespace terse::perf
