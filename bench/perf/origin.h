// Where the output of each collective comes from, element by element.
#pragma once

#include <cstddef>

#include "shape.h"

namespace terse::perf {

// Where a rank stands in a call.
struct Seat {
  int rank = 0;
  int nranks = 1;
  int root = -1;  // of collectives that have one
  bool in_place = false;

  bool is_root() const { return rank == root; }
};

// A run of output elements comes from elements `first`.. of one rank's input, or of the reduction
// over all of them, or is zero as it was. It holds for `length` elements.
struct Origin {
  static constexpr int kReduced = -1;
  static constexpr int kZero = -2;
  int rank;
  std::size_t first;
  std::size_t length;
};

using OriginOf = Origin (*)(const Seat& seat, std::size_t output_element, const Shape& shape);
Origin of_all_reduce(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_all_gather(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_reduce_scatter(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_broadcast(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_reduce(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_all_to_all(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_all_to_all_v(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_gather(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_scatter(const Seat& seat, std::size_t element, const Shape& shape);
Origin of_send_recv(const Seat& seat, std::size_t element, const Shape& shape);

}  // namespace terse::perf
