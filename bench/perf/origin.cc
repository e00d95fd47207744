#include "origin.h"

#include <limits>

#include "traffic.h"

namespace terse::perf {
namespace {

constexpr std::size_t kRest = std::numeric_limits<std::size_t>::max();

// What is left of the part that starts at `begin` and has `count` elements.
Origin within(int rank, std::size_t first, std::size_t element, std::size_t begin,
              std::size_t count) {
  const std::size_t at = element - begin;
  return {rank, first + at, count - at};
}

std::size_t shares_before(const Seat& seat, std::size_t share) {
  return static_cast<std::size_t>(seat.rank) * share;
}

}  // namespace

Origin of_all_reduce(const Seat&, std::size_t element, const Shape&) {
  return {Origin::kReduced, element, kRest};
}

Origin of_all_gather(const Seat&, std::size_t element, const Shape& shape) {
  const std::size_t part = element / shape.send;
  return within(static_cast<int>(part), 0, element, part * shape.send, shape.send);
}

Origin of_reduce_scatter(const Seat& seat, std::size_t element, const Shape& shape) {
  return {Origin::kReduced, shares_before(seat, shape.receive) + element, kRest};
}

Origin of_broadcast(const Seat& seat, std::size_t element, const Shape&) {
  return {seat.root, element, kRest};
}

Origin of_reduce(const Seat& seat, std::size_t element, const Shape&) {
  if (seat.is_root()) return {Origin::kReduced, element, kRest};
  return {seat.in_place ? seat.rank : Origin::kZero, element, kRest};
}

Origin of_all_to_all(const Seat& seat, std::size_t element, const Shape& shape) {
  const std::size_t part = element / shape.parameter;
  return within(static_cast<int>(part), shares_before(seat, shape.parameter), element,
                part * shape.parameter, shape.parameter);
}

// The parts follow each other without gaps, at the sender and the receiver.
Origin of_all_to_all_v(const Seat& seat, std::size_t element, const Shape& shape) {
  const Traffic& counts = traffic();
  std::size_t begin = 0;
  for (int from = 0; from < seat.nranks; ++from) {
    const std::size_t count = counts.count(from, seat.rank, seat.nranks, shape);
    if (element < begin + count) {
      return within(from, counts.offset(from, seat.rank, seat.nranks, shape), element, begin,
                    count);
    }
    begin += count;
  }
  return {Origin::kZero, 0, kRest};  // the buffer is as large as that of the busiest rank
}

Origin of_gather(const Seat& seat, std::size_t element, const Shape& shape) {
  const Origin gathered = of_all_gather(seat, element, shape);
  if (seat.is_root() || (seat.in_place && gathered.rank == seat.rank)) return gathered;
  return {Origin::kZero, 0, gathered.length};
}

Origin of_scatter(const Seat& seat, std::size_t element, const Shape& shape) {
  return {seat.root, shares_before(seat, shape.receive) + element, kRest};
}

Origin of_send_recv(const Seat& seat, std::size_t element, const Shape&) {
  return {(seat.rank + seat.nranks - 1) % seat.nranks, element, kRest};
}

}  // namespace terse::perf
