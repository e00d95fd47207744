// Two-shot AllReduce. First shot: every rank sends each peer that peer's shard, packed, and reduces
// its own shard from what it receives. Second shot: it packs the reduced shard again and sends it
// to all; everybody, itself included, decodes the same bytes. Each element is quantized twice, and
// 2 (n-1)/n of the packed message is sent, as in a ring, in two steps instead of 2 (n-1).
//
// The second shot may have a format of its own. If that has other bodies, the owner packs its own
// contribution, too, and the sum takes a detour in fp32; if it is only rounded otherwise, nothing
// else changes.
//
// Reduce is the same but for the second shot, in which only the root receives. It packs its own
// shard too, so that all elements are equally accurate, and has the result that AllReduce has.
//
// In scratch a chunk has a slot of two rows, each with a packed shard per rank:
//   out: shards to send; then, in its own place, the rank's reduced shard, and the peers' ones
//   in:  shards received, to be reduced; in its own place, the rank's own if it is packed
// Behind all slots are fp32 sums of one shard, if the formats have other bodies.
#include "plan/builder.h"

namespace terse::plan {
namespace {

class TwoShot {
 public:
  TwoShot(Collective collective, const char* algorithm, const Shape& s)
      : s_(s),
        to_root_(collective == Collective::kReduce),
        receives_(!to_root_ || s.rank == s.root),
        sends_(!to_root_ || s.rank != s.root),
        ranks_(s.ranks),
        self_(s.rank),
        repacks_(s.sum.repacks()),
        shard_(Chunks::round_up((s.count + ranks_ - 1) / ranks_,
                                std::max(s.packing.quantum, s.sum.packing.quantum))),
        chunks_(s, shard_, ranks_, s.count, 2),
        b_(collective, algorithm, s) {}

  Plan build() {
    // The second shot of a chunk goes along with the first shot of the chunk `lag` later: its
    // reduction has that long to finish while the network stays busy. A chunk's slot is free again
    // after its second shot, so the lag is less than the slots.
    const size_t lag = std::min<size_t>(4, chunks_.slots() - 1);
    // Steps that a chunk's second shot, and the next use of its slot, wait for. The second shot
    // receives where the first one sent from, also on a rank that reduces nothing.
    std::vector<size_t> sent(chunks_.count(), kNone), reduced(sent), shared(sent), decoded(sent);
    for (size_t t = 0; t < chunks_.count() + lag; ++t) {
      Step exchange{.name = "exchange", .lane = Lane::kCommunicate};
      size_t reduce_after = kNone;
      if (t < chunks_.count()) {
        const size_t before = chunks_.before(t);
        size_t encode_after = kNone, exchange_after = kNone;
        if (before != kNone && receives_) {
          encode_after = exchange_after = decoded[before];
        } else if (before != kNone) {
          encode_after = sent[before];
          exchange_after = reduced[before];
          reduce_after = shared[before];
        }
        const size_t own_free = repacks_ && before != kNone ? reduced[before] : kNone;
        exchange.after = {encode(t, encode_after, own_free), exchange_after};
        first_shot(t, exchange);
      }
      if (lag > 0 && t >= lag) {
        exchange.after.insert(exchange.after.end(), {sends_ ? reduced[t - lag] : kNone,
                                                     receives_ ? sent[t - lag] : kNone});
        second_shot(t - lag, exchange);
      }
      size_t exchanged = b_.add(std::move(exchange));
      if (t < chunks_.count()) {
        sent[t] = exchanged;
        reduced[t] = reduce(t, exchanged, reduce_after);
      }
      if (lag == 0) {
        Step share{.name = "share", .lane = Lane::kCommunicate};
        share.after = {sends_ ? reduced[t] : kNone, receives_ ? sent[t] : kNone};
        second_shot(t, share);
        exchanged = b_.add(std::move(share));
      }
      if (t < lag) continue;
      shared[t - lag] = exchanged;
      if (receives_) decoded[t - lag] = decode(t - lag, exchanged);
    }
    return b_.take(chunks_.scratch_bytes() + (repacks_ ? sizeof(float) * chunks_.longest() : 0));
  }

