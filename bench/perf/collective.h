// A collective as data: how buffers follow from the count, what each output element should be, how
// bandwidth is counted, and which calls run it.
#pragma once

#include <nccl.h>

#include <cstddef>

#include "terse_api.h"

namespace terse::perf {

// Sizes in elements. The in-place offsets are per rank: rank r starts at r times the offset.
struct Shape {
  std::size_t send;
  std::size_t receive;
  std::size_t parameter;  // the count that the call itself takes
  std::size_t in_place_send;
  std::size_t in_place_receive;
};

// One call of a collective; `count` is Shape::parameter.
struct Call {
  const void* send;
  void* receive;
  std::size_t count;
  ncclDataType_t type;
  ncclRedOp_t op;
  ncclComm_t comm;
  cudaStream_t stream;
};

// Where a run of output elements comes from: from elements `first`.. of one rank's input, or of the
// reduction over all of them (rank == kReduced). It holds for `length` elements.
struct Origin {
  static constexpr int kReduced = -1;
  int rank;
  std::size_t first;
  std::size_t length;
};

struct Collective {
  const char* program;
  bool reduces;
  bool same_everywhere;  // all ranks end with the same bytes
  // `total` is the larger of both buffers; counts are rounded down to multiples of `align`.
  Shape (*shape)(std::size_t total, std::size_t align, int nranks);
  // The total when every rank's input is a file of `count` elements.
  std::size_t (*total_of_input)(std::size_t count, int nranks);
  double (*bus_factor)(int nranks);
  Origin (*origin)(int rank, std::size_t output_element, const Shape& shape);
  ncclResult_t (*native)(const Call& call);
  ncclResult_t (*quantized)(const TerseApi& api, const terseScheme_t* scheme, const Call& call);
};

extern const Collective kAllReduce;
extern const Collective kAllGather;
extern const Collective kReduceScatter;

}  // namespace terse::perf
