#include "op.h"

#include <fmt/format.h>

#include <iterator>

namespace hostnccl {
namespace {

constexpr const char* kNames[] = {
#define NCCL_COLLECTIVE(suffix, ...) "nccl" #suffix,
#include <nccl_collectives.inc>
};

constexpr const char* kTypeNames[] = {"int8",    "uint8",    "int32",      "uint32",
                                      "int64",   "uint64",   "float16",    "float32",
                                      "float64", "bfloat16", "float8e4m3", "float8e5m2"};
static_assert(std::size(kTypeNames) == ncclNumTypes);

constexpr const char* kOperatorNames[] = {"sum", "prod", "max", "min", "avg"};
static_assert(std::size(kOperatorNames) == ncclNumOps);

}  // namespace

const char* name_of(Kind kind) { return kNames[static_cast<int>(kind)]; }

uint64_t digest_of(const Op& op) {
  uint64_t digest = 0x9e3779b97f4a7c15;
  const uint64_t fields[] = {static_cast<uint64_t>(op.kind),      op.count,
                             static_cast<uint64_t>(op.dtype),     static_cast<uint64_t>(op.op.kind),
                             static_cast<uint64_t>(op.op.scaled), static_cast<uint64_t>(op.peer)};
  for (const uint64_t field : fields) {
    digest = (digest ^ field) * 0xff51afd7ed558ccd;
    digest ^= digest >> 32;
  }
  return digest;
}

std::string describe(const Op& op) {
  return fmt::format("{}({} {}, {}, {} {})", name_of(op.kind), op.count, kTypeNames[op.dtype],
                     op.op.scaled ? "premulsum" : kOperatorNames[op.op.kind],
                     op.is_point_to_point() ? "peer" : "root", op.peer);
}

}  // namespace hostnccl
