// One-shot AllReduce, for small messages and two ranks: every rank packs its whole message once and
// sends it to all; each adds up the same packed contributions, its own included, in the order of
// the ranks. One step and one quantization, but (n-1) packed messages sent.
#include "plan/builder.h"

namespace terse::plan {

Plan one_shot_all_reduce(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  // A chunk holds the same elements of every rank.
  const Chunks chunks(s, s.count, ranks, s.count, ranks);
  const size_t row = ranks * chunks.stride();
  const auto place = [&](size_t c, size_t p) {
    return Place{Region::kScratch, c % chunks.slots() * row + p * chunks.stride()};
  };

  Builder b("one-shot AllReduce", s);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    Step encode{"encode", Lane::kEncode, {}, {}, {}};
    if (c >= chunks.slots()) encode.after = {done[c - chunks.slots()]};
    b.push(encode.compute, {.inputs = {{b.raw(Region::kSend, r.first), false}},
                            .target = place(c, self),
                            .count = r.count,
                            .origin = r.first,
                            .piece = static_cast<uint32_t>(self)});
    Step share{"share", Lane::kCommunicate, {b.add(std::move(encode))}, {}, {}};
    Compute sum{.inputs = {},
                .target = b.raw(Region::kRecv, r.first),
                .packed_target = false,
                .final_sum = true,
                .count = r.count};
    for (size_t p = 0; p < ranks; ++p) sum.inputs.push_back({place(c, p), true});
    for (size_t k = 1; k < ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      b.push(share.transfers, to, true, place(c, self), r.count);
      b.push(share.transfers, from, false, place(c, from), r.count);
    }
    Step reduce{"reduce", Lane::kDecode, {b.add(std::move(share))}, {}, {}};
    b.push(reduce.compute, std::move(sum));
    done[c] = b.add(std::move(reduce));
  }
  Plan& plan = b.plan();
  plan.scratch_bytes = chunks.slots() * row;
  plan.send_bytes = plan.recv_bytes = s.count * s.element_bytes;
  plan.raw_bytes = 2 * (ranks - 1) * plan.send_bytes / ranks;
  return b.take();
}

}  // namespace terse::plan
