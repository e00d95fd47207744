// Sums that NCCL itself forms (Global-QSGD, arXiv 2305.18627): its rings, trees and switches do for
// packed elements what they do for others. All ranks agree on each block's largest parameters, by a
// native AllReduce; each packs what it has on the grid that they give; and a native collective adds
// up the codes, of which as many as there are ranks fit in one. Each contribution is quantized
// once, and what a rank sends is what NCCL would send of so many bytes.
//
// The parameters of a chunk are agreed on, and those after it found, while the codes of one before
// it are summed.
//
// In scratch a chunk has a slot: the codes of each shard, side by side, then the parameters of
// each.
#include "plan/builder.h"
#include "plan/pipeline.h"

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
        b_(collective, algorithm, s),
        packed_(chunks_.count(), kNone),
        done_(packed_) {}

  Plan build() {
    std::vector<size_t> found(chunks_.count(), kNone);
    pipeline(
        chunks_, 2, [&](size_t c) { found[c] = find(c); },
        [&](std::span<const Turn> turns) {
          Step step{"exchange", Lane::kCommunicate, {}, {}, {}};
          for (const auto& [phase, c] : turns) {
            step.after.push_back(phase == 0 ? found[c] : packed_[c]);
            step.natives.push_back(phase == 0 ? agreement(c) : sum(c));
          }
          const size_t exchanged = b_.add(std::move(step));
          for (const auto& [phase, c] : turns)
            phase == 0 ? pack(c, exchanged) : unpack(c, exchanged);
        });
    return b_.take(chunks_);
  }

 private:
  // Bytes of a shard's codes, and of its parameters.
  size_t code_bytes(size_t c) const { return s_.packing.shared_grid->code_bytes(range(c).count); }
  size_t param_bytes(size_t c) const { return s_.packing.bytes(range(c).count) - code_bytes(c); }

  Range range(size_t c) const { return chunks_.range(0, c); }  // of any shard
  Place codes(size_t c, size_t p) const {
    return {Region::kScratch, chunks_.place(c, 0, 0).offset + p * code_bytes(c)};
  }
  Place params(size_t c, size_t p) const {
    return {Region::kScratch, codes(c, shards_).offset + p * param_bytes(c)};
  }
  size_t params_offset(size_t c, size_t p) const {
    return params(c, p).offset - codes(c, p).offset;
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
           .shard = static_cast<uint32_t>(p)});
    return computes;
  }

  // The own parameters.
  size_t find(size_t c) {
    const size_t before = chunks_.before(c);
    Step step{"find", Lane::kEncode, {before == kNone ? kNone : done_[before]}, {}, {}};
    step.compute = each_shard(c, Part::kParams);
    return b_.add(std::move(step));
  }

  Native agreement(size_t c) const {
    const Element element = s_.packing.shared_grid->params;
    return {.collective = Collective::kAllReduce,
            .send = params(c, 0),
            .recv = params(c, 0),
            .count = shards_ * param_bytes(c) / element_bytes(element, s_.element_bytes),
            .element = element,
            .operation = Operation::kMax};
  }

  // On the decode lane: so the parameters of later chunks need not wait for it.
  void pack(size_t c, size_t agreed) {
    Step step{"pack", Lane::kDecode, {agreed}, {}, {}};
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
    Step step{"decode", Lane::kDecode, {summed}, {}, {}};
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
  Builder b_;
  std::vector<size_t> packed_, done_;  // steps, by chunk
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
