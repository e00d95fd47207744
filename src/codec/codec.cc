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
        family_(static_cast<int>(work.spec.family) - 1),
        params_bytes_(params_per_block(work.spec.family) * sizeof(float)),
        multiplier_(multiplier(work)) {}

  void run(size_t begin, size_t n) {
    const std::span<const Source> sources = work_.sources;
    const Target& t = work_.target;
    if (sources.size() == 1) {
      const Source& s = sources[0];
      if (s.raw && !t.raw && multiplier_ == 1.0f) return encode(*s.raw, raw(s, begin, n), begin, n);
      if (!s.raw && t.raw)
        return decode(ops_.dequantize[index(*t.raw)], s, begin, n, element(t.data, *t.raw, begin));
    }
    // A sum is gathered aside, because the target may be one of the sources.
    set(sources[0], begin, n);
    for (const Source& s : sources.subspan(1)) add(s, begin, n);
    if (!t.raw) return encode(Dtype::kFloat32, sum_, begin, n);
    ops_.store[index(*t.raw)](sum_, n, element(t.data, *t.raw, begin));
  }

 private:
  using Dequantize = void (*)(const uint8_t*, size_t, size_t, int, const uint8_t*, float, void*);

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

  void set(const Source& s, size_t begin, size_t n) {
    if (!s.raw) return decode(ops_.dequantize[index(Dtype::kFloat32)], s, begin, n, sum_);
    ops_.load[index(*s.raw)](raw(s, begin, n), n, sum_);
    if (multiplier_ != 1.0f) ops_.scale(multiplier_, n, sum_);
  }

  void add(const Source& s, size_t begin, size_t n) {
    if (!s.raw) return decode(ops_.dequantize_add, s, begin, n, sum_);
    if (multiplier_ == 1.0f) return ops_.load_add[index(*s.raw)](raw(s, begin, n), n, sum_);
    float multiplied[kMaxBlock];
    ops_.load[index(*s.raw)](raw(s, begin, n), n, multiplied);
    ops_.scale(multiplier_, n, multiplied);
    ops_.load_add[index(Dtype::kFloat32)](multiplied, n, sum_);
  }

  void decode(const Dequantize (&dequantize)[kFamilies], const Source& s, size_t begin, size_t n,
              void* out) {
    const uint8_t* body = static_cast<const uint8_t*>(s.data);
    const int bits = work_.spec.bits;
    const uint8_t* codes = body + begin / 8 * bits;
    prefetch_after(codes, n / 8 * bits);
    if (bits != 8) {
      ops_.unpack[bits](codes, n, codes_);
      codes = codes_;
    }
    dequantize[family_](codes, n, work_.spec.block, bits, body + params_offset(begin), work_.factor,
                        out);
  }

  void encode(Dtype dtype, const void* in, size_t begin, size_t n) {
    const Target& t = work_.target;
    uint8_t* body = static_cast<uint8_t*>(t.data);
    const int bits = work_.spec.bits;
    uint8_t* packed = body + begin / 8 * bits;
    uint8_t* codes = bits == 8 ? packed : codes_;
    const auto quantize =
        ops_.quantize[index(dtype)][family_][static_cast<int>(work_.spec.rounding)];
    quantize(in, n, work_.spec.block, bits, t.draw, t.origin + begin, codes,
             body + params_offset(begin));
    if (bits != 8) ops_.pack[bits](codes, n, packed);
    if (begin + n == work_.total) {
      uint8_t* pad = body + layout_.code_bytes;
      std::memset(pad, 0, layout_.params_offset - layout_.code_bytes);
    }
  }

  // Of the block that begins with element `begin`.
  size_t params_offset(size_t begin) const {
    return layout_.params_offset + begin / work_.spec.block * params_bytes_;
  }

  const Combine& work_;
  const HostOps& ops_;
  const BodyLayout layout_;
  const int family_;
  const size_t params_bytes_;
  const float multiplier_;  // of raw sources
  alignas(64) float sum_[kMaxBlock];
  alignas(64) uint8_t codes_[kMaxBlock];
};

}  // namespace

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
