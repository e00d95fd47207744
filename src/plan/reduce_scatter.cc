// ReduceScatter as one direct all-to-all: every rank sends each peer its shard, packed, and adds
// what it receives to its own shard, exact. Each contribution is quantized once.
#include "plan/builder.h"

namespace terse::plan {

Plan reduce_scatter(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  const Chunks chunks(s, s.count, ranks, ranks * s.count, 2);
  const auto out = [&](size_t c, size_t p) { return chunks.place(c, 0, p); };
  const auto in = [&](size_t c, size_t p) { return chunks.place(c, 1, p); };

  Builder b(Collective::kReduceScatter, "ReduceScatter", s);
  const auto shard = [&](size_t p, const Range& r) {
    return Input{b.raw(Region::kSend, p * s.count + r.first), Format::kRaw};
  };
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const size_t before = chunks.before(c);
    Step encode{
        .name = "encode", .lane = Lane::kEncode, .after = {before == kNone ? kNone : done[before]}};
    Step exchange{.name = "exchange", .lane = Lane::kCommunicate};
    for (size_t k = 1; k < ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      b.push(encode.compute, {.inputs = {shard(to, r)},
                              .target = out(c, to),
                              .count = r.count,
                              .origin = r.first,
                              .shard = static_cast<uint32_t>(to),
                              .shared_draw = b.if_shared(shared_draw_without(to, self, ranks))});
      b.push(exchange.transfers, to, true, out(c, to), r.count);
      b.push(exchange.transfers, from, false, in(c, from), r.count);
    }
    exchange.after = {b.add(std::move(encode))};
    Compute sum{.inputs = {},
                .target = b.raw(Region::kRecv, r.first),
                .target_format = Format::kRaw,
                .averages = true,
                .count = r.count};
    for (size_t p = 0; p < ranks; ++p)
      sum.inputs.push_back(p == self ? shard(p, r) : Input{in(c, p)});
    Step reduce{.name = "reduce", .lane = Lane::kDecode, .after = {b.add(std::move(exchange))}};
    b.push(reduce.compute, std::move(sum));
    done[c] = b.add(std::move(reduce));
  }
  return b.take(chunks);
}

}  // namespace terse::plan
