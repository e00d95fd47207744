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
#include <span>
#include <variant>

#include "codec/draw.h"
#include "codec/layout.h"

namespace terse::codec {

// How elements lie in memory: as they are, in a dtype; or packed, as a body.
class Format {
 public:
  Format(Dtype dtype) : is_(dtype) {}
  Format(const Spec& spec) : is_(spec) {}

  bool raw() const { return std::holds_alternative<Dtype>(is_); }
  Dtype dtype() const { return std::get<Dtype>(is_); }  // if raw()
  const Spec* spec() const { return std::get_if<Spec>(&is_); }

  bool operator==(const Format&) const = default;

 private:
  std::variant<Dtype, Spec> is_;
};

struct Source {
  const void* data;
  Format format;
  bool negated = false;  // of a raw one: it is taken from the sum
};

// Part of a packed target that is written. If all ranks share a grid, the parameters, on which they
// agree, and then each rank's codes for them. kMerged: codes of all sources, in their order, which
// are packed as the target is; parameters are not read.
enum class Part : uint8_t { kAll, kParams, kCodes, kMerged };
constexpr int kEncodedParts = 3;  // the first ones

// Destination of the result. A body is drawn from `draw`, and its first element is number `origin`
// there (a multiple of 32).
struct Target {
  void* data;
  Format format;
  Draw draw = {};
  uint64_t origin = 0;
  Part part = Part::kAll;  // of a body; its parameters are there already for kCodes
  // Parts of a check, by whose sum the draw changes; read when the work is done.
  const uint64_t* content = nullptr;
  uint32_t content_parts = 0;
  bool repeats = false;  // a recorded work draws the same when it runs again
};

// Factor of raw sources, in fp32: a number, or one element of the raw sources' dtype that is read
// when the work is done.
struct Multiplier {
  float value = 1.0f;
  const void* at = nullptr;  // takes the place of `value`
};

// target = factor * sources[0] + factor * sources[1] + ..., in fp32, in the order given. A raw
// source is multiplied by factor * premultiply, of a packed one the parameters by the factor: so a
// mean cannot overflow where no element does. The factor is in (0, 1].
//
// Packed sources are all of one spec; a packed target may be rounded otherwise, or be of another
// spec where no source is raw and the blocks of one divide those of the other. Bodies hold `total`
// elements, of which [first, first + count) are done. `first` is a multiple of all blocks, and so
// is `count` unless it ends the bodies. Raw pointers are those of element 0. A raw target may be a
// raw source's own memory; packed memory must not overlap with anything.
struct Combine {
  std::span<const Source> sources;
  Target target;
  float factor = 1.0f;
  Multiplier premultiply = {};
  size_t total = 0;
  size_t first = 0;
  size_t count = 0;
  size_t params_offset = 0;  // bytes from a body's beginning to its parameters; 0: behind the codes
  float* sums = nullptr;     // room for `total` of them where changes_spec(): kernels need it
  // The table of what is packed with levels of one (codebook.h); null: they are equally far from
  // each other. Where sources and target are packed so, they are of one spec.
  const float* codebook = nullptr;
  const uint32_t* verdict = nullptr;  // where it is not 0 when the work runs, nothing is done
};

void combine(const Combine& work);

// Returns the spec of the packed sources; null if there is none.
const Spec* packed_source(const Combine& work);

// Returns true if the target is packed in another way than the sources.
bool changes_spec(const Combine& work);

// Returns true if the sum is of transformed elements, as packed sources are, or, if there is none,
// a packed target. It is transformed back at its end unless the target is packed with the same
// spec.
bool transforms(const Combine& work);

// Loads one element of user memory, at any alignment.
float load_element(Dtype dtype, const void* from);

}  // namespace terse::codec
