// Gather and Scatter, direct: each shard is packed where it is and unpacked where it goes. The
// root's own shard is copied.
#include "plan/builder.h"

namespace terse::plan {
namespace {

// All ranks cut all shards alike; the root has scratch for all, the others for their own.
Chunks cut(const Shape& s) {
  const size_t ranks = s.ranks;
  return {s, s.count, ranks, ranks * s.count, 1, s.rank == s.root ? ranks : 1};
}

Compute pack(const Builder& b, size_t element, Place to, const Range& r, size_t shard) {
  return {.inputs = {{b.raw(Region::kSend, element + r.first), Format::kRaw}},
          .target = to,
          .count = r.count,
          .origin = r.first,
          .shard = static_cast<uint32_t>(shard)};
}

Compute unpack(const Builder& b, Place from, size_t element, const Range& r) {
  return {.inputs = {{from}},
          .target = b.raw(Region::kRecv, element + r.first),
          .target_format = Format::kRaw,
          .count = r.count};
}

// Adds the steps that send a chunk: encode and communicate. Returns the step after which its slot
// is free.
size_t send_chunk(Builder& b, Step encode, Step exchange) {
  exchange.after = {b.add(std::move(encode))};
  return b.add(std::move(exchange));
}

size_t receive_chunk(Builder& b, Step exchange, Step decode) {
  decode.after = {b.add(std::move(exchange))};
  return b.add(std::move(decode));
}

}  // namespace

Plan gather(const Shape& s) {
  const size_t self = s.rank;
  const bool is_root = s.rank == s.root;
  const Chunks chunks = cut(s);
  Builder b(Collective::kGather, "Gather", s);
  if (is_root) b.keep(self * s.count, 0);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const size_t free = chunks.before(c) == kNone ? kNone : done[chunks.before(c)];
    Step encode{.name = "encode", .lane = Lane::kEncode, .after = {free}};
    Step exchange{.name = "gather", .lane = Lane::kCommunicate, .after = {free}};
    Step decode{.name = "decode", .lane = Lane::kDecode};
    if (!is_root) {
      b.push(encode.compute, pack(b, 0, chunks.place(c, 0, 0), r, self));
      b.push(exchange.transfers, s.root, true, chunks.place(c, 0, 0), r.count);
      done[c] = send_chunk(b, std::move(encode), std::move(exchange));
      continue;
    }
    for (int k = 1; k < s.ranks; ++k) {
      const size_t from = neighbours(s, k).from;
      b.push(exchange.transfers, from, false, chunks.place(c, 0, from), r.count);
      b.push(decode.compute, unpack(b, chunks.place(c, 0, from), from * s.count, r));
    }
    done[c] = receive_chunk(b, std::move(exchange), std::move(decode));
  }
  return b.take(chunks);
}

Plan scatter(const Shape& s) {
  const bool is_root = s.rank == s.root;
  const Chunks chunks = cut(s);
  Builder b(Collective::kScatter, "Scatter", s);
  if (is_root) b.keep(0, static_cast<size_t>(s.root) * s.count);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const size_t free = chunks.before(c) == kNone ? kNone : done[chunks.before(c)];
    Step encode{.name = "encode", .lane = Lane::kEncode, .after = {free}};
    Step exchange{.name = "scatter", .lane = Lane::kCommunicate, .after = {free}};
    Step decode{.name = "decode", .lane = Lane::kDecode};
    if (!is_root) {
      b.push(exchange.transfers, s.root, false, chunks.place(c, 0, 0), r.count);
      b.push(decode.compute, unpack(b, chunks.place(c, 0, 0), 0, r));
      done[c] = receive_chunk(b, std::move(exchange), std::move(decode));
      continue;
    }
    for (int k = 1; k < s.ranks; ++k) {
      const size_t to = neighbours(s, k).to;
      b.push(encode.compute, pack(b, to * s.count, chunks.place(c, 0, to), r, to));
      b.push(exchange.transfers, to, true, chunks.place(c, 0, to), r.count);
    }
    done[c] = send_chunk(b, std::move(encode), std::move(exchange));
  }
  return b.take(chunks);
}

}  // namespace terse::plan
