#include "codec/codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>

#include "codec/codebook.h"
#include "codec/float_mode.h"
#include "codec/host_ops.h"
#include "codec/tree.h"

namespace terse::codec {
namespace {

size_t tile_of(size_t block) { return block < kTile ? kTile / block * block : block; }

// Memory that is read soon, after `bytes` from p: the processor by itself fetches ahead within a
// page only, and loses its way among several sources. There need not be any memory.
void prefetch_after(const void* p, size_t bytes) {
  constexpr size_t kMin = 2048, kLine = 64;  // so far ahead, at least
  const uintptr_t begin = reinterpret_cast<uintptr_t>(p) + std::max(bytes, kMin);
  for (size_t i = 0; i < bytes; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
}

// Zero bytes from `at` up to a multiple of four.
void clear_to_word(uint8_t* body, size_t at) { std::memset(body + at, 0, to_words(at) - at); }

// All bodies of one spec: how to read and write them.
struct Bodies {
  Bodies(const HostOps& ops, const Spec& of, const Combine& work)
      : spec(of),
        layout(body_layout(of, work.total, work.params_offset)),
        codec(ops.codecs[index_of(of.codec)]),
        codebook(codebook_of(of, work)) {}

  size_t codes_offset(size_t begin) const { return begin / 8 * spec.bits; }
  // Offset of the parameters of the block that begins with element `begin`.
  size_t params_offset(size_t begin) const {
    return layout.params_offset + begin / spec.block * params_bytes(spec);
  }

  static const float* codebook_of(const Spec& spec, const Combine& work) {
    if (!descriptor(spec.codec).codebook) return nullptr;
    return work.codebook != nullptr ? work.codebook : uniform_codebook(spec.bits);
  }

  const Spec spec;
  const BodyLayout layout;
  const CodecOps& codec;
  const float* const codebook;
};

// Directions of the transform.
constexpr bool kForth = false, kBack = true;

// A tile's way through the stages; the buffers are in the first-level cache.
class Pipe {
 public:
  explicit Pipe(const Combine& work)
      : work_(work),
        ops_(host_ops()),
        from_(bodies(packed_source(work))),
        to_(bodies(work.target.format.spec())),
        multiplier_(multiplier(work)),
        draw_(
            work.target.content == nullptr
                ? work.target.draw
                : redraw(work.target.draw, total(work.target.content, work.target.content_parts))),
        transforms_(transforms(work)),
        changes_(changes_spec(work)),
        prefetches_(tile() <= kTile) {}

  size_t tile() const {
    return tile_of(std::max<size_t>(from_ ? from_->spec.block : 1, to_ ? to_->spec.block : 1));
  }

  void run(size_t begin, size_t n) {
    const std::span<const Source> sources = work_.sources;
    const Target& t = work_.target;
    if (t.part == Part::kMerged) return merge(begin, n);
    if (sources.size() == 1) {
      const Source& s = sources[0];
      const bool plain = multiplier_of(s) == 1.0f && !transforms_;
      if (!from_ && to_ && plain) return encode(s.format.dtype(), raw(s, begin, n), begin, n);
      if (from_ && !to_ && !transforms_)
        return decode(from_->codec.dequantize[index(t.format.dtype())], s, begin, n,
                      element(t, begin));
    }
    // A sum is gathered aside, because the target may be one of the sources.
    set(sources[0], begin, n);
    for (const Source& s : sources.subspan(1)) add(s, begin, n);
    if (transforms_ && !to_ && t.format.dtype() == Dtype::kFloat32)
      return ops_.hadamard[kBack](n, sum_, element(t, begin));
    if (transforms_ && (!to_ || changes_)) ops_.hadamard[kBack](n, sum_, sum_);
    if (!to_) return ops_.store[index(t.format.dtype())](sum_, n, element(t, begin));
    if (changes_ && to_->spec.hadamard != 0) ops_.hadamard[kForth](n, sum_, sum_);
    encode(Dtype::kFloat32, sum_, begin, n);
  }

 private:
  using Dequantize = decltype(CodecOps::dequantize_add);

  static int index(Dtype dtype) { return static_cast<int>(dtype); }

  std::optional<Bodies> bodies(const Spec* spec) const {
    return spec == nullptr ? std::nullopt : std::optional<Bodies>({ops_, *spec, work_});
  }

  const void* raw(const Source& s, size_t begin, size_t n) const {
    const size_t size = dtype_size(s.format.dtype());
    const char* in = static_cast<const char*>(s.data) + begin * size;
    if (prefetches_) prefetch_after(in, n * size);
    return in;
  }

  static void* element(const Target& t, size_t i) {
    return static_cast<char*>(t.data) + i * dtype_size(t.format.dtype());
  }

  static float multiplier(const Combine& work) {
    const Multiplier& m = work.premultiply;
    for (const Source& s : work.sources)
      if (s.format.raw() && m.at != nullptr)
        return load_element(s.format.dtype(), m.at) * work.factor;
    return m.value * work.factor;
  }

  float multiplier_of(const Source& s) const { return s.negated ? -multiplier_ : multiplier_; }

  // A raw source as it enters the sum.
  void load(const Source& s, size_t begin, size_t n, float* out) {
    const void* in = raw(s, begin, n);
    const float multiplier = multiplier_of(s);
    if (s.format.dtype() != Dtype::kFloat32 || multiplier != 1.0f || !transforms_) {
      ops_.load[index(s.format.dtype())](in, n, out);
      in = out;
    }
    if (multiplier != 1.0f) ops_.scale(multiplier, n, out);
    if (transforms_) ops_.hadamard[kForth](n, in, out);
  }

  void set(const Source& s, size_t begin, size_t n) {
    if (s.format.raw()) return load(s, begin, n, sum_);
    decode(from_->codec.dequantize[index(Dtype::kFloat32)], s, begin, n, sum_);
  }

  void add(const Source& s, size_t begin, size_t n) {
    if (!s.format.raw()) return decode(from_->codec.dequantize_add, s, begin, n, sum_);
    if (multiplier_of(s) == 1.0f && !transforms_)
      return ops_.load_add[index(s.format.dtype())](raw(s, begin, n), n, sum_);
    float addend[kMaxBlock];
    load(s, begin, n, addend);
    ops_.load_add[index(Dtype::kFloat32)](addend, n, sum_);
  }

  void decode(Dequantize dequantize, const Source& s, size_t begin, size_t n, void* out) {
    const uint8_t* body = static_cast<const uint8_t*>(s.data);
    const int bits = from_->spec.bits;
    const uint8_t* codes = body + from_->codes_offset(begin);
    prefetch_after(codes, n / 8 * bits);
    if (bits < 8) {
      ops_.unpack[bits](codes, n, codes_);
      codes = codes_;
    }
    dequantize(codes, n, from_->spec, body + from_->params_offset(begin), work_.factor, out,
               from_->codebook);
  }

  void merge(size_t begin, size_t n) {
    for (size_t i = 0; i < n; i += kTile) merge_tile(begin + i, std::min(kTile, n - i));
    if (begin + n == work_.total)
      clear_to_word(static_cast<uint8_t*>(work_.target.data), to_->layout.code_bytes);
  }

  // Codes lie where they are until they are merged, and then here, at their height on the stack.
  void merge_tile(size_t begin, size_t n) {
    const Target& t = work_.target;
    const auto count = static_cast<uint32_t>(work_.sources.size());
    const auto merge = to_->codec.merge[static_cast<int>(to_->spec.rounding)];
    uint8_t* const target = static_cast<uint8_t*>(t.data) + begin;
    const uint8_t* stack[kTreeDepth];
    uint8_t merged[kTreeDepth][kTile];
    size_t top = 0;
    for (uint32_t i = 0; i < count; ++i) {
      const uint8_t* const codes = static_cast<const uint8_t*>(work_.sources[i].data) + begin;
      prefetch_after(codes, n);
      stack[top++] = codes;
      for (uint32_t second = i; is_merged(second, i, count); second = begin_before(second)) {
        --top;
        uint8_t* const out = i + 1 == count && begin_before(second) == 0 ? target : merged[top - 1];
        merge(stack[top - 1], stack[top], n, draw_of_merge(draw_, second), t.origin + begin, out);
        stack[top - 1] = out;
      }
    }
    if (count == 1) std::memcpy(target, stack[0], n);
  }

  void encode(Dtype dtype, const void* in, size_t begin, size_t n) {
    const Target& t = work_.target;
    const BodyLayout& layout = to_->layout;
    uint8_t* body = static_cast<uint8_t*>(t.data);
    const int bits = to_->spec.bits;
    uint8_t* packed = body + to_->codes_offset(begin);
    uint8_t* codes = bits < 8 ? codes_ : packed;
    const int part = static_cast<int>(t.part);
    to_->codec.quantize[part][index(dtype)][static_cast<int>(to_->spec.rounding)](
        in, n, to_->spec, draw_, t.origin + begin, codes, body + to_->params_offset(begin),
        to_->codebook);
    if (bits < 8) ops_.pack[bits](codes, n, packed);
    if (begin + n != work_.total) return;
    if (t.part != Part::kParams) clear_to_word(body, layout.code_bytes);
    if (t.part != Part::kCodes) clear_to_word(body, layout.params_end);
  }

  const Combine& work_;
  const HostOps& ops_;
  const std::optional<Bodies> from_, to_;  // packed sources, and target
  const float multiplier_;                 // of raw sources
  const Draw draw_;
  const bool transforms_, changes_;
  const bool prefetches_;  // of larger blocks the next one is fetched where one is encoded
  alignas(64) float sum_[kMaxBlock];
  alignas(64) uint8_t codes_[kMaxBlock];
};

}  // namespace

const Spec* packed_source(const Combine& work) {
  for (const Source& s : work.sources)
    if (const Spec* spec = s.format.spec()) return spec;
  return nullptr;
}

bool transforms(const Combine& work) {
  const Spec* spec = packed_source(work);
  if (spec == nullptr) spec = work.target.format.spec();
  return spec != nullptr && spec->hadamard != 0;
}

bool changes_spec(const Combine& work) {
  const Spec *from = packed_source(work), *to = work.target.format.spec();
  return from != nullptr && to != nullptr && !packs_alike(*from, *to);
}

void combine(const Combine& work) {
  if (work.verdict != nullptr && *work.verdict != 0) return;
  const DefaultFloatMode mode;
  Pipe pipe(work);
  const size_t end = work.first + work.count, tile = pipe.tile();
  for (size_t begin = work.first; begin < end; begin += tile)
    pipe.run(begin, std::min(tile, end - begin));
}

float load_element(Dtype dtype, const void* from) {
  float value;
  host_ops().load[static_cast<int>(dtype)](from, 1, &value);
  return value;
}

}  // namespace terse::codec
