// A case's memory as one stretch of bytes: its sources and targets, with guards between. One copy
// brings it to a GPU or back, and one comparison finds any byte that differs, inside of targets and
// outside.
#pragma once

#include <vector>

#include "cases.h"

namespace terse::gpu {

class Image {
 public:
  explicit Image(const kernels::Case& c);

  // Sources, fresh targets, and guards.
  const codec::Bytes& bytes() const { return bytes_; }
  bool in_parts() const { return case_.in_parts; }

  // The case's works on a copy of bytes() that lies at `base`, a multiple of 64. They refer to
  // `sources`, which is filled. Behind the bytes there is room for sums, on a GPU.
  std::vector<codec::Combine> works(uint8_t* base, std::vector<codec::Source>& sources) const;

  // What lies at a byte, for messages.
  std::string describe(size_t at) const;

 private:
  size_t place(size_t bytes, size_t offset);

  const kernels::Case& case_;
  codec::Bytes bytes_;
  std::vector<size_t> inputs_, targets_;  // where each begins
  std::vector<size_t> sums_;              // by work, behind the bytes: only kernels use them
  size_t multiplier_ = 0;
};

// bytes() at an address that is a multiple of 64.
class HostCopy {
 public:
  explicit HostCopy(const codec::Bytes& bytes);
  uint8_t* data() { return memory_.data() + begin_; }
  size_t size() const { return memory_.size() - 64; }

 private:
  codec::Bytes memory_;
  size_t begin_;
};

}  // namespace terse::gpu
