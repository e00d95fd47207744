// Encoding, decoding and reducing whole bodies on the host: one operation, `combine`, of which each
// of them is a case.
//
//   encode                 one raw source             -> packed target
//   decode                 one packed source          -> raw target
//   decode and reduce      n sources                  -> raw target
//   decode-reduce-encode   n sources                  -> packed target
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "codec/draw.h"
#include "codec/spec.h"

namespace terse::codec {

// Elements to read: user memory of a dtype, or a packed body.
struct Source {
  const void* data;
  std::optional<Dtype> raw;  // empty: packed
};

// Where the result goes: user memory of a dtype, or a packed body drawn from `draw`, whose first
// element is number `origin` there (a multiple of 32).
struct Target {
  void* data;
  std::optional<Dtype> raw;
  Draw draw = {};
  uint64_t origin = 0;
};

// target = factor * (sources[0] + sources[1] + ...), in fp32, in the order given.
// All bodies are of `spec` and hold `total` elements; elements [first, first + count) are done.
// `first` is a multiple of the block, and so is `count` unless it ends the body. Raw pointers are
// those of element 0. A raw target may be a raw source's own memory; packed memory must not
// overlap with anything.
struct Combine {
  Spec spec;
  std::span<const Source> sources;
  Target target;
  float factor = 1.0f;
  size_t total = 0;
  size_t first = 0;
  size_t count = 0;
};

void combine(const Combine& work);

}  // namespace terse::codec
