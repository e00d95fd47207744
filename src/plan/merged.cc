// Sums that the owners of shards form of codes (Global-QSGD, arXiv 2305.18627). All ranks agree on
// each block's largest parameters, by a native AllReduce; each packs what it has on the grid that
// they give, and sends every peer the codes of that peer's shard, alone; the owner merges those of
// all ranks, by integers, and sends on what they have become; everybody, itself included, decodes
// the same codes. Reduce is the same, but that only the root gets all shards; and in ReduceScatter
// each rank keeps its own.
//
// The parameters of a chunk are agreed on, and those after it found, while the codes of those
// before it travel.
//
// In scratch a chunk has a slot of two rows of codes, a shard per rank in each, and the parameters
// of all shards, side by side:
//   out: the peers' shards, to send; then, in its own place, the merged shard, and the peers' ones
//   in:  the own shard of all ranks, to be merged
#include "plan/builder.h"
#include "plan/pipeline.h"

namespace terse::plan {
namespace {

class Merged {
 public:
  Merged(Collective collective, const char* algorithm, const Shape& s)
      : s_(s),
        keeps_shard_(traits(collective).send.per_rank),
        to_root_(collective == Collective::kReduce),
        receives_(!to_root_ || s.rank == s.root),
        sends_(!to_root_ || s.rank != s.root),
        ranks_(s.ranks),
        self_(s.rank),
        shard_(keeps_shard_ ? s.count
                            : Chunks::round_up((s.count + ranks_ - 1) / ranks_, s.packing.quantum)),
        chunks_(s, shard_, ranks_, keeps_shard_ ? ranks_ * s.count : s.count, 2),
        code_stride_(aligned(code_bytes(chunks_.range(0, 0).count))),
        slot_bytes_(2 * ranks_ * code_stride_ +
                    aligned(ranks_ * param_bytes(chunks_.range(0, 0).count))),
        b_(collective, algorithm, s),
        found_(chunks_.count(), kNone),
        packed_(found_),
        sent_(found_),
        merged_(found_),
        shared_(found_),
        decoded_(found_) {}

  Plan build() {
    const size_t phases = keeps_shard_ ? 2 : 3;
    pipeline(
        chunks_.count(), phases, lag_of(chunks_, phases), [&](size_t c) { find(c); },
        [&](std::span<const Turn> turns) { exchange(turns); });
    return b_.take(chunks_.slots() * slot_bytes_);
  }

 private:
  static size_t aligned(size_t bytes) { return Chunks::round_up(bytes, Chunks::kAlignment); }

  // Bytes of a shard.
  size_t code_bytes(size_t count) const { return s_.packing.code_bytes(count); }
  size_t param_bytes(size_t count) const { return s_.packing.param_bytes(count); }

  Place codes(size_t c, size_t row, size_t p) const {
    return {Region::kScratch,
            c % chunks_.slots() * slot_bytes_ + (row * ranks_ + p) * code_stride_};
  }
  Place out(size_t c, size_t p) const { return codes(c, 0, p); }
  Place in(size_t c, size_t p) const { return codes(c, 1, p); }
  // Short and empty shards are the last ones.
  Place params(size_t c, size_t p) const {
    return {Region::kScratch, codes(c, 2, 0).offset + p * param_bytes(chunks_.range(0, c).count)};
  }
  Place raw(Region region, size_t p, size_t first) const {
    return b_.raw(region, p * shard_ + first);
  }

  // The own contributions, each where it is sent from.
  std::vector<Compute> each_shard(size_t c, Part part) const {
    std::vector<Compute> computes;
    for (size_t p = 0; p < ranks_; ++p) {
      const Range r = chunks_.range(p, c);
      const Place target = p == self_ ? in(c, p) : out(c, p);
      b_.push(computes, {.inputs = {{raw(Region::kSend, p, r.first), Format::kRaw}},
                         .target = target,
                         .part = part,
                         .params_offset = params(c, p).offset - target.offset,
                         .count = r.count,
                         .origin = r.first,
                         .shard = static_cast<uint32_t>(p)});
    }
    return computes;
  }

  // Step of the chunk whose slot it takes.
  size_t before(const std::vector<size_t>& steps, size_t c) const {
    return chunks_.before(c) == kNone ? kNone : steps[chunks_.before(c)];
  }

  void find(size_t c) {
    Step step{.name = "find",
              .lane = Lane::kEncode,
              .after = {before(receives_ ? decoded_ : packed_, c)}};
    step.compute = each_shard(c, Part::kParams);
    found_[c] = b_.add(std::move(step));
  }

