// Reductions: which sums can be compressed, and by which factor contributions count.
#pragma once

#include <map>
#include <optional>

#include "codec/codec.h"
#include "engine/comm/request.h"

namespace terse {

struct Reduction {
  bool average = false;
  codec::Multiplier premultiply;  // of each rank's contribution
};

// Operators that ncclRedOpCreatePreMulSum has made on one communicator.
class Operators {
 public:
  // Adds an operator. `scalar` is one element of `datatype`, copied now; or, in device memory, read
  // whenever a reduction runs. Ignores a datatype that cannot be compressed.
  void add(ncclRedOp_t op, const void* scalar, ncclDataType_t datatype,
           ncclScalarResidence_t residence);
  void remove(ncclRedOp_t op) { made_.erase(op); }

  // Reduction of a call. Empty if it cannot be compressed: a maximum, or an operator of another
  // datatype. A call that does not reduce has the plain one.
  std::optional<Reduction> find(const Request& request) const;

 private:
  struct PreMulSum {
    ncclDataType_t datatype;
    codec::Multiplier multiplier;
  };
  std::map<ncclRedOp_t, PreMulSum> made_;
};

}  // namespace terse
