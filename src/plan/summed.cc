// Sums that NCCL itself forms (Global-QSGD, arXiv 2305.18627): its rings, trees and switches do for
// packed elements what they do for others. All ranks agree on each block's largest parameters, by a
// native AllReduce; each packs what it has on the grid that they give; and a native collective adds
// up the codes, of which as many as there are ranks fit in one. Each contribution is quantized
// once, and what a rank sends is what NCCL would send of so many bytes.
//
// The parameters of several chunks are agreed on together (spans.h), while the codes of earlier
// ones are summed.
//
// In scratch a chunk has a slot, with the codes of each shard, side by side; behind the slots a
// span has one, with the parameters of each of its chunks, and there of each shard.
#include "plan/builder.h"
#include "plan/pipeline.h"
#include "plan/spans.h"

namespace terse::plan {
namespace {

class Summed {
 public:
  Summed(Collective collective, const char* algorithm, const Shape& s)
      : s_(s),
        collective_(collective),
        receives_(collective != Collective::kReduce || s.rank == s.root),
        shards_(traits(collective).send.per_rank ? s.ranks : 1),
        own_(shards_ == 1 ? 0 : s.rank),
        chunks_(s, s.count, shards_, shards_ * s.count, 1),
        spans_(spans_of(chunks_.count())),
        slot_bytes_(aligned(shards_ * code_bytes(0))),
        span_bytes_(aligned(longest_span() * shards_ * param_bytes(0))),
        b_(collective, algorithm, s),
        agreed_(spans_.size(), kNone),
        packed_(chunks_.count(), kNone),
        done_(packed_) {
    for (size_t k = 0; k < spans_.size(); ++k)
      for (size_t i = 0; i < spans_[k].count; ++i) span_of_.push_back(k);
  }

  Plan build() {
    pipeline(
        chunks_.count(), 2, lag_of(chunks_, 2), [](size_t) {},
        [&](std::span<const Turn> turns) { exchange(turns); });
    return b_.take(chunks_.slots() * slot_bytes_ + kSpans * span_bytes_);
  }

 private:
  // Spans with parameters in scratch: one in use, and the next ones.
  static constexpr size_t kSpans = 3;

  static size_t aligned(size_t bytes) { return Chunks::round_up(bytes, Chunks::kAlignment); }

  // Bytes of a shard's codes, and of its parameters.
  size_t code_bytes(size_t c) const { return s_.packing.code_bytes(range(c).count); }
  size_t param_bytes(size_t c) const { return s_.packing.param_bytes(range(c).count); }

  size_t longest_span() const { return std::ranges::max(spans_, {}, &Span::count).count; }
  const Span& span_at(size_t c) const { return spans_[span_of_[c]]; }
  bool begins_span(size_t c) const { return span_at(c).first == c; }

  Range range(size_t c) const { return chunks_.range(0, c); }  // of any shard
  Place codes(size_t c, size_t p) const {
    return {Region::kScratch, c % chunks_.slots() * slot_bytes_ + p * code_bytes(c)};
  }
  // All chunks but the last one have one length.
  Place params(size_t c, size_t p) const {
    const size_t slot = chunks_.slots() * slot_bytes_ + span_of_[c] % kSpans * span_bytes_;
    const size_t chunk = (c - span_at(c).first) * shards_ * param_bytes(0);
    return {Region::kScratch, slot + chunk + p * param_bytes(c)};
  }
  size_t params_offset(size_t c, size_t p) const {
    return params(c, p).offset - codes(c, p).offset;
  }

  // Exchange of a span that begins, and of a chunk whose codes are there.
  void exchange(std::span<const Turn> turns) {
    Step step{.name = "exchange", .lane = Lane::kCommunicate};
    for (const auto& [phase, c] : turns) {
      if (phase == 0 && !begins_span(c)) continue;
      step.after.push_back(phase == 0 ? find(c) : packed_[c]);
      step.natives.push_back(phase == 0 ? agreement(c) : sum(c));
    }
    const size_t exchanged = step.natives.empty() ? kNone : b_.add(std::move(step));
    for (const auto& [phase, c] : turns) {
      if (phase == 0 && begins_span(c)) agreed_[span_of_[c]] = exchanged;
      phase == 0 ? pack(c) : unpack(c, exchanged);
    }
  }

