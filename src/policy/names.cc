#include "policy/names.h"

#include <algorithm>

#include "base/error.h"
#include "policy/datatype.h"
#include "policy/nearest.h"

namespace terse {
namespace {

using plan::Collective;

constexpr Set kDefault = set_of(Collective::kAllReduce) | set_of(Collective::kAllGather) |
                         set_of(Collective::kReduceScatter);

constexpr CollectiveName kCollectives[] = {
#define NCCL_COLLECTIVE(suffix, form, send, recv, name, rule, ...)            \
  {#rule, Collective::k##name, (kDefault & set_of(Collective::k##name)) != 0, \
   plan::k##form##Form.reduces},
#include <nccl_collectives.inc>
};

constexpr DtypeName kDtypes[] = {
    {"float32", ncclFloat32, DtypeKind::kCompressed},
    {"fp32", ncclFloat32, DtypeKind::kCompressed},
    {"float16", ncclFloat16, DtypeKind::kCompressed},
    {"fp16", ncclFloat16, DtypeKind::kCompressed},
    {"half", ncclFloat16, DtypeKind::kCompressed},
    {"bfloat16", ncclBfloat16, DtypeKind::kCompressed},
    {"bf16", ncclBfloat16, DtypeKind::kCompressed},
    {"float64", ncclFloat64, DtypeKind::kOther},
    {"fp64", ncclFloat64, DtypeKind::kOther},
    {"double", ncclFloat64, DtypeKind::kOther},
    {"float8e4m3", static_cast<ncclDataType_t>(10), DtypeKind::kOther},
    {"float8e5m2", static_cast<ncclDataType_t>(11), DtypeKind::kOther},
    {"int8", ncclInt8, DtypeKind::kInteger},
    {"uint8", ncclUint8, DtypeKind::kInteger},
    {"int32", ncclInt32, DtypeKind::kInteger},
    {"uint32", ncclUint32, DtypeKind::kInteger},
    {"int64", ncclInt64, DtypeKind::kInteger},
    {"uint64", ncclUint64, DtypeKind::kInteger},
};

constexpr OpName kOps[] = {
    {"sum", ncclSum, true},  {"avg", ncclAvg, true},  {"prod", ncclProd, false},
    {"max", ncclMax, false}, {"min", ncclMin, false}, {"premulsum", kPreMulSum, true},
};

// Union of the values whose table entry is `wanted`.
template <class Entry, class Wanted>
constexpr Set collect(const Entry& table, const Wanted& wanted) {
  Set set = 0;
  for (const auto& entry : table)
    if (wanted(entry)) set |= set_of(entry.collective);
  return set;
}

constexpr Set kReducing = collect(kCollectives, [](const auto& c) { return c.reduces; });
constexpr Set kAll = collect(kCollectives, [](const auto&) { return true; });

// Prints the first name of each value.
template <class Table, class Value>
std::string print(const Table& table, Set set, const Value& value) {
  std::string text;
  Set printed = 0;
  std::string_view last;
  for (const auto& entry : table) {
    const Set bit = set_of(value(entry));
    if ((set & bit) == 0 || (printed & bit) != 0) continue;
    printed |= bit;
    if (entry.name == last) continue;
    last = entry.name;
    text += fmt::format("{}{}", text.empty() ? "" : ",", entry.name);
  }
  return text;
}

}  // namespace

std::span<const CollectiveName> collective_names() { return kCollectives; }
std::span<const DtypeName> dtype_names() { return kDtypes; }
std::span<const OpName> op_names() { return kOps; }

Set parse_collective(std::string_view name) {
  const Set found = collect(kCollectives, [&](const auto& c) { return c.name == name; });
  if (found == 0)
    fail(ncclInvalidArgument, "unknown collective \"{}\"{}", name,
         hint(name, names_of(collective_names())));
  return found;
}

plan::Collective find_collective(std::string_view name) {
  parse_collective(name);  // throws what is wrong
  return std::ranges::find(kCollectives, name, &CollectiveName::name)->collective;
}

codec::Dtype find_compressed_dtype(std::string_view name) {
  parse_dtype(name);
  codec::Dtype dtype{};
  compressible(std::ranges::find(kDtypes, name, &DtypeName::name)->dtype, &dtype);
  return dtype;
}

Set parse_dtype(std::string_view name) {
  for (const DtypeName& d : kDtypes) {
    if (d.name != name) continue;
    if (d.kind == DtypeKind::kInteger)
      fail(ncclInvalidArgument, "dtype \"{}\": integers are never compressed lossily", name);
    if (d.kind == DtypeKind::kOther)
      fail(ncclInvalidArgument,
           "dtype \"{}\" is not compressed, only float32, float16 and bfloat16 are", name);
    return set_of(d.dtype);
  }
  fail(ncclInvalidArgument, "unknown dtype \"{}\"{}", name, hint(name, names_of(dtype_names())));
}

Set parse_op(std::string_view name) {
  for (const OpName& o : kOps) {
    if (o.name != name) continue;
    if (!o.compressed)
      fail(ncclInvalidArgument, "op \"{}\" is not compressed, only sum, avg and premulsum are",
           name);
    return set_of(o.op);
  }
  fail(ncclInvalidArgument, "unknown op \"{}\"{}", name, hint(name, names_of(op_names())));
}

std::string print_collectives(Set set) {
  return print(kCollectives, set, [](const CollectiveName& c) { return c.collective; });
}
std::string print_dtypes(Set set) {
  return print(kDtypes, set, [](const DtypeName& d) { return d.dtype; });
}
std::string print_dtype(codec::Dtype dtype) {
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  static_assert(std::size(kTypes) == codec::kDtypes);
  return print_dtypes(set_of(kTypes[static_cast<size_t>(dtype)]));
}
std::string print_dtype(ncclDataType_t dtype) {
  const auto known = std::ranges::find(kDtypes, dtype, &DtypeName::dtype);
  return std::string(known != std::end(kDtypes) ? known->name : "an unknown type");
}
std::string print_ops(Set set) {
  return print(kOps, set, [](const OpName& o) { return o.op; });
}

Set default_collectives() { return kDefault; }
Set all_collectives() { return kAll; }
Set reducing_collectives() { return kReducing; }

}  // namespace terse
