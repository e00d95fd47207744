// ReduceScatter as one direct all-to-all: every rank sends each peer its piece, packed, and adds up
// what it receives and its own piece, as it is. Each contribution is quantized once.
//
// AllGather: every rank packs its piece, sends it to all, and decodes all pieces, its own included,
// so that everybody holds the same bytes.
#include "plan/builder.h"

namespace terse::plan {

Plan reduce_scatter(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  const Chunks chunks(s, s.count, ranks, ranks * s.count, 2);
  const size_t row = ranks * chunks.stride();
  const auto out = [&](size_t c, size_t p) {
    return Place{Region::kScratch, c % chunks.slots() * 2 * row + p * chunks.stride()};
  };
  const auto in = [&](size_t c, size_t p) {
    return Place{Region::kScratch, (c % chunks.slots() * 2 + 1) * row + p * chunks.stride()};
  };

  Builder b("ReduceScatter", s);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    Step encode{"encode", Lane::kEncode, {}, {}, {}};
    if (c >= chunks.slots()) encode.after = {done[c - chunks.slots()]};
    Step exchange{"exchange", Lane::kCommunicate, {}, {}, {}};
    Compute sum{.inputs = {},
                .target = b.raw(Region::kRecv, r.first),
                .packed_target = false,
                .final_sum = true,
                .count = r.count};
    for (size_t p = 0; p < ranks; ++p) {
      const Place own = b.raw(Region::kSend, p * s.count + r.first);
      sum.inputs.push_back(p == self ? Input{own, false} : Input{in(c, p), true});
    }
    for (size_t k = 1; k < ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      b.push(encode.compute, {.inputs = {{b.raw(Region::kSend, to * s.count + r.first), false}},
                              .target = out(c, to),
                              .count = r.count,
                              .origin = r.first,
                              .piece = static_cast<uint32_t>(to)});
      b.push(exchange.transfers, to, true, out(c, to), r.count);
      b.push(exchange.transfers, from, false, in(c, from), r.count);
    }
    exchange.after = {b.add(std::move(encode))};
    Step reduce{"reduce", Lane::kDecode, {b.add(std::move(exchange))}, {}, {}};
    b.push(reduce.compute, std::move(sum));
    done[c] = b.add(std::move(reduce));
  }
  Plan& plan = b.plan();
  plan.scratch_bytes = chunks.slots() * 2 * row;
  plan.recv_bytes = s.count * s.element_bytes;
  plan.send_bytes = ranks * plan.recv_bytes;
  plan.raw_bytes = (ranks - 1) * plan.recv_bytes;
  return b.take();
}

Plan all_gather(const Shape& s) {
  const size_t ranks = s.ranks, self = s.rank;
  const Chunks chunks(s, s.count, ranks, ranks * s.count, 1);
  const size_t row = ranks * chunks.stride();
  const auto place = [&](size_t c, size_t p) {
    return Place{Region::kScratch, c % chunks.slots() * row + p * chunks.stride()};
  };

  Builder b("AllGather", s);
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
    Step decode{"decode", Lane::kDecode, {}, {}, {}};
    for (size_t p = 0; p < ranks; ++p)
      b.push(decode.compute, {.inputs = {{place(c, p), true}},
                              .target = b.raw(Region::kRecv, p * s.count + r.first),
                              .packed_target = false,
                              .count = r.count});
    for (size_t k = 1; k < ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      b.push(share.transfers, to, true, place(c, self), r.count);
      b.push(share.transfers, from, false, place(c, from), r.count);
    }
    decode.after = {b.add(std::move(share))};
    done[c] = b.add(std::move(decode));
  }
  Plan& plan = b.plan();
  plan.scratch_bytes = chunks.slots() * row;
  plan.send_bytes = s.count * s.element_bytes;
  plan.recv_bytes = ranks * plan.send_bytes;
  plan.raw_bytes = (ranks - 1) * plan.send_bytes;
  return b.take();
}

}  // namespace terse::plan
