#include "types.h"

#include <array>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <type_traits>

#include "small_float.h"

namespace terse::perf {
namespace {

// As the type rounds it; of a value beyond its range, the end of the range.
template <typename T>
T nearest(double value) {
  if constexpr (std::is_integral_v<T>) {
    if (value <= static_cast<double>(std::numeric_limits<T>::min()))
      return std::numeric_limits<T>::min();
    if (value >= static_cast<double>(std::numeric_limits<T>::max()))
      return std::numeric_limits<T>::max();
  }
  return static_cast<T>(value);
}

template <typename T>
void store(const double* values, std::size_t count, void* elements) {
  auto* out = static_cast<unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    const T element = nearest<T>(values[i]);
    std::memcpy(out + i * sizeof(T), &element, sizeof(T));
  }
}

template <typename T>
void load(const void* elements, std::size_t count, double* values) {
  const auto* in = static_cast<const unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    T element;
    std::memcpy(&element, in + i * sizeof(T), sizeof(T));
    values[i] = static_cast<double>(element);
  }
}

template <typename Format, typename Bits>
void store_small(const double* values, std::size_t count, void* elements) {
  auto* out = static_cast<unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    const Bits bits = static_cast<Bits>(Format::encode(values[i]));
    std::memcpy(out + i * sizeof(Bits), &bits, sizeof(Bits));
  }
}

template <typename Format, typename Bits>
void load_small(const void* elements, std::size_t count, double* values) {
  const auto* in = static_cast<const unsigned char*>(elements);
  for (std::size_t i = 0; i < count; ++i) {
    Bits bits;
    std::memcpy(&bits, in + i * sizeof(Bits), sizeof(Bits));
    values[i] = Format::decode(bits);
  }
}

template <typename T>
constexpr DataType integer(const char* name, const char* alias, ncclDataType_t nccl,
                           bool is_signed) {
  return {name, alias, nccl, sizeof(T), false, is_signed, 127, store<T>, load<T>};
}

template <typename T>
constexpr DataType floating(const char* name, const char* alias, ncclDataType_t nccl) {
  return {name, alias, nccl, sizeof(T), true, true, 1 << 14, store<T>, load<T>};
}

template <typename Format, typename Bits>
constexpr DataType small(const char* name, const char* alias, ncclDataType_t nccl, int exact) {
  return {name,
          alias,
          nccl,
          sizeof(Bits),
          true,
          true,
          exact,
          store_small<Format, Bits>,
          load_small<Format, Bits>};
}

const std::array<DataType, 12> kDataTypes = {
    integer<std::int8_t>("int8", "char", ncclInt8, true),
    integer<std::uint8_t>("uint8", "u8", ncclUint8, false),
    integer<std::int32_t>("int32", "int", ncclInt32, true),
    integer<std::uint32_t>("uint32", "u32", ncclUint32, false),
    integer<std::int64_t>("int64", "i64", ncclInt64, true),
    integer<std::uint64_t>("uint64", "u64", ncclUint64, false),
    small<Float16, std::uint16_t>("half", "fp16", ncclFloat16, 2048),
    floating<float>("float", "fp32", ncclFloat32),
    floating<double>("double", "fp64", ncclFloat64),
    small<Bfloat16, std::uint16_t>("bfloat16", "bf16", ncclBfloat16, 256),
    small<Float8E4M3, std::uint8_t>("f8e4m3", "fp8_e4m3", ncclFloat8e4m3, 16),
    small<Float8E5M2, std::uint8_t>("f8e5m2", "fp8_e5m2", ncclFloat8e5m2, 8),
};

const std::array<Operation, 6> kOperations = {{
    {"sum", Op::kSum, ncclSum},
    {"prod", Op::kProd, ncclProd},
    {"max", Op::kMax, ncclMax},
    {"min", Op::kMin, ncclMin},
    {"avg", Op::kAvg, ncclAvg},
    {"mulsum", Op::kMulSum, ncclNumOps},
}};

}  // namespace

const Operation kNoOperation = {"none", Op::kNone, ncclSum};

std::span<const DataType> data_types() { return kDataTypes; }
std::span<const Operation> operations() { return kOperations; }

const DataType& find_data_type(const std::string& name) {
  std::string names;
  for (const DataType& type : kDataTypes) {
    if (name == type.name || name == type.alias) return type;
    names += std::string(" ") + type.name;
  }
  throw std::invalid_argument("'" + name + "' is not a data type; there are:" + names + " all");
}

const Operation& find_operation(const std::string& name) {
  std::string names;
  for (const Operation& operation : kOperations) {
    if (name == operation.name) return operation;
    names += std::string(" ") + operation.name;
  }
  throw std::invalid_argument("'" + name + "' is not an operation; there are:" + names + " all");
}

}  // namespace terse::perf
