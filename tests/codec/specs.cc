#include "specs.h"

#include <algorithm>

namespace terse::codec {

std::vector<Spec> every_spec(size_t block) {
  std::vector<Spec> specs;
  for (const Descriptor& d : kDescriptors) {
    const size_t own = std::clamp(block, d.min_block, d.max_block);
    for (int bits = d.min_bits; bits <= d.max_bits; ++bits)
      for (int rounding = 0; rounding < kRoundings; ++rounding)
        for (int scale = 0; scale <= static_cast<int>(Number::kE8M0); ++scale)
          for (size_t hadamard : {size_t{0}, kHadamard}) {
            const Spec spec{d.id,
                            static_cast<Rounding>(rounding),
                            static_cast<uint8_t>(bits),
                            static_cast<uint16_t>(own),
                            static_cast<Number>(scale),
                            static_cast<uint8_t>(hadamard)};
            if (valid(spec)) specs.push_back(spec);
          }
  }
  return specs;
}

std::string describe(const Spec& s) {
  const Descriptor& d = descriptor(s.codec);
  std::string text(d.name);
  if (!has_one_width(d)) text += std::to_string(s.bits);
  const char* roundings[] = {"nearest", "stochastic", "shift"};
  const char* scales[] = {"fp32", "bf16", "e8m0"};
  text += ":";
  if (!has_one_block(d)) text += "block=" + std::to_string(s.block) + ",";
  text += std::string("round=") + roundings[static_cast<int>(s.rounding)];
  if (s.scale != d.default_scale)
    text += std::string(",scale=") + scales[static_cast<int>(s.scale)];
  if (d.fit == Fit::kMse) text += ",fit=mse";
  if (s.hadamard != 0) text += ",hadamard=" + std::to_string(s.hadamard);
  return text;
}

std::string file_name(const Spec& spec) {
  const std::string text = describe(spec);
  std::string name = text.substr(0, text.find(':'));
  for (size_t at = text.find("round="); at != text.npos; at = text.find('=', at + 1)) {
    if (text[at] == 'r') at = text.find('=', at);
    const std::string value = text.substr(at + 1, text.find(',', at) - at - 1);
    name += "_" + (value == "32" ? "hadamard" : value);
  }
  return name;
}

}  // namespace terse::codec
