// Reduce in one step, for small messages and two ranks: every rank sends the root all it has,
// packed, and the root adds that to its own, exact. Each contribution is quantized once.
#include "plan/builder.h"

namespace terse::plan {

Plan direct_reduce(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  const bool is_root = s.rank == s.root;
  // A chunk holds the same elements of every rank.
  const Chunks chunks(s, s.count, ranks, s.count, 1, is_root ? ranks : 1);
  Builder b(Collective::kReduce, "direct Reduce", s);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const Input own{b.raw(Region::kSend, r.first), Format::kRaw};
    const size_t free = chunks.before(c) == kNone ? kNone : done[chunks.before(c)];
    Step exchange{.name = "gather", .lane = Lane::kCommunicate, .after = {free}};
    if (!is_root) {
      const auto draw = b.if_shared(shared_draw_without(s.root, self, ranks));
      Step encode{.name = "encode", .lane = Lane::kEncode, .after = {free}};
      b.push(encode.compute, {.inputs = {own},
                              .target = chunks.place(c, 0, 0),
                              .count = r.count,
                              .origin = r.first,
                              .shard = static_cast<uint32_t>(draw ? s.root : self),
                              .shared_draw = draw});
      b.push(exchange.transfers, s.root, true, chunks.place(c, 0, 0), r.count);
      exchange.after = {b.add(std::move(encode))};
      done[c] = b.add(std::move(exchange));
      continue;
    }
    for (size_t k = 1; k < ranks; ++k) {
      const size_t from = neighbours(s, k).from;
      b.push(exchange.transfers, from, false, chunks.place(c, 0, from), r.count);
    }
    Compute sum{.inputs = {},
                .target = b.raw(Region::kRecv, r.first),
                .target_format = Format::kRaw,
                .averages = true,
                .count = r.count};
    for (size_t p = 0; p < ranks; ++p)
      sum.inputs.push_back(p == self ? own : Input{chunks.place(c, 0, p)});
    Step reduce{.name = "reduce", .lane = Lane::kDecode, .after = {b.add(std::move(exchange))}};
    b.push(reduce.compute, std::move(sum));
    done[c] = b.add(std::move(reduce));
  }
  return b.take(chunks);
}

}  // namespace terse::plan
