// What a run measures, as values: the table on the screen and the JSON file are made from these.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "device.h"

namespace terse::perf {

// Over the iterations of -I, in microseconds; the time of an iteration is its slowest rank's.
struct IterationStats {
  double min, max, mean, p50, p95, p99, deviation;
  double variation_percent() const { return mean > 0 ? 100 * deviation / mean : 0; }
};

// Sorts a copy. `times` must not be empty. p95 and p99 are nearest-rank; p50 is the median, of an
// even number of times the larger of the two in the middle.
IterationStats summarize(std::vector<double> times);

// One size, in place or out of place.
struct Measurement {
  bool left_out = false;                 // by --place
  double time = 0;                       // microseconds
  double algbw = 0;                      // GB/s
  double busbw = 0;                      // GB/s
  std::optional<double> wrong;           // elements, over all ranks; unset: not checked
  std::optional<double> wire_ratio;      // uncompressed bytes over sent bytes, by libterse's count
  std::optional<double> wire_bytes;      // sent, a call and rank, by libterse's count
  std::optional<double> off_node_ratio;  // of the bytes that leave a node; unset: there is one
  std::optional<double> off_node_bytes;  // sent to other nodes, a call and node, by libterse
  std::optional<double> error;           // relative, L2
  std::optional<double> netdev_bytes;    // sent through a node's interface, a call
  std::vector<std::uint64_t> checksums;  // by rank
  std::vector<double> iterations;        // microseconds, with -I
  std::vector<std::vector<double>> process_iterations;  // the same, by process
  std::optional<IterationStats> stats;
};

struct Row {
  std::size_t size;   // bytes of the larger buffer
  std::size_t count;  // elements, as the call takes them
  std::string type;
  std::string op;
  int root;
  Measurement out_of_place;
  Measurement in_place;
};

struct RankInfo {
  int rank = 0;
  int group = 0;
  int process_id = 0;
  std::string host;
  int device = 0;
  DeviceInfo info;
};

// Bytes of the fullest device, -M.
struct MemoryUse {
  double communicators = 0;
  double buffers = 0;
  double calls = 0;
};

struct Summary {
  int failures = 0;  // measurements with wrong results
  double mean_busbw = 0;
  std::optional<double> min_busbw = {};  // NCCL_TESTS_MIN_BW
  std::optional<MemoryUse> memory = {};

  bool is_too_slow() const { return min_busbw.has_value() && mean_busbw < 0.9 * *min_busbw; }
};

}  // namespace terse::perf
