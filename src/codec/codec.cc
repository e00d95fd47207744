#include "codec/codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/host_ops.h"

namespace terse::codec {
namespace {

// The elements that pass through the stages together: whole blocks, about this many.
constexpr size_t kTile = 512;

size_t tile_of(size_t block) { return block < kTile ? kTile / block * block : block; }

// Memory that is read soon, a little after p: the processor by itself fetches ahead within a page
// only, and loses its way among several sources. There need not be any memory.
void prefetch_after(const void* p, size_t bytes) {
  constexpr size_t kAhead = 2048, kLine = 64;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(p) + kAhead;
  for (size_t i = 0; i < bytes; i += kLine)
    __builtin_prefetch(reinterpret_cast<const void*>(begin + i));
}

// A tile's way through the stages; the buffers are in the first-level cache.
class Pipe {
 public:
  explicit Pipe(const Combine& work)
      : work_(work),
        ops_(host_ops()),
        layout_(body_layout(work.spec, work.total)),
        codec_(ops_.codecs[index_of(work.spec.codec)]),
        multiplier_(multiplier(work)),
        transforms_(transforms(work)) {}

  void run(size_t begin, size_t n) {
    const std::span<const Source> sources = work_.sources;
    const Target& t = work_.target;
    if (sources.size() == 1) {
      const Source& s = sources[0];
      const bool plain = multiplier_ == 1.0f && !transforms_;
      if (s.raw && !t.raw && plain) return encode(*s.raw, raw(s, begin, n), begin, n);
      if (!s.raw && t.raw && !transforms_)
        return decode(codec_.dequantize[index(*t.raw)], s, begin, n,
                      element(t.data, *t.raw, begin));
    }
    // A sum is gathered aside, because the target may be one of the sources.
    set(sources[0], begin, n);
    for (const Source& s : sources.subspan(1)) add(s, begin, n);
    if (!t.raw) return encode(Dtype::kFloat32, sum_, begin, n);
    if (transforms_) ops_.hadamard(1.0f, n, sum_);
    ops_.store[index(*t.raw)](sum_, n, element(t.data, *t.raw, begin));
  }

 private:
  using Dequantize = decltype(CodecOps::dequantize_add);

  static int index(Dtype dtype) { return static_cast<int>(dtype); }

  static const void* raw(const Source& s, size_t begin, size_t n) {
    const char* in = static_cast<const char*>(s.data) + begin * dtype_size(*s.raw);
    prefetch_after(in, n * dtype_size(*s.raw));
    return in;
  }

  static void* element(void* data, Dtype dtype, size_t i) {
    return static_cast<char*>(data) + i * dtype_size(dtype);
  }

  static float multiplier(const Combine& work) {
    const Multiplier& m = work.premultiply;
    for (const Source& s : work.sources)
      if (s.raw && m.at != nullptr) return load_element(*s.raw, m.at) * work.factor;
    return m.value * work.factor;
  }

  // A raw source as it enters the sum.
  void load(const Source& s, size_t begin, size_t n, float* out) {
    ops_.load[index(*s.raw)](raw(s, begin, n), n, out);
    if (multiplier_ != 1.0f) ops_.scale(multiplier_, n, out);
    if (transforms_) ops_.hadamard(1.0f / kHadamard, n, out);
  }

  void set(const Source& s, size_t begin, size_t n) {
    if (s.raw) return load(s, begin, n, sum_);
    decode(codec_.dequantize[index(Dtype::kFloat32)], s, begin, n, sum_);
  }

  void add(const Source& s, size_t begin, size_t n) {
    if (!s.raw) return decode(codec_.dequantize_add, s, begin, n, sum_);
    if (multiplier_ == 1.0f && !transforms_)
      return ops_.load_add[index(*s.raw)](raw(s, begin, n), n, sum_);
    float addend[kMaxBlock];
    load(s, begin, n, addend);
    ops_.load_add[index(Dtype::kFloat32)](addend, n, sum_);
  }

  void decode(Dequantize dequantize, const Source& s, size_t begin, size_t n, void* out) {
    const uint8_t* body = static_cast<const uint8_t*>(s.data);
    const int bits = work_.spec.bits;
    const uint8_t* codes = body + begin / 8 * bits;
    prefetch_after(codes, n / 8 * bits);
    if (bits < 8) {
      ops_.unpack[bits](codes, n, codes_);
      codes = codes_;
    }
    dequantize(codes, n, work_.spec, body + params_offset(begin), work_.factor, out);
  }

  void encode(Dtype dtype, const void* in, size_t begin, size_t n) {
    const Target& t = work_.target;
    uint8_t* body = static_cast<uint8_t*>(t.data);
    const int bits = work_.spec.bits;
    uint8_t* packed = body + begin / 8 * bits;
    uint8_t* codes = bits < 8 ? codes_ : packed;
    codec_.quantize[index(dtype)][static_cast<int>(work_.spec.rounding)](
        in, n, work_.spec, t.draw, t.origin + begin, codes, body + params_offset(begin));
    if (bits < 8) ops_.pack[bits](codes, n, packed);
    if (begin + n == work_.total) {
      std::memset(body + layout_.code_bytes, 0, layout_.params_offset - layout_.code_bytes);
      std::memset(body + layout_.params_end, 0, layout_.size - layout_.params_end);
    }
  }

  // Of the block that begins with element `begin`.
  size_t params_offset(size_t begin) const {
    return layout_.params_offset + begin / work_.spec.block * params_bytes(work_.spec);
  }

  const Combine& work_;
  const HostOps& ops_;
  const BodyLayout layout_;
  const CodecOps& codec_;
  const float multiplier_;  // of raw sources
  const bool transforms_;
  alignas(64) float sum_[kMaxBlock];
  alignas(64) uint8_t codes_[kMaxBlock];
};

}  // namespace

bool transforms(const Combine& work) {
  const bool packed = std::ranges::any_of(work.sources, [](const Source& s) { return !s.raw; });
  return work.spec.hadamard != 0 && (packed || !work.target.raw);
}

void combine(const Combine& work) {
  Pipe pipe(work);
  const size_t end = work.first + work.count, tile = tile_of(work.spec.block);
  for (size_t begin = work.first; begin < end; begin += tile)
    pipe.run(begin, std::min(tile, end - begin));
}

float load_element(Dtype dtype, const void* from) {
  float value;
  host_ops().load[static_cast<int>(dtype)](from, 1, &value);
  return value;
}

}  // namespace terse::codec
