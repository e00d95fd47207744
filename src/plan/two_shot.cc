// Two-shot AllReduce. First shot: every rank sends each peer that peer's shard, packed, and reduces
// its own shard from what it receives. Second shot: it packs the reduced shard again and sends it
// to all; everybody, itself included, decodes the same bytes. Each element is quantized twice, and
// 2 (n-1)/n of the packed message is sent, as in a ring, in two steps instead of 2 (n-1).
//
// In scratch a chunk has a slot of two rows, each with a packed piece per rank:
//   out: pieces to send; then, in its own place, the rank's reduced piece, and the peers' ones
//   in:  pieces received, to be reduced
#include "plan/builder.h"

namespace terse::plan {
namespace {

class TwoShot {
 public:
  explicit TwoShot(const Shape& s)
      : s_(s),
        ranks_(s.ranks),
        self_(s.rank),
        shard_(Chunks::round_up((s.count + ranks_ - 1) / ranks_, s.packing.quantum)),
        chunks_(s, shard_, ranks_, s.count, 2),
        b_("two-shot AllReduce", s) {}

  Plan build() {
    // The second shot of a chunk goes along with the first shot of the chunk `lag` later: its
    // reduction has that long to finish while the network stays busy. A chunk's slot is free again
    // after its second shot, so the lag is less than the slots.
    const size_t lag = std::min<size_t>(4, chunks_.slots() - 1);
    // The steps that a chunk's second shot, and the next use of its slot, wait for. The second shot
    // receives where the first one sent from, also on a rank that has nothing to reduce.
    std::vector<size_t> sent(chunks_.count(), kNone), reduced(sent), decoded(sent);
    for (size_t t = 0; t < chunks_.count() + lag; ++t) {
      Step exchange{"exchange", Lane::kCommunicate, {}, {}, {}};
      if (t < chunks_.count()) {
        const size_t before = chunks_.before(t);
        const size_t slot_free = before == kNone ? kNone : decoded[before];
        exchange.after = {encode(t, slot_free), slot_free};
        first_shot(t, exchange);
      }
      if (lag > 0 && t >= lag) {
        exchange.after.insert(exchange.after.end(), {reduced[t - lag], sent[t - lag]});
        second_shot(t - lag, exchange);
      }
      size_t exchanged = b_.add(std::move(exchange));
      if (t < chunks_.count()) {
        sent[t] = exchanged;
        reduced[t] = reduce(t, exchanged);
      }
      if (lag == 0) {
        Step share{"share", Lane::kCommunicate, {reduced[t], sent[t]}, {}, {}};
        second_shot(t, share);
        exchanged = b_.add(std::move(share));
      }
      if (t >= lag) decoded[t - lag] = decode(t - lag, exchanged);
    }
    const size_t message = s_.count * s_.element_bytes;
    return b_.take(chunks_, s_.count, s_.count, 2 * (ranks_ - 1) * message / ranks_);
  }

 private:
  Place out(size_t c, size_t p) const { return chunks_.place(c, 0, p); }
  Place in(size_t c, size_t p) const { return chunks_.place(c, 1, p); }
  Place raw(Region region, size_t p, size_t first) const {
    return b_.raw(region, p * shard_ + first);
  }

  size_t encode(size_t c, size_t after) {
    Step step{"encode", Lane::kEncode, {after}, {}, {}};
    for (size_t k = 1; k < ranks_; ++k) {
      const size_t p = neighbours(s_, k).to;
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{raw(Region::kSend, p, r.first), false}},
                             .target = out(c, p),
                             .count = r.count,
                             .origin = r.first,
                             .piece = static_cast<uint32_t>(p)});
    }
    return b_.add(std::move(step));
  }

  void first_shot(size_t c, Step& step) {
    const size_t own = chunks_.range(self_, c).count;
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      b_.push(step.transfers, to, true, out(c, to), chunks_.range(to, c).count);
      b_.push(step.transfers, from, false, in(c, from), own);
    }
  }

  size_t reduce(size_t c, size_t after) {
    Step step{"reduce", Lane::kDecode, {after}, {}, {}};
    const Range r = chunks_.range(self_, c);
    Compute sum{.inputs = {},
                .target = out(c, self_),
                .final_sum = true,
                .count = r.count,
                .origin = r.first,
                .piece = static_cast<uint32_t>(self_),
                .stage = 1};
    for (size_t p = 0; p < ranks_; ++p)
      sum.inputs.push_back(p == self_ ? Input{raw(Region::kSend, p, r.first), false}
                                      : Input{in(c, p), true});
    b_.push(step.compute, std::move(sum));
    return b_.add(std::move(step));
  }

  void second_shot(size_t c, Step& step) {
    const size_t own = chunks_.range(self_, c).count;
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      b_.push(step.transfers, to, true, out(c, self_), own);
      b_.push(step.transfers, from, false, out(c, from), chunks_.range(from, c).count);
    }
  }

  size_t decode(size_t c, size_t after) {
    Step step{"decode", Lane::kDecode, {after}, {}, {}};
    for (size_t p = 0; p < ranks_; ++p) {
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{out(c, p), true}},
                             .target = raw(Region::kRecv, p, r.first),
                             .packed_target = false,
                             .count = r.count});
    }
    return b_.add(std::move(step));
  }

  const Shape& s_;
  const size_t ranks_, self_, shard_;
  const Chunks chunks_;
  Builder b_;
};

}  // namespace

Plan two_shot_all_reduce(const Shape& s) { return TwoShot(s).build(); }

}  // namespace terse::plan
