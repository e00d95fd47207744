// The host's block operations. This file is compiled once for each instruction set, with
// TERSE_ISA naming it: plain loops that the compiler vectorises. It calls no inline function of the
// standard library: the linker could keep this file's copy for the whole program.
#include "codec/host_ops.h"

#include "codec/float16.h"
#include "codec/hadamard.h"
#include "codec/half.h"
#include "codec/pack.h"

namespace terse::codec::TERSE_ISA {
namespace {

// Integers of an element's width.
template <class T>
struct IntegerOf {
  using type = int16_t;
};
template <>
struct IntegerOf<float> {
  using type = int32_t;
};
template <class T>
using Integer = typename IntegerOf<T>::type;

template <class T>
TERSE_INLINE T read(const void* in, size_t i) {
  T x;
  std::memcpy(&x, static_cast<const char*>(in) + i * sizeof(T), sizeof(T));
  return x;
}

template <class T>
TERSE_INLINE void write(void* out, size_t i, T x) {
  std::memcpy(static_cast<char*>(out) + i * sizeof(T), &x, sizeof(T));
}

// The elements of the block that begins at i.
TERSE_INLINE size_t block_at(size_t i, size_t n, size_t block) {
  return n - i < block ? n - i : block;
}

// Elements that pass through fp32 in memory at a time.
constexpr size_t kFloats = kMaxBlock;

// Elements to fp32 and back; fp16 by the machine, where it converts.
template <class T>
TERSE_INLINE void to_floats(const void* in, size_t n, float* __restrict out) {
  size_t i = 0;
  if constexpr (kConvertsHalves<T>)
    for (; i + kHalvesAtOnce <= n; i += kHalvesAtOnce)
      load_halves(static_cast<const char*>(in) + i * sizeof(T), out + i);
  for (; i < n; ++i) out[i] = to_float(read<T>(in, i));
}

template <class T>
TERSE_INLINE void from_floats(const void* __restrict in, size_t n, void* __restrict out) {
  size_t i = 0;
  if constexpr (kConvertsHalves<T>)
    for (; i + kHalvesAtOnce <= n; i += kHalvesAtOnce)
      store_halves(static_cast<const char*>(in) + i * sizeof(float),
                   static_cast<char*>(out) + i * sizeof(T));
  for (; i < n; ++i) write(out, i, from_float<T>(read<float>(in, i)));
}

template <class T>
void load(const void* in, size_t n, float* out) {
  to_floats<T>(in, n, out);
}

template <class T>
void load_add(const void* in, size_t n, float* __restrict out) {
  if constexpr (kConvertsHalves<T>) {
    float x[kFloats];
    for (size_t i = 0; i < n; i += kFloats) {
      const size_t some = block_at(i, n, kFloats);
      to_floats<T>(static_cast<const char*>(in) + i * sizeof(T), some, x);
      for (size_t k = 0; k < some; ++k) out[i + k] = add(out[i + k], x[k]);
    }
  } else {
    for (size_t i = 0; i < n; ++i) out[i] = add(out[i], to_float(read<T>(in, i)));
  }
}

template <class T>
void store(const float* in, size_t n, void* out) {
  from_floats<T>(in, n, out);
}

// The statistics are taken of the elements as integers, which order as the numbers do: the compiler
// vectorises that without leave to reassociate, and does not have to widen.
template <class T>
constexpr Integer<T> kMagnitude = static_cast<Integer<T>>(~(uint64_t{1} << (8 * sizeof(T) - 1)));

template <class T>
TERSE_INLINE float as_float(Integer<T> bits) {
  return to_float(__builtin_bit_cast(T, bits));
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, AbsMax& result) {
  Integer<T> absmax = 0;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> magnitude = read<Integer<T>>(in, i) & kMagnitude<T>;
    absmax = magnitude > absmax ? magnitude : absmax;
  }
  observe(result, as_float<T>(absmax));
}

// Negative numbers' magnitude bits inverted: as integers they order as numbers, NaN outermost, so
// that one shows in the lowest or the highest.
template <class T>
TERSE_INLINE Integer<T> ordered(Integer<T> bits) {
  return bits ^ (bits >> (8 * sizeof(T) - 1) & kMagnitude<T>);
}

template <class T>
TERSE_INLINE void stats(const void* in, size_t n, Extent& result) {
  Integer<T> low = kMagnitude<T>, high = ~kMagnitude<T>;
  for (size_t i = 0; i < n; ++i) {
    const Integer<T> x = ordered<T>(read<Integer<T>>(in, i));
    low = x < low ? x : low;
    high = x > high ? x : high;
  }
  observe(result, as_float<T>(ordered<T>(low)));
  observe(result, as_float<T>(ordered<T>(high)));
}

template <class T>
TERSE_INLINE void stats(const void*, size_t, NoStats&) {}

// The 16-bit numbers of elements first .. first + n, n rounded up to a multiple of 128.
void draw_elements(const Draw& draw, uint64_t first, size_t n, uint16_t* random) {
  constexpr size_t kGroups = 16;
  for (size_t i = 0; i < n; i += kGroups * kElementsPerDraw) {
    const uint64_t group = (first + i) / kElementsPerDraw;
    uint32_t words[4][kGroups];
    for (size_t j = 0; j < kGroups; ++j) {
      const PhiloxWords w = draw_group(draw, group + j);
      for (int k = 0; k < 4; ++k) words[k][j] = w.w[k];
    }
    for (size_t j = 0; j < kGroups; ++j)
      for (int k = 0; k < 4; ++k) {
        random[i + j * 8 + 2 * k] = static_cast<uint16_t>(words[k][j]);
        random[i + j * 8 + 2 * k + 1] = static_cast<uint16_t>(words[k][j] >> 16);
      }
  }
}

// What a code is stored in.
template <class Codec>
struct CodeOf {
  using Type = uint8_t;
};
template <class Codec>
requires(Codec::kDescriptor.max_bits > 8) struct CodeOf<Codec> {
  using Type = uint16_t;
};
template <class Codec>
using Code = typename CodeOf<Codec>::Type;

// Elements that share parameters; as many as can be at once where there are none.
template <class Codec>
TERSE_INLINE size_t block_of(const Spec& spec) {
  return Codec::kDescriptor.params == 0 ? kMaxBlock : spec.block;
}

// Where there is no choice the compiler shall know.
template <class Codec>
TERSE_INLINE Form known_form(int bits, Number scale, Rounding rounding) {
  constexpr Descriptor kCodec = Codec::kDescriptor;
  constexpr bool kChooses = kCodec.scales != choices(kCodec.usual_scale);
  return {bits, kChooses ? scale : kCodec.usual_scale, rounding};
}

// Bytes of parameters: of a block, and of a whole one with its finer scales.
template <class Codec>
TERSE_INLINE size_t params_bytes(Number scale) {
  return Codec::kDescriptor.params * number_bytes(scale);
}

template <class Codec>
TERSE_INLINE size_t params_stride(const Spec& spec) {
  constexpr Descriptor kCodec = Codec::kDescriptor;
  const Number scale = known_form<Codec>(spec.bits, spec.scale, spec.rounding).scale;
  size_t fine = 0;
  if constexpr (HasFinerScales<Codec>) fine = spec.block / kCodec.fine;
  return params_bytes<Codec>(scale) + fine;
}

// Copies of fixed sizes: others are calls.
TERSE_INLINE void store_number(Number n, float x, uint8_t* to) {
  const uint32_t bits = number_bits(n, x);
  if (n == Number::kFp32)
    std::memcpy(to, &bits, 4);
  else if (n == Number::kBf16)
    std::memcpy(to, &bits, 2);
  else
    std::memcpy(to, &bits, 1);
}

TERSE_INLINE float load_number(Number n, const uint8_t* from) {
  uint32_t bits = 0;
  if (n == Number::kFp32)
    std::memcpy(&bits, from, 4);
  else if (n == Number::kBf16)
    std::memcpy(&bits, from, 2);
  else
    std::memcpy(&bits, from, 1);
  return number_of(n, bits);
}

template <class Codec>
TERSE_INLINE void store_params(const Params& p, Number scale, uint8_t* to) {
  constexpr size_t kParams = Codec::kDescriptor.params;
  if constexpr (kParams > 0) store_number(scale, p.first, to);
  if constexpr (kParams > 1) store_number(scale, p.second, to + number_bytes(scale));
}

template <class Codec>
TERSE_INLINE Params load_params(const uint8_t* from, Number scale) {
  constexpr size_t kParams = Codec::kDescriptor.params;
  Params p;
  if constexpr (kParams > 0) p.first = load_number(scale, from);
  if constexpr (kParams > 1) p.second = load_number(scale, from + number_bytes(scale));
  return p;
}

// What is taken in place of the parameters p, after a second look at the elements.
template <class T, class Codec>
TERSE_INLINE Params choose(const void* in, size_t n, const Form& form, const Params& p) {
  Small probed[kMaxBlock];
  const auto probe = Codec::probe(p, form);
  for (size_t i = 0; i < n; ++i) probed[i] = probe(to_float(read<T>(in, i)));
  Choice best;
  for (int candidate = 0; candidate < Codec::kCandidates; ++candidate) {
    const auto trial = Codec::trial(candidate, form);
    uint32_t sum = 0;
    for (size_t i = 0; i < n; ++i) sum += trial(probed[i]);
    consider(best, candidate, Codec::cost(sum, candidate, form));
  }
  return Codec::chosen(p, best.candidate, form);
}

template <class T, class Codec, Rounding rounding, class Coder>
TERSE_INLINE void encode(const void* in, size_t n, const Coder& coder,
                         const uint16_t* __restrict random, uint8_t* __restrict codes) {
  for (size_t i = 0; i < n; ++i) {
    const uint16_t r = rounding == Rounding::kStochastic ? random[i] : uint16_t{0};
    write(codes, i, static_cast<Code<Codec>>(coder(to_float(read<T>(in, i)), r)));
  }
}

// The finer scales of a block, and the codes. Each step is done for all of them, for the processor
// to have several under way.
template <class T, class Codec, Rounding rounding>
TERSE_INLINE void encode_finely(const void* in, size_t n, const Form& form, const Params& p,
                                const uint16_t* __restrict random, uint8_t* __restrict codes,
                                uint8_t* __restrict fine) {
  constexpr size_t kFine = Codec::kDescriptor.fine, kMost = kMaxBlock / kFine;
  const size_t count = (n + kFine - 1) / kFine;
  float absmax[kMost];
  typename Codec::Quantizer quantizers[kMost];
  for (size_t i = 0; i < count; ++i) {
    AbsMax observed;
    stats<T>(static_cast<const char*>(in) + i * kFine * sizeof(T), block_at(i * kFine, n, kFine),
             observed);
    absmax[i] = observed.absmax;
  }
  const auto finer = Codec::finer(p, form);
  for (size_t i = 0; i < count; ++i) {
    const uint32_t byte = Codec::fine(finer, absmax[i], form);
    fine[i] = static_cast<uint8_t>(byte);
    quantizers[i] = Codec::quantizer(finer, byte);
  }
  for (size_t i = 0; i < count; ++i) {
    const size_t first = i * kFine, length = block_at(first, n, kFine);
    if (fine[i] == 0)
      std::memset(codes + first, 0, length);
    else
      encode<T, Codec, rounding>(static_cast<const char*>(in) + first * sizeof(T), length,
                                 Codec::template coder<rounding>(quantizers[i], form),
                                 random + (rounding == Rounding::kStochastic ? first : 0),
                                 codes + first);
  }
}

// `random`: of the block's elements; where the grid is shifted, of the first one.
template <class T, class Codec, Rounding rounding>
TERSE_INLINE void quantize_block(const void* in, size_t n, const Form& form,
                                 const uint16_t* __restrict random, uint8_t* __restrict codes,
                                 uint8_t* params) {
  const float shift = rounding == Rounding::kShift ? uniform(random[0]) - 0.5f : 0.0f;
  typename Codec::Stats observed;
  stats<T>(in, n, observed);
  Params p = Codec::params(observed, form, shift);
  const bool has_codes = !Codec::flat(p) && is_finite(p.first);
  if constexpr (Chooses<Codec>)
    if (has_codes) p = choose<T, Codec>(in, n, form, p);
  store_params<Codec>(p, form.scale, params);
  uint8_t* const fine = params + params_bytes<Codec>(form.scale);
  if (!has_codes) {
    std::memset(codes, 0, n * sizeof(Code<Codec>));
    if constexpr (HasFinerScales<Codec>)
      std::memset(fine, 0, (n + Codec::kDescriptor.fine - 1) / Codec::kDescriptor.fine);
  } else if constexpr (HasFinerScales<Codec>) {
    encode_finely<T, Codec, rounding>(in, n, form, p, random, codes, fine);
  } else {
    const auto coder = Codec::template coder<rounding>(Codec::quantizer(p, form), form);
    encode<T, Codec, rounding>(in, n, coder, random, codes);
  }
}

template <class T, class Codec, Rounding rounding>
void quantize_blocks(const void* in, size_t n, const Spec& spec, const Draw& draw, uint64_t first,
                     uint8_t* codes, uint8_t* params) {
  const Form form = known_form<Codec>(spec.bits, spec.scale, rounding);
  const size_t block = block_of<Codec>(spec), stride = params_stride<Codec>(spec);
  const size_t at_once = kMaxBlock / spec.block * spec.block;
  uint16_t random[kMaxBlock];
  for (size_t i = 0; i < n; i += block, params += stride) {
    const size_t length = block_at(i, n, block);
    if constexpr (rounding == Rounding::kStochastic) {
      if (i % at_once == 0) draw_elements(draw, first + i, block_at(i, n, at_once), random);
    } else if constexpr (rounding == Rounding::kShift) {
      const uint64_t element = first + i;
      random[0] = draw_bits(draw_group(draw, element / kElementsPerDraw), element);
    }
    const uint16_t* drawn = rounding == Rounding::kStochastic ? random + i % at_once : random;
    quantize_block<T, Codec, rounding>(static_cast<const char*>(in) + i * sizeof(T), length, form,
                                       drawn, codes + i * sizeof(Code<Codec>), params);
  }
}

template <class T, class Codec, bool accumulate>
TERSE_INLINE void decode(const uint8_t* __restrict codes, size_t n, const Form& form,
                         const typename Codec::Dequantizer& d, void* __restrict out) {
  for (size_t i = 0; i < n; ++i) {
    const float v = Codec::value(read<Code<Codec>>(codes, i), d, form);
    if constexpr (accumulate)
      write(out, i, add(read<T>(out, i), v));
    else if constexpr (Codec::kNanCodes)
      write(out, i, from_float<T>(v));
    else
      write(out, i, from_number<T>(v));
  }
}

template <class T, class Codec, bool accumulate>
TERSE_INLINE void dequantize_block(const uint8_t* __restrict codes, size_t n, const Form& form,
                                   const uint8_t* params, float factor, void* __restrict out) {
  const Params p = scaled(load_params<Codec>(params, form.scale), factor);
  if (!is_finite(p.first) || !is_finite(p.second)) {
    for (size_t i = 0; i < n; ++i) write(out, i, from_float<T>(bits_float(kNanBits)));
    return;
  }
  if constexpr (HasFinerScales<Codec>) {
    constexpr size_t kFine = Codec::kDescriptor.fine;
    const uint8_t* fine = params + params_bytes<Codec>(form.scale);
    for (size_t i = 0; i < n; i += kFine)
      decode<T, Codec, accumulate>(codes + i, block_at(i, n, kFine), form,
                                   Codec::dequantizer(p, fine[i / kFine], form),
                                   static_cast<char*>(out) + i * sizeof(T));
  } else {
    decode<T, Codec, accumulate>(codes, n, form, Codec::dequantizer(p, form), out);
  }
}

// A cast to what the machine converts to, of fp32.
template <class T, class Codec>
constexpr bool kIsConversion = false;
template <class Codec>
requires kConvertsHalves<typename Codec::Element>
constexpr bool kIsConversion<float, Codec> = true;

template <class T, class Codec, Rounding rounding>
void quantize(const void* in, size_t n, const Spec& spec, const Draw& draw, uint64_t first,
              uint8_t* codes, uint8_t* params) {
  if constexpr (kIsConversion<T, Codec> && rounding == Rounding::kNearest) {
    from_floats<typename Codec::Element>(in, n, codes);
  } else if constexpr (kConvertsHalves<T>) {
    const size_t at_once = kFloats / spec.block * spec.block;
    float x[kFloats];
    for (size_t i = 0; i < n; i += at_once) {
      const size_t some = block_at(i, n, at_once);
      to_floats<T>(static_cast<const char*>(in) + i * sizeof(T), some, x);
      quantize<float, Codec, rounding>(x, some, spec, draw, first + i,
                                       codes + i * sizeof(Code<Codec>),
                                       params + i / spec.block * params_stride<Codec>(spec));
    }
  } else {
    quantize_blocks<T, Codec, rounding>(in, n, spec, draw, first, codes, params);
  }
}

template <class T, class Codec, bool accumulate>
void dequantize_blocks(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                       float factor, void* out) {
  const Form form = known_form<Codec>(spec.bits, spec.scale, Rounding::kNearest);
  const size_t block = block_of<Codec>(spec), stride = params_stride<Codec>(spec);
  for (size_t i = 0; i < n; i += block, params += stride)
    dequantize_block<T, Codec, accumulate>(codes + i * sizeof(Code<Codec>), block_at(i, n, block),
                                           form, params, factor,
                                           static_cast<char*>(out) + i * sizeof(T));
}

template <class T, class Codec, bool accumulate>
void dequantize(const uint8_t* codes, size_t n, const Spec& spec, const uint8_t* params,
                float factor, void* out) {
  if constexpr (kIsConversion<T, Codec>) {
    float x[kFloats];
    for (size_t i = 0; i < n; i += kFloats) {
      const size_t some = block_at(i, n, kFloats);
      to_floats<typename Codec::Element>(codes + i * sizeof(Code<Codec>), some, x);
      for (size_t k = 0; k < some; ++k) {
        const float v = mul(x[k], factor);
        write(out, i + k, accumulate ? add(read<T>(out, i + k), v) : from_float<T>(v));
      }
    }
  } else if constexpr (kConvertsHalves<T>) {
    const size_t at_once = kFloats / spec.block * spec.block;
    float x[kFloats];
    for (size_t i = 0; i < n; i += at_once) {
      const size_t some = block_at(i, n, at_once);
      dequantize<float, Codec, false>(codes + i * sizeof(Code<Codec>), some, spec,
                                      params + i / spec.block * params_stride<Codec>(spec), factor,
                                      x);
      from_floats<T>(x, some, static_cast<char*>(out) + i * sizeof(T));
    }
  } else {
    dequantize_blocks<T, Codec, accumulate>(codes, n, spec, params, factor, out);
  }
}

void hadamard(float factor, size_t n, float* x) {
  for (size_t i = 0; i + kHadamard <= n; i += kHadamard) hadamard_group(factor, x + i);
}

void scale(float factor, size_t n, float* out) {
  for (size_t i = 0; i < n; ++i) out[i] = mul(out[i], factor);
}

uint64_t check(const uint8_t* in, size_t words, size_t first) {
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) {
    uint32_t word;
    std::memcpy(&word, in + 4 * i, 4);
    sum += static_cast<uint64_t>(word ^ 0x9E3779B9u) * (2 * (first + i) + 1);
  }
  return sum;
}

