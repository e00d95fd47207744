// Shared parts of the algorithms for Broadcast: all pack the same elements alike.
#pragma once

#include "plan/builder.h"

namespace terse::plan {

// `element`: first element of a shard of the message.
inline Compute pack_broadcast(const Builder& b, const Shape& s, size_t element, const Range& r,
                              Place to) {
  return {.inputs = {{b.raw(Region::kSend, element + r.first), Format::kRaw}},
          .target = to,
          .count = r.count,
          .origin = element + r.first,
          .shard = static_cast<uint32_t>(s.root)};
}

inline Compute unpack_broadcast(const Builder& b, size_t element, const Range& r, Place from) {
  return {.inputs = {{from}},
          .target = b.raw(Region::kRecv, element + r.first),
          .target_format = Format::kRaw,
          .count = r.count};
}

}  // namespace terse::plan
