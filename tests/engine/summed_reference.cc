#include "summed_reference.h"

#include <algorithm>
#include <cstring>

#include "codec/codec.h"

namespace terse::test {
namespace {

using codec::Part;

// One shard of the message, of all ranks.
class Shard {
 public:
  Shard(const Call& call, const std::vector<Bytes>& sent, size_t index)
      : call_(call),
        sent_(sent),
        index_(index),
        spec_(require_on_ranks(call.scheme, static_cast<int>(sent.size())).spec),
        layout_(codec::body_layout(spec_, call.count)),
        bodies_(sent.size(), Bytes(layout_.size)) {
    compressible(call.datatype, &dtype_);
  }

  Bytes sum() {
    for (size_t r = 0; r < bodies_.size(); ++r) encode(r, Part::kParams);
    agree();
    for (size_t r = 0; r < bodies_.size(); ++r) encode(r, Part::kCodes);
    add_up();
    const float mean = call_.op == ncclAvg ? 1.0f / static_cast<float>(sent_.size()) : 1.0f;
    Bytes out(call_.count * codec::dtype_size(dtype_));
    run({bodies_[0].data(), spec_}, {out.data(), dtype_}, mean);
    return out;
  }

 private:
  void encode(size_t rank, Part part) {
    const codec::Draw draw = codec::make_draw({.seed = call_.scheme.seed.value_or(0),
                                               .communicator = call_.ordinal,
                                               .sequence = call_.sequence,
                                               .rank = static_cast<uint32_t>(rank),
                                               .shard = static_cast<uint32_t>(index_)});
    const size_t first = index_ * call_.count * codec::dtype_size(dtype_);
    run({sent_[rank].data() + first, dtype_},
        {bodies_[rank].data(), spec_, codec::redraw(draw, call_.replays), 0, part}, 1.0f);
  }

  void run(const codec::Source& source, const codec::Target& target, float factor) const {
    codec::combine({.sources = {&source, 1},
                    .target = target,
                    .factor = factor,
                    .total = call_.count,
                    .count = call_.count});
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

  const Call& call_;
  const std::vector<Bytes>& sent_;
  const size_t index_;
  const codec::Spec spec_;
  const codec::BodyLayout layout_;
  codec::Dtype dtype_{};
  std::vector<Bytes> bodies_;
};

}  // namespace

bool is_summed(const Call& call) { return codec::descriptor(call.scheme.spec.codec).shared_grid; }

std::vector<Bytes> expected_summed(const Call& call, const std::vector<Bytes>& sent) {
  const bool shards = call.collective == plan::Collective::kReduceScatter;
  std::vector<Bytes> result(sent.size());
  for (size_t r = 0; r < sent.size(); ++r) {
    if (call.collective == plan::Collective::kReduce && r != static_cast<size_t>(call.root))
      continue;
    result[r] = Shard(call, sent, shards ? r : 0).sum();
  }
  return result;
}

}  // namespace terse::test
