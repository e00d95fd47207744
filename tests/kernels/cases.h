// What kernels are tested with, wherever they run: random launches of many pieces, every codec,
// rounding and type, blocks of all sizes, short tails, any alignment, numbers of all kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "support.h"

namespace terse::kernels {

// One piece: what is summed, and where it goes.
struct Work {
  std::vector<codec::Input> inputs;
  size_t count;
  float factor;
  oracle::Stream stream;
  size_t offset;          // misaligns all its memory
  bool in_place = false;  // the target is the raw source's own memory
};

// One launch, or several where the works do not fit in one.
struct Case {
  codec::Spec spec;
  codec::Dtype raw;
  bool packed_target;
  std::vector<Work> works;
  std::optional<codec::Spec> to = {};  // what is packed in `spec` comes to be packed in this one
  uint64_t replays = 0;
  std::vector<uint64_t> content = {};  // parts of a check, by which draws change; or none
  float premultiply = 1.0f;
  bool read_late = false;  // the multiplier is read when the kernel runs
  // Parameters first, further off than they need be, and then, of what all ranks agree on, codes:
  // by a launch each.
  bool in_parts = false;
  bool merges = false;  // codes of all inputs, which are packed, by integers alone
  // The table of a learned codec; empty: there is none, and levels are equally far from each other.
  codec::Floats codebook = {};
  // Works differ in their contents and shards alone, and lie at equal distances: one piece.
  bool in_a_row = false;

  // The multiplier as an element of memory.
  codec::Bytes multiplier() const { return oracle::to_memory(raw, {premultiply}); }
};

constexpr size_t kBlocks[] = {32,  64,  96,   128,  160,  256,  288,
                              512, 544, 1024, 1056, 2048, 4064, 4096};

Case some_case(codec::Random& random);
codec::Input some_input(const Case& c, size_t count, bool packed, codec::Random& random);
// With one input each: an encoding, or a decoding.
Case conversion(const codec::Spec& spec, codec::Dtype raw, bool packed_target,
                std::span<const size_t> counts, codec::Random& random);

std::string describe(const Case& c);
// Which of the inputs is raw.
size_t raw_source(const Work& w);
codec::Format target_format(const Case& c);
size_t target_bytes(const Case& c, const Work& w);

// The draw as the case's replays and content change it.
codec::Draw changed_draw(const Case& c, const codec::Draw& draw);

// The work on given memory; `multiplier` is where the case's multiplier lies. Without room for
// sums.
codec::Combine combine_of(const Case& c, const Work& w, std::span<const codec::Source> sources,
                          void* target, const void* multiplier);

}  // namespace terse::kernels
