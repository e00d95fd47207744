// NCCL's data types and reduction operations as tables: their names on the command line, and how
// elements turn into doubles and back.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <span>
#include <string>

namespace terse::perf {

struct DataType {
  const char* name;   // as nccl-tests prints it
  const char* alias;  // another name that -d takes
  ncclDataType_t nccl;
  std::size_t bytes;
  bool is_float;
  bool is_signed;
  int exact;  // every integer up to this magnitude is exactly representable
  // Rounds doubles to elements (nearest even) and reads them back. Any alignment.
  void (*store)(const double* values, std::size_t count, void* elements);
  void (*load)(const void* elements, std::size_t count, double* values);
};

enum class Op { kSum, kProd, kMax, kMin, kAvg, kMulSum, kNone };

struct Operation {
  const char* name;
  Op op;
  ncclRedOp_t nccl;  // unused for kMulSum, whose handle belongs to a communicator
};

std::span<const DataType> data_types();
std::span<const Operation> operations();
extern const Operation kNoOperation;  // for collectives that only move data

// Throw std::invalid_argument with the list of names when there is no such name.
const DataType& find_data_type(const std::string& name);
const Operation& find_operation(const std::string& name);

// The scalar by which -o mulsum multiplies the contribution of a rank; exact in every type.
constexpr int pre_mul_scalar(int rank) { return rank % 2 == 0 ? 1 : 2; }

}  // namespace terse::perf
