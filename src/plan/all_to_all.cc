// AllToAll, direct: every rank sends each peer its shard, packed, unpacks what it receives, and
// copies its own shard.
#include "plan/builder.h"

namespace terse::plan {

Plan all_to_all(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  const Chunks chunks(s, s.count, ranks, ranks * s.count, 2);
  Builder b(Collective::kAllToAll, "AllToAll", s);
  b.keep(self * s.count, self * s.count);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const size_t before = chunks.before(c);
    Step encode{
        .name = "encode", .lane = Lane::kEncode, .after = {before == kNone ? kNone : done[before]}};
    Step exchange{.name = "exchange", .lane = Lane::kCommunicate};
    Step decode{.name = "decode", .lane = Lane::kDecode};
    for (size_t k = 1; k < ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      const Place out = chunks.place(c, 0, to), in = chunks.place(c, 1, from);
      b.push(encode.compute,
             {.inputs = {{b.raw(Region::kSend, to * s.count + r.first), Format::kRaw}},
              .target = out,
              .count = r.count,
              .origin = r.first,
              .shard = static_cast<uint32_t>(to)});
      b.push(exchange.transfers, to, true, out, r.count);
      b.push(exchange.transfers, from, false, in, r.count);
      b.push(decode.compute, {.inputs = {{in}},
                              .target = b.raw(Region::kRecv, from * s.count + r.first),
                              .target_format = Format::kRaw,
                              .count = r.count});
    }
    exchange.after = {b.add(std::move(encode))};
    decode.after = {b.add(std::move(exchange))};
    done[c] = b.add(std::move(decode));
  }
  return b.take(chunks);
}

}  // namespace terse::plan
