#include "image.h"

#include <algorithm>

namespace terse::gpu {
namespace {

constexpr size_t kGuard = 128;
constexpr uint8_t kGuardByte = 0xA5, kFresh = 0x5A;

}  // namespace

Image::Image(const kernels::Case& c) : case_(c) {
  for (const kernels::Work& w : c.works) {
    const size_t first = inputs_.size();
    for (const codec::Input& input : w.inputs) {
      inputs_.push_back(place(input.bytes.size(), w.offset));
      std::copy(input.bytes.begin(), input.bytes.end(), bytes_.begin() + inputs_.back());
    }
    targets_.push_back(w.in_place ? inputs_[first + kernels::raw_source(w)]
                                  : place(kernels::target_bytes(c, w), w.offset));
  }
  const codec::Bytes multiplier = c.multiplier();
  multiplier_ = place(multiplier.size(), 0);
  std::copy(multiplier.begin(), multiplier.end(), bytes_.begin() + multiplier_);
  bytes_.resize(bytes_.size() + kGuard, kGuardByte);
  size_t end = (bytes_.size() + 63) / 64 * 64;
  for (const kernels::Work& w : c.works) {
    sums_.push_back(end);
    if (c.to) end += (4 * w.count + 63) / 64 * 64;
  }
}

size_t Image::place(size_t bytes, size_t offset) {
  const size_t begin = (bytes_.size() + kGuard + 63) / 64 * 64 + offset;
  bytes_.resize(begin, kGuardByte);
  bytes_.resize(begin + bytes, kFresh);
  return begin;
}

std::vector<codec::Combine> Image::works(uint8_t* base, std::vector<codec::Source>& sources) const {
  sources.clear();
  for (const kernels::Work& w : case_.works)
    for (const codec::Input& input : w.inputs)
      sources.push_back(input.source(base + inputs_[sources.size()], case_.spec));
  std::vector<codec::Combine> works;
  size_t first = 0;
  for (const kernels::Work& w : case_.works) {
    works.push_back(kernels::combine_of(case_, w, {sources.data() + first, w.inputs.size()},
                                        base + targets_[works.size()], base + multiplier_));
    if (case_.to) works.back().sums = reinterpret_cast<float*>(base + sums_[works.size() - 1]);
    first += w.inputs.size();
  }
  return works;
}

std::string Image::describe(size_t at) const {
  for (size_t p = 0; p < targets_.size(); ++p) {
    const size_t size = kernels::target_bytes(case_, case_.works[p]);
    if (at >= targets_[p] && at < targets_[p] + size)
      return "byte " + std::to_string(at - targets_[p]) + " of " + std::to_string(size) +
             " of target " + std::to_string(p);
  }
  return "byte " + std::to_string(at) + ", outside of the targets";
}

HostCopy::HostCopy(const codec::Bytes& bytes) : memory_(bytes.size() + 64) {
  begin_ = (64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64) % 64;
  std::copy(bytes.begin(), bytes.end(), memory_.begin() + begin_);
}

}  // namespace terse::gpu
