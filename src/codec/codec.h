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
#include "codec/layout.h"

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

// What raw sources are multiplied by, in fp32: a number, or one element of the raw sources' dtype
// that is read when the work is done.
struct Multiplier {
  float value = 1.0f;
  const void* at = nullptr;  // takes the place of `value`
};

// target = factor * sources[0] + factor * sources[1] + ..., in fp32, in the order given. A raw
// source is multiplied by factor * premultiply, of a packed one the parameters by the factor: so a
// mean cannot overflow where no element does. The factor is in (0, 1]. All bodies are of `spec` and
// hold `total` elements; elements [first, first + count) are done. `first` is a multiple of the
// block, and so is `count` unless it ends the body. Raw pointers are those of element 0. A raw
// target may be a raw source's own memory; packed memory must not overlap with anything.
struct Combine {
  Spec spec;
  std::span<const Source> sources;
  Target target;
  float factor = 1.0f;
  Multiplier premultiply = {};
  size_t total = 0;
  size_t first = 0;
  size_t count = 0;
};

void combine(const Combine& work);

// Whether the sum is of transformed elements: where anything packed takes part, which is.
bool transforms(const Combine& work);

// One element of user memory, at any alignment.
float load_element(Dtype dtype, const void* from);

}  // namespace terse::codec