 private:
  Place out(size_t c, size_t p) const { return chunks_.place(c, 0, p); }
  Place in(size_t c, size_t p) const { return chunks_.place(c, 1, p); }
  Place raw(Region region, size_t p, size_t first) const {
    return b_.raw(region, p * shard_ + first);
  }

  size_t encode(size_t c, size_t after, size_t own_free) {
    Step step{.name = "encode", .lane = Lane::kEncode, .after = {after, own_free}};
    for (size_t k = repacks_ ? 0 : 1; k < ranks_; ++k) {
      const size_t p = neighbours(s_, k).to;
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{raw(Region::kSend, p, r.first), Format::kRaw}},
                             .target = p == self_ ? in(c, p) : out(c, p),
                             .count = r.count,
                             .origin = r.first,
                             .shard = static_cast<uint32_t>(p),
                             .shared_draw = b_.if_shared(draw_for(p))});
    }
    return b_.add(std::move(step));
  }

  std::optional<SharedDraw> draw_for(size_t owner) const {
    return repacks_ ? shared_draw_of_all(self_, ranks_) : shared_draw_without(owner, self_, ranks_);
  }

  void first_shot(size_t c, Step& step) {
    const size_t own = chunks_.range(self_, c).count;
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      b_.push(step.transfers, to, true, out(c, to), chunks_.range(to, c).count);
      b_.push(step.transfers, from, false, in(c, from), own);
    }
  }

  size_t reduce(size_t c, size_t exchanged, size_t slot_free) {
    Step step{.name = "reduce", .lane = Lane::kDecode, .after = {exchanged, slot_free}};
    const Range r = chunks_.range(self_, c);
    Compute sum{.inputs = {},
                .target = out(c, self_),
                .target_format = s_.sum.format,
                .averages = true,
                .count = r.count,
                .origin = r.first,
                .shard = static_cast<uint32_t>(self_),
                .stage = 1};
    for (size_t p = 0; p < ranks_; ++p)
      sum.inputs.push_back(p == self_ && !repacks_
                               ? Input{raw(Region::kSend, p, r.first), Format::kRaw}
                               : Input{in(c, p)});
    if (repacks_) sum.sums = Place{Region::kScratch, chunks_.scratch_bytes()};
    b_.push(step.compute, std::move(sum));
    return b_.add(std::move(step));
  }

  void second_shot(size_t c, Step& step) {
    const size_t own = chunks_.range(self_, c).count;
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      if (!to_root_ || static_cast<int>(to) == s_.root)
        b_.push(step.transfers, to, true, out(c, self_), own, s_.sum.format);
      if (receives_)
        b_.push(step.transfers, from, false, out(c, from), chunks_.range(from, c).count,
                s_.sum.format);
    }
  }

  size_t decode(size_t c, size_t after) {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = {after}};
    for (size_t p = 0; p < ranks_; ++p) {
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{out(c, p), s_.sum.format}},
                             .target = raw(Region::kRecv, p, r.first),
                             .target_format = Format::kRaw,
                             .count = r.count});
    }
    return b_.add(std::move(step));
  }

  const Shape& s_;
  const bool to_root_;           // the second shot goes to the root alone
  const bool receives_, sends_;  // in the second shot
  const size_t ranks_, self_;
  const bool repacks_;  // the second shot's format has other bodies
  const size_t shard_;
  const Chunks chunks_;
  Builder b_;
};

}  // namespace

Plan two_shot_all_reduce(const Shape& s) {
  return TwoShot(Collective::kAllReduce, "two-shot AllReduce", s).build();
}

Plan two_shot_reduce(const Shape& s) {
  return TwoShot(Collective::kReduce, "two-shot Reduce", s).build();
}

}  // namespace terse::plan
