#include "summed_reference.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>

#include "codec/codec.h"

namespace terse::test {
namespace {

using codec::Part;

// What one rank sums up, or NCCL does: elements of the message, of all ranks.
struct Range {
  size_t first, count;
  size_t shard;  // for the random numbers
};

class Shard {
 public:
  Shard(const Call& call, const std::vector<Bytes>& sent, const Range& range)
      : call_(call),
        sent_(sent),
        range_(range),
        spec_(require_on_ranks(call.scheme, static_cast<int>(sent.size())).spec),
        layout_(codec::body_layout(spec_, range.count)),
        bodies_(sent.size(), Bytes(layout_.size)) {
    compressible(call.datatype, &dtype_);
  }

  Bytes sum() {
    if (range_.count == 0) return {};
    for (size_t r = 0; r < bodies_.size(); ++r) encode(r, Part::kParams);
    agree();
    for (size_t r = 0; r < bodies_.size(); ++r) encode(r, Part::kCodes);
    sharing_of(spec_) == plan::Sharing::kSummed ? add_up() : merge();
    const float mean = call_.op == ncclAvg ? 1.0f / static_cast<float>(sent_.size()) : 1.0f;
    Bytes out(range_.count * codec::dtype_size(dtype_));
    const codec::Source source{bodies_[0].data(), spec_};
    run({&source, 1}, {out.data(), dtype_}, mean);
    return out;
  }

 private:
  codec::Draw draw_of(size_t rank, uint32_t stage) const {
    return draw_by(sent_[rank], call_, rank, static_cast<uint32_t>(range_.shard), stage);
  }

  void encode(size_t rank, Part part) {
    const size_t first = range_.first * codec::dtype_size(dtype_);
    const codec::Source source{sent_[rank].data() + first, dtype_};
    Contributors all(sent_.size());
    std::iota(all.begin(), all.end(), size_t{0});
    const bool shares = sharing_of(spec_) == plan::Sharing::kSummed && all.size() > 1;
    const codec::Draw draw =
        shares ? shared_draw(call_, all, rank, static_cast<uint32_t>(range_.shard), 0)
               : draw_of(rank, 0);
    run({&source, 1}, {bodies_[rank].data(), spec_, draw, 0, part}, 1.0f);
  }

  void run(std::span<const codec::Source> sources, const codec::Target& target,
           float factor) const {
    codec::combine({.sources = sources,
                    .target = target,
                    .factor = factor,
                    .total = range_.count,
                    .count = range_.count});
  }

  static uint32_t load(const char* from, size_t bytes) {
    uint32_t value = 0;
    std::memcpy(&value, from, bytes);
    return value;
  }

  // In place of each number of `size` bytes, on all ranks: what `combine` makes of all.
  template <class Combine>
  void replace(size_t begin, size_t end, size_t size, const Combine& combine) {
    for (size_t at = begin; at < end; at += size) {
      uint32_t all = 0;
      for (const Bytes& body : bodies_) all = combine(all, load(&body[at], size));
      for (Bytes& body : bodies_) std::memcpy(&body[at], &all, size);
    }
  }
  void agree() {
    replace(layout_.params_offset, layout_.params_end, codec::number_bytes(spec_.scale),
            [](uint32_t a, uint32_t b) { return std::max(a, b); });
  }
  void add_up() {
    replace(0, layout_.code_bytes, spec_.bits / 8, [](uint32_t a, uint32_t b) { return a + b; });
  }

  // By the shard's owner.
  void merge() {
    std::vector<codec::Source> sources;
    for (const Bytes& body : bodies_) sources.push_back({body.data(), spec_});
    Bytes merged(layout_.params_offset);
    run(sources, {merged.data(), spec_, draw_of(range_.shard, 1), 0, Part::kMerged}, 1.0f);
    std::ranges::copy(merged, bodies_[0].begin());
  }

  const Call& call_;
  const std::vector<Bytes>& sent_;
  const Range range_;
  const codec::Spec spec_;
  const codec::BodyLayout layout_;
  codec::Dtype dtype_{};
  std::vector<Bytes> bodies_;
};

// The whole message, as one range of NCCL's or in shards of whole blocks.
Bytes sum_of_all(const Call& call, const std::vector<Bytes>& sent) {
  const size_t ranks = sent.size(), block = call.scheme.spec.block;
  if (sharing_of(call.scheme.spec) == plan::Sharing::kSummed)
    return Shard(call, sent, {0, call.count, 0}).sum();
  const size_t length = ((call.count + ranks - 1) / ranks + block - 1) / block * block;
  Bytes all;
  for (size_t p = 0; p < ranks; ++p) {
    const size_t first = std::min(p * length, call.count);
    const Bytes part = Shard(call, sent, {first, std::min(length, call.count - first), p}).sum();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

}  // namespace

bool is_summed(const Call& call) { return sharing_of(call.scheme.spec) != plan::Sharing::kNone; }

std::vector<Bytes> expected_summed(const Call& call, const std::vector<Bytes>& sent) {
  std::vector<Bytes> result(sent.size());
  for (size_t r = 0; r < sent.size(); ++r) {
    if (call.collective == plan::Collective::kReduce && r != static_cast<size_t>(call.root))
      continue;
    result[r] = call.collective == plan::Collective::kReduceScatter
                    ? Shard(call, sent, {r * call.count, call.count, r}).sum()
                    : sum_of_all(call, sent);
  }
  return result;
}

}  // namespace terse::test
