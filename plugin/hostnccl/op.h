// One operation as the caller asked for it, checked and resolved.
#ifndef HOSTNCCL_OP_H_
#define HOSTNCCL_OP_H_

#include <nccl.h>

#include <cstdint>
#include <string>

#include "reduce.h"

namespace hostnccl {

enum class Kind {
  kAllReduce,
  kReduce,
  kBroadcast,
  kReduceScatter,
  kAllGather,
  kAlltoAll,
  kGather,
  kScatter,
  kSend,
  kReceive,
};
inline constexpr int kKinds = 10;

struct Op {
  Kind kind = Kind::kAllReduce;
  const char* send = nullptr;
  char* recv = nullptr;
  size_t count = 0;  // as in the NCCL call: of the whole, or of one rank's part
  ncclDataType_t dtype = ncclInt8;
  Operator op;
  int peer = 0;  // or the root

  size_t element() const { return SizeOf(dtype); }
  size_t bytes() const { return count * element(); }
  bool is_point_to_point() const { return kind == Kind::kSend || kind == Kind::kReceive; }
};

const char* NameOf(Kind kind);    // "ncclAllReduce"
uint64_t DigestOf(const Op& op);  // equal on all ranks unless their calls do not match
std::string Describe(const Op& op);

}  // namespace hostnccl

#endif  // HOSTNCCL_OP_H_
