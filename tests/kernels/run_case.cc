#include "run_case.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>

#include "cpu_kernels.h"
#include "simt/global_memory.h"
#include "support.h"

namespace terse::kernels {

using codec::Bytes;
using codec::Combine;
using codec::Guarded;
using codec::Input;
using codec::Random;

namespace {

// The case's memory, and the works that refer to it.
class Memory {
 public:
  explicit Memory(const Case& c)
      : multiplier_(c.multiplier()), codebook_(c.codebook), content_(c.content) {
    const size_t rooms = c.in_a_row ? 1 : c.works.size();
    sums_.resize(c.to ? rooms : 0);
    for (size_t number = 0; number < c.works.size(); ++number) {
      const Work& w = c.works[number];
      const Row row{c.in_a_row ? number : 0, c.in_a_row ? c.works.size() : 1, w.offset};
      const size_t first = sources_.size(), own = w.in_place ? raw_source(w) : kNone;
      for (size_t s = 0; s < w.inputs.size(); ++s) {
        uint8_t* const data =
            row.place(inputs_, c.in_a_row ? s : inputs_.size(), w.inputs[s].bytes.size());
        std::ranges::copy(w.inputs[s].bytes, data);
        sources_.push_back(w.inputs[s].source(data, c.spec));
      }
      const size_t bytes = w.in_place ? w.inputs[own].bytes.size() : target_bytes(c, w);
      uint8_t* const target = row.place(targets_, c.in_a_row ? 0 : number, bytes);
      if (w.in_place) {
        std::ranges::copy(w.inputs[own].bytes, target);
        sources_[first + own].data = target;
      }
      works_.push_back(combine_of(c, w, {}, target, multiplier_.data()));
      if (!codebook_.empty()) works_.back().codebook = codebook_.data();
      if (c.to) works_.back().sums = row.place(sums_[c.in_a_row ? 0 : number], w.count);
      spans_.push_back(first);
    }
    for (size_t i = 0; i < works_.size(); ++i)
      works_[i].sources = {sources_.data() + spans_[i], c.works[i].inputs.size()};
  }

  const std::vector<Combine>& works() const { return works_; }

  void set_content(codec::Target& target) const {
    if (content_.empty()) return;
    target.content = content_.data();
    target.content_parts = static_cast<uint32_t>(content_.size());
  }

  // What a kernel may touch.
  std::deque<simt::Memory> allowed() {
    std::deque<simt::Memory> ranges;
    for (Guarded& in : inputs_)
      ranges.emplace_back(in.data(), in.size(), simt::Access::kReadOnly, "source");
    ranges.emplace_back(multiplier_.data(), multiplier_.size(), simt::Access::kReadOnly,
                        "multiplier");
    if (!codebook_.empty())
      ranges.emplace_back(codebook_.data(), 4 * codebook_.size(), simt::Access::kReadOnly,
                          "codebook");
    ranges.emplace_back(content_.data(), content_.size() * sizeof content_[0],
                        simt::Access::kReadOnly, "content");
    for (std::vector<float>& sums : sums_)
      ranges.emplace_back(sums.data(), 4 * sums.size(), simt::Access::kReadWrite, "sums");
    for (Guarded& out : targets_)
      ranges.emplace_back(out.data(), out.size(), simt::Access::kReadWrite, "target");
    return ranges;
  }

  std::vector<Bytes> results() const {
    std::vector<Bytes> all;
    for (const Guarded& target : targets_) {
      EXPECT_TRUE(target.intact());
      all.push_back(target.content());
    }
    return all;
  }

 private:
  static constexpr size_t kNone = static_cast<size_t>(-1);

  // Place of a work among those that lie in a row.
  struct Row {
    size_t number, works, offset;

    // Place of so many bytes in the room at an index; the first work makes it.
    uint8_t* place(std::deque<Guarded>& rooms, size_t index, size_t bytes) const {
      const size_t stride = works == 1 ? bytes : (bytes + 63) / 64 * 64;
      if (index == rooms.size()) rooms.emplace_back(works * stride, offset);
      return rooms[index].data() + number * stride;
    }
    float* place(std::vector<float>& room, size_t count) const {
      const size_t stride = works == 1 ? count : (count + 15) / 16 * 16;
      room.resize(works * stride);
      return room.data() + number * stride;
    }
  };

  Bytes multiplier_;
  codec::Floats codebook_;
  std::vector<uint64_t> content_;
  std::deque<Guarded> inputs_, targets_;
  std::deque<std::vector<float>> sums_;
  std::vector<codec::Source> sources_;
  std::vector<size_t> spans_;
  std::vector<Combine> works_;
};

// What others have may be larger than the own parameters, or not finite.
void agree(const Combine& work) {
  const codec::Spec& spec = *work.target.format.spec();
  const auto layout = codec::body_layout(spec, work.total, work.params_offset);
  const size_t size = codec::number_bytes(spec.scale), shift = 8 * (4 - size);
  uint8_t* const body = static_cast<uint8_t*>(work.target.data);
  for (size_t block = 0; block < layout.blocks; ++block) {
    uint8_t* const at = body + layout.params_offset + block * size;
    uint32_t bits = 0;
    std::memcpy(&bits, at, size);
    const float own = codec::bits_float(bits << shift);
    const float others[] = {own, own == 0 ? 1.0f : 4 * own, own, INFINITY};
    bits = codec::float_bits(others[block % 4]) >> shift;
    std::memcpy(at, &bits, size);
  }
}

// Calls run(works) once, or for one part after the other.
template <class Run>
void run_parts(const Case& c, std::vector<Combine> works, const Run& run) {
  if (c.in_parts) {
    for (Combine& work : works) work.target.part = codec::Part::kParams;
    run(works);
    for (Combine& work : works) {
      agree(work);
      work.target.part = codec::Part::kCodes;
    }
  }
  run(works);
}

}  // namespace

std::vector<Bytes> on_host(const Case& c) {
  Memory memory(c);
  run_parts(c, memory.works(), [&](const std::vector<Combine>& works) {
    for (Combine work : works) {
      work.target.draw = changed_draw(c, work.target.draw);
      codec::combine(work);
    }
  });
  return memory.results();
}

std::vector<Bytes> on_kernels(const Case& c, Random& random, const simt::Planter* planter) {
  Memory memory(c);
  uint64_t replays = c.replays;
  auto allowed = memory.allowed();
  allowed.emplace_back(&replays, sizeof replays, simt::Access::kReadOnly, "replays");
  const auto run = [&](std::vector<Combine> works) {
    for (Combine& work : works) memory.set_content(work.target);
    make_batches(works, c.replays != 0 ? &replays : nullptr,
                 [&](const KernelId& id, const Batch& batch) {
                   if (c.in_a_row) EXPECT_EQ(batch.pieces, 1u);
                   const uint64_t most = std::min<uint64_t>(thread_blocks(batch), 3);
                   cpu_kernel(id)(batch, {.blocks = static_cast<uint32_t>(1 + random.below(most)),
                                          .threads = kThreads,
                                          .seed = random.next(),
                                          .planter = planter});
                 });
  };
  run_parts(c, memory.works(), run);
  return memory.results();
}

}  // namespace terse::kernels
