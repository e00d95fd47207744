// One operation as the caller asked for it, checked and resolved.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <string>

#include "reduce.h"

namespace hostnccl {

// Kinds by nccl_collectives.inc.
enum class Kind {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, ...) k##name,
#include <nccl_collectives.inc>
};

struct Op {
  Kind kind = Kind::kAllReduce;
  const char* send = nullptr;
  char* recv = nullptr;
  size_t count = 0;  // as in the NCCL call: of the whole, or of one rank's part
  ncclDataType_t dtype = ncclInt8;
  Operator op;
  int peer = 0;  // or the root

  size_t element() const { return size_of(dtype); }
  size_t bytes() const { return count * element(); }
  bool is_point_to_point() const { return kind == Kind::kSend || kind == Kind::kRecv; }
};

const char* name_of(Kind kind);    // "ncclAllReduce"
uint64_t digest_of(const Op& op);  // equal on all ranks unless their calls do not match
std::string describe(const Op& op);

}  // namespace hostnccl
