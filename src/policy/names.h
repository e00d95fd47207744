// Names of collectives, types and operations in rules and on the command line.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "codec/layout.h"
#include "plan/collective.h"

namespace terse {

// Set of values of an enum, bit by number. No bits: any value.
using Set = uint32_t;

template <class Enum>
constexpr Set set_of(Enum value) {
  const auto number = static_cast<unsigned>(value);
  return number < 32 ? Set{1} << number : 0;
}

struct CollectiveName {
  std::string_view name;  // may be shared by several collectives
  plan::Collective collective;
  bool by_default;  // compressed by rules that name no collective
  bool reduces;     // has an operation
};
std::span<const CollectiveName> collective_names();

enum class DtypeKind : uint8_t { kCompressed, kInteger, kOther };

// The first name of a type is the canonical one.
struct DtypeName {
  std::string_view name;
  ncclDataType_t dtype;
  DtypeKind kind;
};
std::span<const DtypeName> dtype_names();

// Any operator of ncclRedOpCreatePreMulSum.
constexpr ncclRedOp_t kPreMulSum = ncclNumOps;

struct OpName {
  std::string_view name;
  ncclRedOp_t op;
  bool compressed;
};
std::span<const OpName> op_names();

// Values of a name in rules. Throw Error(ncclInvalidArgument) for what is unknown or never
// compressed.
Set parse_collective(std::string_view name);
Set parse_dtype(std::string_view name);
Set parse_op(std::string_view name);

// First collective of the name, as parse_collective().
plan::Collective find_collective(std::string_view name);
codec::Dtype find_compressed_dtype(std::string_view name);

// Names as "a,b", in the order of the tables.
std::string print_collectives(Set collectives);
std::string print_dtypes(Set dtypes);
std::string print_ops(Set ops);
std::string print_dtype(codec::Dtype dtype);
std::string print_dtype(ncclDataType_t dtype);  // "an unknown type"

Set default_collectives();
Set all_collectives();
Set reducing_collectives();

// Names of a table, each once.
template <class Entry>
std::vector<std::string_view> names_of(std::span<const Entry> table) {
  std::vector<std::string_view> names;
  for (const Entry& entry : table)
    if (names.empty() || names.back() != entry.name) names.push_back(entry.name);
  return names;
}

}  // namespace terse