#define TERSE_STRING(x) #x
#define TERSE_NAME(x) TERSE_STRING(x)

template <class T, class Codec, Rounding rounding>
constexpr auto quantizer() {
  decltype(&quantize<T, Codec, Rounding::kNearest>) made = nullptr;
  if constexpr (has(Codec::kDescriptor.roundings, rounding)) made = &quantize<T, Codec, rounding>;
  return made;
}

template <class Codec>
constexpr CodecOps ops_of() {
  CodecOps ops{};
  const auto of_type = [&]<class T>(T, Dtype dtype) {
    const int i = static_cast<int>(dtype);
    ops.quantize[i][static_cast<int>(Rounding::kNearest)] =
        quantizer<T, Codec, Rounding::kNearest>();
    ops.quantize[i][static_cast<int>(Rounding::kStochastic)] =
        quantizer<T, Codec, Rounding::kStochastic>();
    ops.quantize[i][static_cast<int>(Rounding::kShift)] = quantizer<T, Codec, Rounding::kShift>();
    ops.dequantize[i] = &dequantize<T, Codec, false>;
  };
  of_type(float{}, Dtype::kFloat32);
  of_type(half_t{}, Dtype::kFloat16);
  of_type(bfloat_t{}, Dtype::kBfloat16);
  ops.dequantize_add = &dequantize<float, Codec, true>;
  return ops;
}

constexpr HostOps make_ops() {
  HostOps ops = {
      TERSE_NAME(TERSE_ISA),
      {&load<float>, &load<half_t>, &load<bfloat_t>},
      {&load_add<float>, &load_add<half_t>, &load_add<bfloat_t>},
      {&store<float>, &store<half_t>, &store<bfloat_t>},
      {},
      {nullptr, nullptr, &pack<2>, &pack<3>, &pack<4>, &pack<5>, &pack<6>, &pack<7>, &pack<8>},
      {nullptr, nullptr, &unpack<2>, &unpack<3>, &unpack<4>, &unpack<5>, &unpack<6>, &unpack<7>,
       &unpack<8>},
      &scale,
      &hadamard,
      &check,
  };
  size_t i = 0;
  Codecs::for_each([&]<class Codec>() { ops.codecs[i++] = ops_of<Codec>(); });
  return ops;
}

}  // namespace

extern const HostOps kOps;
constinit const HostOps kOps = make_ops();

}  // namespace terse::codec::TERSE_ISA
