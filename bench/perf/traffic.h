// Who sends how much to whom in alltoallv_perf, by nccl-tests' NCCL_TESTS_ALLTOALLV_* variables.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "environment.h"
#include "shape.h"

namespace terse::perf {

struct Options;

class Traffic {
 public:
  // A matrix of bytes from MATRIX_FILE, times MATRIX_SCALE; without, farther ranks get more, by
  // SPREAD from 0 (all alike) to 1. Throws std::invalid_argument.
  static Traffic read(GetEnv get);

  // Elements that `from` sends to `to`, and where they start in what it sends.
  std::size_t count(int from, int to, int nranks, const Shape& shape) const;
  std::size_t offset(int from, int to, int nranks, const Shape& shape) const;

  // Of the busiest rank; Shape::parameter and Shape::align must be set.
  std::size_t max_sent(int nranks, const Shape& shape) const;
  std::size_t max_received(int nranks, const Shape& shape) const;

  bool is_matrix() const { return !matrix_.empty(); }
  bool prints_summary() const { return summary_; }
  // Throws std::invalid_argument where the matrix does not fit the ranks or the sizes.
  void require(const Options& options, int nranks) const;

 private:
  std::string file_;
  std::vector<std::vector<std::size_t>> matrix_;  // bytes, in multiples of 16
  double spread_ = 1;
  bool summary_ = false;
};

// Of this process's environment.
const Traffic& traffic();

Shape traffic_shape(std::size_t total, std::size_t align, int nranks);
void require_traffic(const Options& options, int nranks);
// PRINT_SUMMARY: what each rank sends and receives, and its bandwidth.
std::string traffic_notes(const Shape& shape, std::size_t bytes, int nranks, double seconds);

}  // namespace terse::perf
