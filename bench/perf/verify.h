// What came out against what should have: wrong elements, error, a checksum.
#pragma once

#include <cstddef>
#include <cstdint>

#include "collective.h"
#include "input.h"

namespace terse::perf {

// The exact result at output elements first.. of a rank, in double precision.
void expected_output(const Collective& collective, const Shape& shape, const Input& input,
                     const Seat& seat, std::size_t first, std::size_t count, double* values);

// How many of the output's elements differ from the exact result, rounded to the data type. Only
// meaningful for exact input.
std::size_t count_wrong(const Collective& collective, const Shape& shape, const Input& input,
                        const Seat& seat, const void* output);

struct SquaredError {
  double error = 0;  // sum of (output - exact)^2
  double norm = 0;   // sum of exact^2
};

// Where all ranks end with the same bytes, each measures one n-th of them, and never the part that
// it owns, which might be better than what the others received; otherwise its whole output. Summed
// over the ranks, every element counts once.
SquaredError measure_error(const Collective& collective, const Shape& shape, const Input& input,
                           const Seat& seat, const void* output);

// sqrt(error / norm); of a zero result, 0 when it is right and infinity otherwise.
double relative_error(const SquaredError& sums);

// 64 bits that any changed byte changes (not cryptographic).
std::uint64_t checksum(const void* data, std::size_t bytes);

}  // namespace terse::perf
