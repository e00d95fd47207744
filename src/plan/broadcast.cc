// Broadcast: the root packs its elements once, and everybody, the root included, unpacks the same
// bytes, so that all hold the same elements.
//
// Direct, for small messages and two ranks: the root sends everything to everyone, in one step.
//
// Shared, for the others: the root sends each of the others a shard, and these share theirs among
// themselves. The root then sends one packed message instead of n-1, and the others at most one.
// What is packed is the same in both: elements are numbered alike for the random numbers.
#include "plan/broadcast.h"

namespace terse::plan {
namespace {

class Shared {
 public:
  explicit Shared(const Shape& s)
      : s_(s),
        others_(static_cast<size_t>(s.ranks) - 1),
        is_root_(s.rank == s.root),
        own_(static_cast<size_t>(s.rank - s.root - 1 + s.ranks) % s.ranks),
        shard_(Chunks::round_up((s.count + others_ - 1) / others_, s.packing.quantum)),
        chunks_(s, shard_, others_, s.count, 1),
        b_(Collective::kBroadcast, "shared Broadcast", s) {}

  Plan build() {
    // A chunk is shared along with the scattering of the chunk `lag` later, so that the root's link
    // does not wait for the others'. A chunk's slot is in use until it has been shared.
    const size_t lag = std::min<size_t>(2, chunks_.slots() - 1);
    std::vector<size_t> scattered(chunks_.count(), kNone), shared(scattered), decoded(scattered);
    std::vector<size_t> encoded(scattered);
    for (size_t t = 0; t < chunks_.count() + lag; ++t) {
      Step exchange{.name = "exchange", .lane = Lane::kCommunicate};
      if (t < chunks_.count()) {
        const size_t before = chunks_.before(t);
        if (before != kNone) exchange.after = {decoded[before], shared[before]};
        if (is_root_) encoded[t] = encode(t, exchange.after);
        exchange.after.push_back(encoded[t]);
        scatter(t, exchange);
      }
      if (lag > 0 && t >= lag) {
        if (!is_root_) exchange.after.push_back(scattered[t - lag]);
        share(t - lag, exchange);
      }
      size_t last = b_.add(std::move(exchange));
      if (t < chunks_.count()) scattered[t] = last;
      if (lag == 0) {
        Step step{.name = "share",
                  .lane = Lane::kCommunicate,
                  .after = {is_root_ ? kNone : scattered[t]}};
        share(t, step);
        last = b_.add(std::move(step));
      }
      if (t < lag) continue;
      const size_t c = t - lag;
      shared[c] = is_root_ ? scattered[c] : last;  // the root does not share
      decoded[c] = decode(c, is_root_ ? encoded[c] : last);
    }
    return b_.take(chunks_);
  }

 private:
  Place place(size_t c, size_t p) const { return chunks_.place(c, 0, p); }

  // Owner of shard `p`.
  int owner(size_t p) const { return (s_.root + 1 + static_cast<int>(p)) % s_.ranks; }

  size_t encode(size_t c, const std::vector<size_t>& after) {
    Step step{"encode", Lane::kEncode, after, {}, {}};
    for (size_t p = 0; p < others_; ++p)
      b_.push(step.compute, pack_broadcast(b_, s_, p * shard_, chunks_.range(p, c), place(c, p)));
    return b_.add(std::move(step));
  }

  void scatter(size_t c, Step& step) {
    if (!is_root_)
      return b_.push(step.transfers, s_.root, false, place(c, own_), chunks_.range(own_, c).count);
    for (size_t p = 0; p < others_; ++p)
      b_.push(step.transfers, owner(p), true, place(c, p), chunks_.range(p, c).count);
  }

  void share(size_t c, Step& step) {
    for (size_t k = 1; k < others_ && !is_root_; ++k) {
      const size_t to = (own_ + k) % others_, from = (own_ + others_ - k) % others_;
      b_.push(step.transfers, owner(to), true, place(c, own_), chunks_.range(own_, c).count);
      b_.push(step.transfers, owner(from), false, place(c, from), chunks_.range(from, c).count);
    }
  }

  size_t decode(size_t c, size_t after) {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = {after}};
    for (size_t p = 0; p < others_; ++p)
      b_.push(step.compute, unpack_broadcast(b_, p * shard_, chunks_.range(p, c), place(c, p)));
    return b_.add(std::move(step));
  }

  const Shape& s_;
  const size_t others_;
  const bool is_root_;
  const size_t own_;  // shard of a rank other than the root
  const size_t shard_;
  const Chunks chunks_;
  Builder b_;
};

}  // namespace

Plan shared_broadcast(const Shape& s) { return Shared(s).build(); }

Plan direct_broadcast(const Shape& s) {
  const bool is_root = s.rank == s.root;
  const Chunks chunks(s, s.count, 1, s.count, 1);
  Builder b(Collective::kBroadcast, "direct Broadcast", s);
  std::vector<size_t> sent(chunks.count(), kNone), decoded(sent);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const Place place = chunks.place(c, 0, 0);
    const size_t before = chunks.before(c);
    std::vector<size_t> free;
    if (before != kNone) free = {sent[before], decoded[before]};
    Step encode{"encode", Lane::kEncode, free, {}, {}};
    Step exchange{"broadcast", Lane::kCommunicate, free, {}, {}};
    if (is_root) {
      b.push(encode.compute, pack_broadcast(b, s, 0, r, place));
      for (int k = 1; k < s.ranks; ++k)
        b.push(exchange.transfers, neighbours(s, k).to, true, place, r.count);
    } else {
      b.push(exchange.transfers, s.root, false, place, r.count);
    }
    const size_t encoded = b.add(std::move(encode));
    exchange.after.push_back(encoded);
    sent[c] = b.add(std::move(exchange));
    Step decode{.name = "decode", .lane = Lane::kDecode, .after = {is_root ? encoded : sent[c]}};
    b.push(decode.compute, unpack_broadcast(b, 0, r, place));
    decoded[c] = b.add(std::move(decode));
  }
  return b.take(chunks);
}

}  // namespace terse::plan
