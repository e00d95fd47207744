// What ranks that share a grid do with their codes, as calls do it: the parts of an encoding, and
// one code of those of all ranks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "support.h"

namespace terse::codec {

// What all ranks do with a shard each, as its codes and parameters lie apart from each other.
class Ranks {
 public:
  Ranks(const Spec& spec, std::vector<Floats> given)
      : spec_(spec), given_(std::move(given)), count_(given_.front().size()) {
    for (size_t r = 0; r < given_.size(); ++r) {
      memory_.emplace_back(apart_ + params_bytes(), 4);
      encode(r, Part::kParams);
    }
    agree();
    for (size_t r = 0; r < given_.size(); ++r) encode(r, Part::kCodes);
  }

  // The codes of one rank, and the parameters that it has.
  Bytes codes(size_t r) const { return part(r, 0, code_bytes()); }
  Bytes params(size_t r) const { return part(r, apart_, params_bytes()); }

  // The codes of all, made one: as the sum of 32-bit words, or merged.
  void unite() { descriptor(spec_.codec).sharing == Sharing::kSummed ? add_up() : merge(); }

  // What the first rank has, decoded.
  Floats decoded(float factor = 1) {
    Floats out(count_);
    const Source source{memory_.front().data(), spec_};
    combine({.sources = {&source, 1},
             .target = {out.data(), Dtype::kFloat32},
             .factor = factor,
             .total = count_,
             .count = count_,
             .params_offset = apart_});
    return out;
  }

  Floats sum(float factor = 1) {
    unite();
    return decoded(factor);
  }

  bool intact() const {
    return std::ranges::all_of(memory_, [](const Guarded& m) { return m.intact(); });
  }

 private:
  size_t code_bytes() const { return body_layout(spec_, count_).params_offset; }
  size_t params_bytes() const { return body_size(spec_, count_) - code_bytes(); }

  static uint32_t word(const uint8_t* at) {
    uint32_t value;
    std::memcpy(&value, at, 4);
    return value;
  }

  Bytes part(size_t r, size_t at, size_t bytes) const {
    const Bytes all = memory_[r].content();
    return {all.begin() + at, all.begin() + at + bytes};
  }

  void encode(size_t r, Part part) {
    const Source source{given_[r].data(), Dtype::kFloat32};
    combine(
        {.sources = {&source, 1},
         .target = {memory_[r].data(), spec_, draw_of({.rank = static_cast<uint32_t>(r)}), 0, part},
         .total = count_,
         .count = count_,
         .params_offset = apart_});
  }

  void add_up() {
    for (size_t at = 0; at < code_bytes(); at += 4) {
      uint32_t total = 0;
      for (Guarded& memory : memory_) total += word(memory.data() + at);
      std::memcpy(memory_.front().data() + at, &total, 4);
    }
  }

  void merge() {
    std::vector<Source> sources;
    for (Guarded& memory : memory_) sources.push_back({memory.data(), spec_});
    Guarded merged(code_bytes());
    combine({.sources = sources,
             .target = {merged.data(), spec_, draw_of({.stage = 1}), 0, Part::kMerged},
             .total = count_,
             .count = count_});
    EXPECT_TRUE(merged.intact());
    std::memcpy(memory_.front().data(), merged.data(), merged.size());
  }

  // The largest, of stored numbers as integers.
  void agree() {
    const size_t size = number_bytes(spec_.scale);
    for (size_t at = apart_; at < apart_ + params_bytes(); at += size) {
      uint32_t most = 0;
      for (Guarded& memory : memory_) {
        uint32_t own = 0;
        std::memcpy(&own, memory.data() + at, size);
        most = std::max(most, own);
      }
      for (Guarded& memory : memory_) std::memcpy(memory.data() + at, &most, size);
    }
  }

  const Spec spec_;
  const std::vector<Floats> given_;
  const size_t count_, apart_ = code_bytes() + 40;
  std::vector<Guarded> memory_;
};

inline std::vector<Floats> gaussians(size_t ranks, size_t count, uint64_t seed) {
  std::vector<Floats> given;
  for (size_t r = 0; r < ranks; ++r) given.push_back(gaussian(count, seed + r));
  return given;
}

inline double relative_square(const Floats& got, const std::vector<double>& wanted) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - wanted[i]) * (got[i] - wanted[i]);
    norm += wanted[i] * wanted[i];
  }
  return error / norm;
}

inline std::vector<double> exact_sum(const std::vector<Floats>& given) {
  std::vector<double> sum(given.front().size(), 0);
  for (const Floats& x : given)
    for (size_t i = 0; i < x.size(); ++i) sum[i] += x[i];
  return sum;
}

// One scale for the whole call: each block gets an element more, the largest of all, which is then
// left out. The sum, and that element.
inline std::pair<Floats, float> sum_on_one_scale(Spec spec, const std::vector<Floats>& given) {
  const size_t count = given.front().size();
  float absmax = 0;
  for (const Floats& x : given)
    for (const float value : x) absmax = std::max(absmax, std::fabs(value));
  std::vector<Floats> blocks(given.size());
  for (size_t r = 0; r < given.size(); ++r)
    for (size_t i = 0; i < count; ++i) {
      if (i % (spec.block - 1u) == 0) blocks[r].push_back(absmax);
      blocks[r].push_back(given[r][i]);
    }
  Floats got = Ranks(spec, blocks).sum();
  for (size_t i = 0; i < got.size(); ++i)
    if (i % spec.block != 0) got[i - i / spec.block - 1] = got[i];
  got.resize(count);
  return {got, absmax};
}

}  // namespace terse::codec
