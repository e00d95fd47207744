// One thread's view of one data type, operation and size: issuing calls and verifying what came.
#ifndef TERSE_BENCH_PERF_CASE_H_
#define TERSE_BENCH_PERF_CASE_H_

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
  Case(const Run& run, int thread, const DataType& type, const Operation& operation);
  ~Case();  // destroys the operators of -o mulsum
  Case(const Case&) = delete;
  Case& operator=(const Case&) = delete;

  void SetSize(std::size_t total_bytes);
  const Shape& shape() const { return shape_; }
  std::size_t total_bytes() const;

  // Fills the send buffers, all of them, so that iterations which move on find data there too.
  void FillBuffers();
  // In place, the receive buffers hold the input.
  void PreparePlace(Place place);

  void Issue(Place place, std::size_t iteration);
  void Synchronize();
  void GroupStart();
  void GroupEnd();
  Clocks CreateClocks(std::size_t points) const;
  void Stamp(std::size_t point, const Clocks& clocks) const;

  // One fresh call on the data of `round`, looked at as the options ask. Collective.
  Verdict Verify(Place place, int round);

  std::span<const RankResources> ranks() const { return ranks_; }
  bool reports_wrong() const;

 private:
  Input RoundInput(int round) const;
  void Fill(const Input& input, int rank, std::size_t count, char* buffer);
  char* Buffer(char* base) const;

  const Run& run_;
  std::span<const RankResources> ranks_;
  const DataType& type_;
  const Operation& operation_;
  std::vector<ncclRedOp_t> ops_;
  Shape shape_ = {};
};

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_CASE_H_