  std::vector<Compute> each_shard(size_t c, Part part) const {
    std::vector<Compute> computes;
    for (size_t p = 0; p < shards_; ++p)
      computes.push_back(
          {.inputs = {{b_.raw(Region::kSend, p * s_.count + range(c).first), Format::kRaw}},
           .target = codes(c, p),
           .part = part,
           .params_offset = params_offset(c, p),
           .count = range(c).count,
           .origin = range(c).first,
           .shard = static_cast<uint32_t>(p),
           .shared_draw = b_.if_shared(shared_draw_of_all(s_.rank, s_.ranks))});
    return computes;
  }

  // Finds the own parameters of the span that begins with a chunk.
  size_t find(size_t first) {
    const size_t span = span_of_[first];
    Step step{.name = "find", .lane = Lane::kEncode};
    if (span >= kSpans) step.after = {done_[spans_[span - kSpans + 1].first - 1]};
    for (size_t c = first; c < first + spans_[span].count; ++c)
      std::ranges::move(each_shard(c, Part::kParams), std::back_inserter(step.compute));
    return b_.add(std::move(step));
  }

  Native agreement(size_t first) const {
    size_t bytes = 0;
    for (size_t c = first; c < first + span_at(first).count; ++c) bytes += shards_ * param_bytes(c);
    return b_.agreement(params(first, 0), bytes);
  }

  // Packs on the decode lane: the parameters of later chunks need not wait for it.
  void pack(size_t c) {
    const size_t before = chunks_.before(c);
    Step step{.name = "pack", .lane = Lane::kDecode, .after = {agreed_[span_of_[c]]}};
    if (before != kNone) step.after.push_back(done_[before]);
    step.compute = each_shard(c, Part::kCodes);
    packed_[c] = b_.add(std::move(step));
  }

  Native sum(size_t c) const {
    return {.collective = collective_,
            .send = codes(c, 0),
            .recv = codes(c, own_),
            .count = code_bytes(c) / element_bytes(Element::kUint32, s_.element_bytes),
            .root = s_.root,
            .element = Element::kUint32,
            .operation = Operation::kSum};
  }

  void unpack(size_t c, size_t summed) {
    done_[c] = summed;
    if (!receives_) return;
    Step step{.name = "decode", .lane = Lane::kDecode, .after = {summed}};
    step.compute = {{.inputs = {{codes(c, own_)}},
                     .target = b_.raw(Region::kRecv, range(c).first),
                     .target_format = Format::kRaw,
                     .params_offset = params_offset(c, own_),
                     .averages = true,
                     .count = range(c).count}};
    done_[c] = b_.add(std::move(step));
  }

  const Shape& s_;
  const Collective collective_;
  const bool receives_;
  const size_t shards_, own_;
  const Chunks chunks_;
  const std::vector<Span> spans_;
  std::vector<size_t> span_of_;  // by chunk
  const size_t slot_bytes_, span_bytes_;
  Builder b_;
  std::vector<size_t> agreed_;         // steps, by span
  std::vector<size_t> packed_, done_;  // and by chunk
};

}  // namespace

Plan summed_all_reduce(const Shape& s) {
  return Summed(Collective::kAllReduce, "summed AllReduce", s).build();
}

Plan summed_reduce_scatter(const Shape& s) {
  return Summed(Collective::kReduceScatter, "summed ReduceScatter", s).build();
}

Plan summed_reduce(const Shape& s) {
  return Summed(Collective::kReduce, "summed Reduce", s).build();
}

}  // namespace terse::plan
