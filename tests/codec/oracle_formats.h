// The formats of FORMAT.md one by one: which there are, and what each does with one block.
#pragma once

#include <vector>

#include "oracle.h"

namespace oracle {

// Codes, parameters and finer scales of a block, before they are laid out.
struct Block {
  std::vector<int> codes;
  std::vector<float> params;
  std::vector<int> fine = {};
};

// How a block is encoded, whose first element has that index in its body; and how a code is
// decoded, with the block's parameters, and behind them the byte of the element's finer scale.
using Encode = Block(const Spec& spec, const Stream& stream, uint64_t first,
                     const std::vector<float>& x);
using Decode = float(const Spec& spec, int code, const std::vector<float>& params, float factor);

// A codec's number on the wire, its bits and blocks, and what it does.
struct Format {
  int number;
  int least_bits, most_bits;
  size_t least_block, most_block;
  size_t params;
  bool bf16_params, e8m0_params;  // other than fp32
  int transformed_bits;           // at most, of codes that may follow the transform
  Encode* encode;
  Decode* decode;
  size_t fine = 0;  // elements that share a finer scale; 0: there are none
};

// Null where there is none of that number.
const Format* format(int number);
inline const Format& format(const Spec& spec) { return *format(static_cast<int>(spec.codec)); }

// "Linear": the codes of a block of which all ranks have agreed on the parameter.
std::vector<int> linear_codes(const Spec& spec, const Stream& stream, uint64_t first,
                              const std::vector<float>& x, float absmax);

// "Exponential": the same. And "Merging": the code of an element, of those of all ranks; `stream`
// is that of the merges, on the rank that does them.
std::vector<int> exponential_codes(const Spec& spec, const Stream& stream, uint64_t first,
                                   const std::vector<float>& x, float absmax);
int merged_code(const Spec& spec, const Stream& stream, uint64_t element, std::vector<int> codes);

// "Symmetric codes": of min-max and learned blocks.
Encode symmetric_codes;

// u of section 5.
float uniform(const Stream& stream, uint64_t element);

// "Shift": u of element i of the block that begins with element `first`, if its grid stays.
float spread_uniform(const Stream& stream, uint64_t first, uint64_t i);

}  // namespace oracle
