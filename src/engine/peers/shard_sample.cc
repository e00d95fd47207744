#include "engine/peers/shard_sample.h"

#include <algorithm>
#include <cmath>

#include "engine/peers/wait.h"

namespace terse {
namespace {

constexpr size_t kParts = 16, kPart = Shadows::kSampled / kParts;

// Place in the i-th part of a shard, among `places`: irregular, as what is alike in all shards may
// come at regular distances.
size_t place_in_part(size_t i, size_t places) {
  constexpr double kGolden = 0.6180339887498949;
  const double turns = 0.5 + kGolden * static_cast<double>(i);
  return static_cast<size_t>((turns - std::floor(turns)) * static_cast<double>(places));
}

}  // namespace

std::vector<float> sample_of_shard(Communicator& c, const void* send, const ShadowKind& kind,
                                   Stream lane) {
  const size_t size = codec::dtype_size(kind.dtype), count = kind.count;
  const size_t part = std::min(kPart, std::max<size_t>(count / kParts, 1));
  const size_t parts = std::min(kParts, count / part), step = count / parts;
  char* const room = static_cast<char*>(c.memory().shadows().room());
  std::vector<Copy>& copies = c.memory().shadows().copies;  // still enqueued after a failure
  copies.clear();
  for (size_t i = 0; i < parts; ++i) {
    const size_t place = step * i + place_in_part(i, step - part + 1);
    copies.push_back(
        {room + i * part * size, static_cast<const char*>(send) + place * size, part * size});
  }
  c.backend.copy(lane, copies);
  wait_for(c, lane);
  std::vector<char> bytes(parts * part * size);
  c.backend.download(lane, bytes.data(), room, bytes.size());
  std::vector<float> sample;
  for (size_t i = 0; i < parts * part; ++i)
    sample.push_back(codec::load_element(kind.dtype, bytes.data() + i * size));
  return sample;
}

}  // namespace terse
