#include "native_model.h"

#include <algorithm>
#include <cstring>

#include "meaning.h"
#include "plan/native_traffic.h"

namespace terse::plan {
namespace {

Position at(const Native& n, int rank, int ranks) { return {ranks, rank, n.root}; }

template <class T>
Bytes of(const Native& n, int rank, const std::vector<Bytes>& sent) {
  const int ranks = static_cast<int>(sent.size());
  const Meaning meaning{n.collective, sent.size(), static_cast<size_t>(n.root), n.count};
  const auto value = [&](size_t r, size_t k) {
    T x;
    std::memcpy(&x, sent[r].data() + k * sizeof x, sizeof x);
    return x;
  };
  const auto combine = [&](T a, T b) {
    return n.operation == Operation::kMax ? std::max(a, b) : static_cast<T>(a + b);
  };
  Bytes result(extent(traits(n.collective).recv, at(n, rank, ranks)) * n.count * sizeof(T));
  for (size_t i = 0; i < result.size() / sizeof(T); ++i) {
    const T x = meaning(static_cast<size_t>(rank), i, value, combine);
    std::memcpy(result.data() + i * sizeof x, &x, sizeof x);
  }
  return result;
}

// In the order of Element. Numbers of two bytes that are not negative order as integers do.
constexpr Bytes (*kOf[])(const Native&, int, const std::vector<Bytes>&) = {
    of<int32_t>, of<uint8_t>, of<uint32_t>, of<float>, of<uint16_t>, of<uint64_t>};

}  // namespace

size_t sent_bytes(const Native& n, int rank, int ranks) {
  return extent(traits(n.collective).send, at(n, rank, ranks)) * n.count *
         element_bytes(n.element, sizeof(int32_t));
}

Bytes received(const Native& n, int rank, const std::vector<Bytes>& sent) {
  return kOf[static_cast<size_t>(n.element)](n, rank, sent);
}

}  // namespace terse::plan
