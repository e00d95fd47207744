#include "codec/codec.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "codec/host_ops.h"

namespace terse::codec {
namespace {

bool aligned_float(const void* p) { return reinterpret_cast<uintptr_t>(p) % alignof(float) == 0; }

// One block's way through the stages; the buffers are in the first-level cache.
class BlockPipe {
 public:
  explicit BlockPipe(const Combine& work)
      : work_(work),
        ops_(host_ops()),
        layout_(body_layout(work.spec, work.total)),
        family_(static_cast<int>(work.spec.family) - 1),
        params_(params_per_block(work.spec.family)) {}

  void run(size_t begin, size_t n) {
    const std::span<const Source> sources = work_.sources;
    float* out = result(begin);
    if (sources.size() == 1 && work_.factor == 1.0f && !work_.target.raw && direct(sources[0])) {
      encode(raw<const float>(sources[0].data, begin), begin, n);
      return;
    }
    fetch<false>(sources[0], begin, n, out);
    for (const Source& source : sources.subspan(1)) fetch<true>(source, begin, n, out);
    if (work_.factor != 1.0f) ops_.scale(work_.factor, n, out);
    finish(out, begin, n);
  }

 private:
  template <class T>
  static T* raw(std::conditional_t<std::is_const_v<T>, const void*, void*> data, size_t element) {
    return static_cast<T*>(data) + element;
  }

  // Raw fp32 that may be used in place.
  static bool direct(const Source& s) { return s.raw == Dtype::kFloat32 && aligned_float(s.data); }

  // A single source's values may go straight to the caller's fp32 memory; a sum is gathered aside,
  // because the target may be one of the sources.
  float* result(size_t begin) {
    const Target& t = work_.target;
    const bool in_place = work_.sources.size() == 1 && !work_.sources[0].raw &&
                          t.raw == Dtype::kFloat32 && aligned_float(t.data);
    return in_place ? raw<float>(t.data, begin) : sum_;
  }

  template <bool accumulate>
  void fetch(const Source& source, size_t begin, size_t n, float* out) {
    if (source.raw) {
      const size_t size = dtype_size(*source.raw);
      const char* in = static_cast<const char*>(source.data) + begin * size;
      const int dtype = static_cast<int>(*source.raw);
      if constexpr (accumulate) {
        ops_.load[dtype](in, n, addend_);
        ops_.add(addend_, n, out);
      } else {
        ops_.load[dtype](in, n, out);
      }
      return;
    }
    const uint8_t* body = static_cast<const uint8_t*>(source.data);
    const int bits = work_.spec.bits;
    const uint8_t* codes = body + begin / 8 * bits;
    if (bits != 8) {
      ops_.unpack[bits](codes, n, codes_);
      codes = codes_;
    }
    float params[2];
    std::memcpy(params, body + layout_.params_offset + params_offset(begin), params_ * 4);
    const auto& table = accumulate ? ops_.dequantize_add : ops_.dequantize;
    table[family_](codes, n, bits, params, out);
  }

  void encode(const float* in, size_t begin, size_t n) {
    const Target& t = work_.target;
    uint8_t* body = static_cast<uint8_t*>(t.data);
    const int bits = work_.spec.bits;
    uint8_t* packed = body + begin / 8 * bits;
    uint8_t* codes = bits == 8 ? packed : codes_;
    float params[2];
    const auto quantize = ops_.quantize[family_][static_cast<int>(work_.spec.rounding)];
    quantize(in, n, bits, t.draw, t.origin + begin, codes, params);
    if (bits != 8) ops_.pack[bits](codes, n, packed);
    std::memcpy(body + layout_.params_offset + params_offset(begin), params, params_ * 4);
    if (begin + n == work_.total) {
      uint8_t* pad = body + layout_.code_bytes;
      std::memset(pad, 0, layout_.params_offset - layout_.code_bytes);
    }
  }

  void finish(const float* values, size_t begin, size_t n) {
    const Target& t = work_.target;
    if (!t.raw) return encode(values, begin, n);
    char* out = static_cast<char*>(t.data) + begin * dtype_size(*t.raw);
    if (reinterpret_cast<const char*>(values) != out)
      ops_.store[static_cast<int>(*t.raw)](values, n, out);
  }

  size_t params_offset(size_t begin) const { return begin / work_.spec.block * params_ * 4; }

  const Combine& work_;
  const HostOps& ops_;
  const BodyLayout layout_;
  const int family_;
  const size_t params_;
  alignas(64) float sum_[kMaxBlock];
  alignas(64) float addend_[kMaxBlock];
  alignas(64) uint8_t codes_[kMaxBlock];
};

}  // namespace

void combine(const Combine& work) {
  BlockPipe pipe(work);
  const size_t end = work.first + work.count;
  for (size_t begin = work.first; begin < end; begin += work.spec.block)
    pipe.run(begin, std::min<size_t>(work.spec.block, end - begin));
}

}  // namespace terse::codec
