// How large buffers are, and how bandwidth follows from time, by collective.
#pragma once

#include <cstddef>

namespace terse::perf {

// Sizes in elements. The in-place offsets are per rank: rank r starts at r times the offset.
struct Shape {
  std::size_t send;
  std::size_t receive;
  std::size_t parameter;  // the count that the call itself takes
  std::size_t in_place_send;
  std::size_t in_place_receive;
  std::size_t align = 1;  // of a rank's share
};

// `total` is the larger of both buffers; shares are rounded down to multiples of `align`.
using ShapeOf = Shape (*)(std::size_t total, std::size_t align, int nranks);
Shape whole_shape(std::size_t total, std::size_t align, int nranks);
Shape gathering_shape(std::size_t total, std::size_t align, int nranks);
Shape scattering_shape(std::size_t total, std::size_t align, int nranks);
Shape exchanging_shape(std::size_t total, std::size_t align, int nranks);

// The total when every rank's input is a file of `count` elements.
using TotalOf = std::size_t (*)(std::size_t count, int nranks);
std::size_t total_of_same(std::size_t count, int nranks);
std::size_t total_of_gathered(std::size_t count, int nranks);

using Factor = double (*)(int nranks);
double one(int nranks);
double others_share(int nranks);
double twice_others_share(int nranks);

}  // namespace terse::perf
