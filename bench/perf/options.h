// The command line, nccl-tests' options and our own, as a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "input.h"

namespace terse::perf {

struct Options {
  // nccl-tests'
  int threads = 1;
  int ranks_per_thread = 1;
  std::size_t min_bytes = 32 << 20;
  std::size_t max_bytes = 32 << 20;
  std::size_t step_bytes = 1 << 20;
  int step_factor = 1;
  int iterations = 20;
  int aggregate = 1;
  int warmup = 1;
  int cycles = 1;
  int parallel_init = 0;
  int check = 1;
  std::string op = "sum";
  std::string datatype = "float";
  static constexpr int kEachRoot = -1;
  int root = 0;
  int blocking = 0;
  int null_stream = 0;
  int timeout = 300;
  int graph = 0;
  int report_cpu_time = 0;
  int report_timestamps = 0;
  std::string json;
  int average = 1;
  int registration = 0;
  int per_iteration = 0;
  int per_iteration_skip = 0;
  int unalign = 0;
  int cta_policy = -1;  // NCCL's own choice
  int device_implementation = 0;
  int device_ctas = 16;
  int memory_report = 0;

  // ours
  std::string scheme;
  std::string input;
  std::optional<InputKind> data;  // unset: chosen by data_kind
  std::uint64_t seed = 0;
  bool checksum = false;
  std::string place = "both";
  std::string nccl;
  std::string netdev;

  bool check_given = false;  // -c was on the command line
  std::vector<std::string> command_line;

  int ranks_per_process() const { return threads * ranks_per_thread; }
  InputKind data_kind() const;
  bool measures(bool in_place) const { return place == "both" || (place == "in") == in_place; }
  // Whether error columns are printed: where data or scheme call for them.
  bool shows_error() const;
  bool shows_ratio() const { return !scheme.empty(); }
};

// The outcome of parsing: options, or an exit code with the text to print.
struct Parsed {
  std::optional<Options> options;
  int exit_code = 0;
  std::string text;
};

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;

// Never exits, never prints.
Parsed parse_options(const std::string& program, int argc, const char* const* argv);

// The command line without --nccl and its value.
std::vector<std::string> without_nccl(const std::vector<std::string>& command_line);

}  // namespace terse::perf
