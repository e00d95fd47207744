#include "codec/codebook.h"

#include <array>

#include "codec/spec.h"

namespace terse::codec {
namespace {

class UniformCodebooks {
 public:
  UniformCodebooks() {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits)
      for (size_t i = 0; i < codebook_floats(bits); ++i) tables_[bits][i] = uniform_entry(i, bits);
  }

  const float* of(int bits) const { return tables_[bits].data(); }

 private:
  std::array<std::array<float, codebook_floats(kMaxBits)>, kMaxBits + 1> tables_{};
};

}  // namespace

const float* uniform_codebook(int bits) {
  static const UniformCodebooks all;
  return all.of(bits);
}

}  // namespace terse::codec
