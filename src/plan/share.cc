// Algorithms in which every rank packs what it has once and sends it to all.
//
// AllGather: each decodes all shards, its own included, so that everybody holds the same bytes.
//
// One-shot AllReduce, for small messages and two ranks: each adds up the same packed contributions,
// its own included, in the order of the ranks. One step and one quantization, but (n-1) packed
// messages sent.
#include "plan/builder.h"

namespace terse::plan {
namespace {

// Shares the `count` elements that each rank has, with this draw. use() gives the computes of a
// range of all of them, whose packed form by rank p lies at chunks.place(chunk, 0, p).
template <class Use>
void share(Builder& b, const Shape& s, const Chunks& chunks, std::optional<SharedDraw> draw,
           const char* name, Use use) {
  const size_t self = s.rank;
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const size_t before = chunks.before(c);
    Step encode{
        .name = "encode", .lane = Lane::kEncode, .after = {before == kNone ? kNone : done[before]}};
    b.push(encode.compute, {.inputs = {{b.raw(Region::kSend, r.first), Format::kRaw}},
                            .target = chunks.place(c, 0, self),
                            .count = r.count,
                            .origin = r.first,
                            .shard = static_cast<uint32_t>(draw ? 0 : self),
                            .shared_draw = draw});
    Step share{.name = "share", .lane = Lane::kCommunicate, .after = {b.add(std::move(encode))}};
    for (int k = 1; k < s.ranks; ++k) {
      const auto [to, from] = neighbours(s, k);
      b.push(share.transfers, to, true, chunks.place(c, 0, self), r.count);
      b.push(share.transfers, from, false, chunks.place(c, 0, from), r.count);
    }
    Step last{.name = name, .lane = Lane::kDecode, .after = {b.add(std::move(share))}};
    for (Compute& compute : use(c, r)) b.push(last.compute, std::move(compute));
    done[c] = b.add(std::move(last));
  }
}

}  // namespace

Plan all_gather(const Shape& s) {
  const size_t ranks = s.ranks;
  const Chunks chunks(s, s.count, ranks, ranks * s.count, 1);
  Builder b(Collective::kAllGather, "AllGather", s);
  share(b, s, chunks, {}, "decode", [&](size_t c, const Range& r) {
    std::vector<Compute> decode;
    for (size_t p = 0; p < ranks; ++p)
      decode.push_back({.inputs = {{chunks.place(c, 0, p)}},
                        .target = b.raw(Region::kRecv, p * s.count + r.first),
                        .target_format = Format::kRaw,
                        .count = r.count});
    return decode;
  });
  return b.take(chunks);
}

Plan one_shot_all_reduce(const Shape& s) {
  const size_t ranks = s.ranks;
  // A chunk holds the same elements of every rank.
  const Chunks chunks(s, s.count, ranks, s.count, 1);
  Builder b(Collective::kAllReduce, "one-shot AllReduce", s);
  share(b, s, chunks, b.if_shared(shared_draw_of_all(s.rank, ranks)), "reduce",
        [&](size_t c, const Range& r) {
          Compute sum{.inputs = {},
                      .target = b.raw(Region::kRecv, r.first),
                      .target_format = Format::kRaw,
                      .averages = true,
                      .count = r.count};
          for (size_t p = 0; p < ranks; ++p) sum.inputs.push_back({chunks.place(c, 0, p)});
          return std::vector<Compute>{std::move(sum)};
        });
  return b.take(chunks);
}

}  // namespace terse::plan
