// All specs that there are, and what they are called.
#pragma once

#include <string>
#include <vector>

#include "codec/layout.h"

namespace terse::codec {

constexpr CodecId kSymmetric = Symmetric::kDescriptor.id, kMinMax = MinMax::kDescriptor.id;
constexpr CodecId kFitted = Fitted::kDescriptor.id;

// Each of the two codecs of integers with each of its roundings.
struct Kind {
  CodecId codec;
  Rounding rounding;
};
constexpr Kind kIntegerKinds[] = {{kSymmetric, Rounding::kNearest},
                                  {kSymmetric, Rounding::kStochastic},
                                  {kMinMax, Rounding::kNearest},
                                  {kMinMax, Rounding::kStochastic},
                                  {kMinMax, Rounding::kShift}};

inline Spec make_spec(Kind kind, int bits, size_t block) {
  return {kind.codec, kind.rounding, static_cast<uint8_t>(bits), static_cast<uint16_t>(block)};
}

// All that the list of codecs offers: every width, rounding, way to store parameters and transform,
// with blocks of `block` where there is a choice.
std::vector<Spec> every_spec(size_t block);
// As policy/scheme.h prints it.
std::string describe(const Spec& spec);
// The same as part of a file's name, without the block.
std::string file_name(const Spec& spec);

}  // namespace terse::codec
