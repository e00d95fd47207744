// All codecs: an entry here is what makes a header in codecs/ part of terse.
#pragma once

#include <array>

#include "codec/codecs/cast.h"
#include "codec/codecs/exponential.h"
#include "codec/codecs/fitted.h"
#include "codec/codecs/fp8.h"
#include "codec/codecs/learned.h"
#include "codec/codecs/linear.h"
#include "codec/codecs/minmax.h"
#include "codec/codecs/mx.h"
#include "codec/codecs/nvfp4.h"
#include "codec/codecs/symmetric.h"

namespace terse::codec {

template <class... Codecs_>
struct List {
  static constexpr size_t kSize = sizeof...(Codecs_);

  // visit.template operator()<Codec>() for each, in order.
  template <class Visit>
  static constexpr void for_each(Visit visit) {
    (visit.template operator()<Codecs_>(), ...);
  }

  static constexpr std::array kDescriptors = {Codecs_::kDescriptor...};
};

using Codecs = List<Symmetric, MinMax, Fitted, Bf16, Fp16, Fp8E4M3, Fp8E5M2, MxFp8, MxFp6, MxFp4,
                    NvFp4, Linear<8>, Linear<16>, Exponential, Learned>;

inline constexpr auto& kDescriptors = Codecs::kDescriptors;

// Place of each codec in the list, by id; the list's size for ids without a codec.
inline constexpr auto kIndex = [] {
  std::array<uint8_t, 256> index{};
  index.fill(Codecs::kSize);
  for (size_t i = 0; i < Codecs::kSize; ++i)
    index[static_cast<size_t>(kDescriptors[i].id)] = static_cast<uint8_t>(i);
  return index;
}();

constexpr size_t index_of(CodecId id) { return kIndex[static_cast<size_t>(id)]; }

constexpr bool known(CodecId id) { return index_of(id) < Codecs::kSize; }

// Descriptor of a known codec.
constexpr const Descriptor& descriptor(CodecId id) { return kDescriptors[index_of(id)]; }

}  // namespace terse::codec
