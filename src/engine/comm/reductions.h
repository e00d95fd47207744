// Operators of reductions: what sums can be compressed, and how the contributions count in them.
#pragma once

#include <map>
#include <optional>

#include "codec/codec.h"
#include "engine/comm/request.h"

namespace terse {

struct Reduction {
  bool average = false;
  codec::Multiplier premultiply;  // of each rank's own contribution
};

// The operators that ncclRedOpCreatePreMulSum has made on one communicator.
class Operators {
 public:
  // `scalar` is one element of `datatype`, copied now, or, where it lies in device memory, read
  // whenever a reduction runs. A datatype that cannot be compressed is not kept.
  void add(ncclRedOp_t op, const void* scalar, ncclDataType_t datatype,
           ncclScalarResidence_t residence);
  void remove(ncclRedOp_t op) { made_.erase(op); }

  // The reduction of a call; empty where it cannot be compressed, as a maximum, or an operator of
  // another datatype. A call without a reduction has the plain one.
  std::optional<Reduction> find(const Request& request) const;

 private:
  struct PreMulSum {
    ncclDataType_t datatype;
    codec::Multiplier multiplier;
  };
  std::map<ncclRedOp_t, PreMulSum> made_;
};

}  // namespace terse
