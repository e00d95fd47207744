// One thread's view of one data type, operation and size: issuing calls and verifying what came.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "bench.h"
#include "verify.h"

namespace terse::perf {

// One for each rank of a thread.
using Clocks = std::vector<std::unique_ptr<StreamClock>>;

enum class Place { kOutOfPlace, kInPlace };

// What a verifying pass found on this thread's ranks.
struct Verdict {
  double wrong = 0;
  SquaredError error;
  std::vector<std::uint64_t> checksums;
};

class Case {
 public:
  Case(const Run& run, int thread, const DataType& type, const Operation& operation, int root = -1);
  ~Case();  // destroys the operators of -o mulsum
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void set_size(std::size_t total_bytes);
  const Shape& shape() const { return shape_; }
  std::size_t total_bytes() const;

  // Fills the send buffers, all of them, so that iterations which move on find data there too.
  void fill_buffers();
  // In place, the receive buffers hold the input.
  void prepare_place(Place place);

  void issue(Place place, std::size_t iteration);
  void synchronize();
  void group_start();
  void group_end();
  Clocks create_clocks(std::size_t points) const;
  void stamp(std::size_t point, const Clocks& clocks) const;

  // One fresh call on the data of `round`, looked at as the options ask. Collective.
  Verdict verify(Place place, int round);

  std::span<const RankResources> ranks() const { return ranks_; }
  bool reports_wrong() const;
  bool is_checked(Place place) const;  // false: there is no result to compare with

 private:
  Input round_input(int round) const;
  void place_input(const RankResources& rank);
  Seat seat(const RankResources& rank, Place place) const;
  void issue_step(std::size_t index, Place place, std::size_t shift, int step);
  void fill(const Input& input, int rank, std::size_t count, char* buffer);
  char* buffer(char* base) const;

  const Run& run_;
  std::span<const RankResources> ranks_;
  const DataType& type_;
  const Operation& operation_;
  const int root_;
  std::vector<ncclRedOp_t> ops_;
  Shape shape_ = {};
};

}  // namespace terse::perf
