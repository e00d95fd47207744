// What the ranks send: a value that says, for every rank and element, which number is sent. Any
// process can so compute what any other contributed, without talking to it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "types.h"

namespace terse::perf {

enum class InputKind {
  kExact,    // small integers whose reductions are exact in the data type, in any order
  kGauss,    // normal, mean 0, deviation 1
  kUniform,  // [-1, 1)
  kFile,     // one file of little-endian fp32 a rank
};

// One rank's file, mapped read-only.
class InputFile {
 public:
  explicit InputFile(const std::string& path);  // throws std::runtime_error with the path
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;

  std::size_t count() const { return count_; }
  const float* data() const { return data_; }

 private:
  std::size_t count_ = 0;
  const float* data_ = nullptr;
};

using InputFiles = std::vector<std::shared_ptr<const InputFile>>;

// Opens pattern with {rank} replaced by 0..nranks-1. Throws std::runtime_error when one is missing
// or empty, or their sizes differ.
InputFiles open_input_files(const std::string& pattern, int nranks);

struct Input {
  InputKind kind;
  const DataType* type;
  Op op;
  int nranks;
  std::uint64_t seed;
  InputFiles files;  // kFile only
};

// values[k] = what `rank` contributes at element first + k, before rounding to the data type.
void fill_input(const Input& input, int rank, std::size_t first, std::size_t count, double* values);

// The same, rounded to the data type: exactly the numbers that are sent.
void fill_input_rounded(const Input& input, int rank, std::size_t first, std::size_t count,
                        double* values);

}  // namespace terse::perf