  // Native collectives and messages between ranks have steps of their own.
  void exchange(std::span<const Turn> turns) {
    Step step{.name = "exchange", .lane = Lane::kCommunicate};
    for (const auto& [phase, c] : turns) {
      if (phase == 0) agree(c);
      if (phase == 1) first_shot(c, step);
      if (phase == 2) second_shot(c, step);
    }
    if (turns.back().phase == 0) return;
    const size_t exchanged = b_.add(std::move(step));
    for (const auto& [phase, c] : turns) {
      if (phase == 1) merge(c, exchanged);
      if (phase == 2) share(c, exchanged);
    }
  }

  void agree(size_t c) {
    size_t bytes = 0;
    for (size_t p = 0; p < ranks_; ++p) bytes += param_bytes(chunks_.range(p, c).count);
    Step step{.name = "agree", .lane = Lane::kCommunicate, .after = {found_[c]}};
    step.natives = {b_.agreement(params(c, 0), bytes)};
    // Goes on the decode lane: the parameters of later chunks need not wait for it.
    Step pack{.name = "pack",
              .lane = Lane::kDecode,
              .after = {b_.add(std::move(step)), before(sent_, c)}};
    pack.compute = each_shard(c, Part::kCodes);
    packed_[c] = b_.add(std::move(pack));
  }

  void send_codes(Step& step, size_t peer, bool send, const Place& place, size_t count) const {
    if (count == 0) return;
    step.transfers.push_back({static_cast<int>(peer), send, place, code_bytes(count)});
  }

  void first_shot(size_t c, Step& step) const {
    step.after.push_back(packed_[c]);
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      send_codes(step, to, true, out(c, to), chunks_.range(to, c).count);
      send_codes(step, from, false, in(c, from), chunks_.range(self_, c).count);
    }
  }

  void merge(size_t c, size_t exchanged) {
    sent_[c] = exchanged;
    const Range r = chunks_.range(self_, c);
    Compute merge{.inputs = {},
                  .target = out(c, self_),
                  .part = Part::kMerged,
                  .count = r.count,
                  .origin = r.first,
                  .shard = static_cast<uint32_t>(self_),
                  .stage = 1};
    for (size_t p = 0; p < ranks_; ++p) merge.inputs.push_back({in(c, p)});
    Step step{.name = "merge", .lane = Lane::kDecode, .after = {exchanged, before(shared_, c)}};
    b_.push(step.compute, std::move(merge));
    merged_[c] = b_.add(std::move(step));
    if (keeps_shard_) decode(c, merged_[c]);
  }

  // Receives where the first shot sent from, also on a rank that merges nothing.
  void second_shot(size_t c, Step& step) const {
    step.after.insert(step.after.end(),
                      {sends_ ? merged_[c] : kNone, receives_ ? sent_[c] : kNone});
    for (size_t k = 1; k < ranks_; ++k) {
      const auto [to, from] = neighbours(s_, k);
      if (!to_root_ || static_cast<int>(to) == s_.root)
        send_codes(step, to, true, out(c, self_), chunks_.range(self_, c).count);
      if (receives_) send_codes(step, from, false, out(c, from), chunks_.range(from, c).count);
    }
  }

  void share(size_t c, size_t exchanged) {
    shared_[c] = exchanged;
    if (receives_) decode(c, exchanged);
  }

  void decode(size_t c, size_t after) {
    Step step{.name = "decode", .lane = Lane::kDecode, .after = {after}};
    for (size_t p = 0; p < ranks_; ++p) {
      if (keeps_shard_ && p != self_) continue;
      const Range r = chunks_.range(p, c);
      b_.push(step.compute, {.inputs = {{out(c, p)}},
                             .target = raw(Region::kRecv, keeps_shard_ ? 0 : p, r.first),
                             .target_format = Format::kRaw,
                             .params_offset = params(c, p).offset - out(c, p).offset,
                             .averages = true,
                             .count = r.count});
    }
    decoded_[c] = b_.add(std::move(step));
  }

  const Shape& s_;
  const bool keeps_shard_;       // no second shot
  const bool to_root_;           // the second shot goes to the root alone
  const bool receives_, sends_;  // in the second shot
  const size_t ranks_, self_, shard_;
  const Chunks chunks_;
  const size_t code_stride_, slot_bytes_;
  Builder b_;
  std::vector<size_t> found_, packed_, sent_, merged_, shared_, decoded_;  // steps, by chunk
};

}  // namespace

Plan merged_all_reduce(const Shape& s) {
  return Merged(Collective::kAllReduce, "merged AllReduce", s).build();
}

Plan merged_reduce_scatter(const Shape& s) {
  return Merged(Collective::kReduceScatter, "merged ReduceScatter", s).build();
}

Plan merged_reduce(const Shape& s) {
  return Merged(Collective::kReduce, "merged Reduce", s).build();
}

}  // namespace terse::plan
