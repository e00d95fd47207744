// The golden cases: their inputs are listed here, their outputs are the oracle's.
#include <cfloat>
#include <cstring>

#include "codec/codecs.h"
#include "golden.h"

namespace terse::codec {
namespace {

constexpr Kind kIntNearest = kIntegerKinds[0], kIntStochastic = kIntegerKinds[1];
constexpr Kind kMinMaxNearest = kIntegerKinds[2], kMinMaxStochastic = kIntegerKinds[3];
constexpr Kind kMinMaxShift = kIntegerKinds[4];

std::string file_of(const char* kind, const Spec& spec) {
  return std::string(kind) + "/" + std::string(descriptor(spec.codec).name);
}

Golden encoded(const std::string& name, const std::string& about, const Spec& spec, uint64_t seed,
               uint64_t draw, Dtype dtype, const Bytes& elements) {
  const size_t count = elements.size() / dtype_size(dtype);
  const Bytes body =
      oracle::encode(spec, {.seed = seed, .sequence = draw}, oracle::from_memory(dtype, elements));
  return {.file = file_of("encode", spec),
          .name = name,
          .about = about,
          .scheme = describe(spec) + ",seed=" + std::to_string(seed),
          .dtype = dtype,
          .draw = draw,
          .count = count,
          .elements = elements,
          .packed = oracle::seal(spec, dtype, count, body)};
}

Golden encoded(const std::string& name, const std::string& about, const Spec& spec,
               const Floats& x) {
  return encoded(name, about, spec, 0, 0, Dtype::kFloat32, oracle::to_memory(Dtype::kFloat32, x));
}

Golden decoded(const std::string& name, const std::string& about, const Spec& spec, Dtype from,
               Dtype to, size_t count, const Bytes& body) {
  return {.file = file_of("decode", spec),
          .name = name,
          .about = about,
          .dtype = to,
          .count = count,
          .elements = oracle::to_memory(to, oracle::decode(spec, body, count)),
          .packed = oracle::seal(spec, from, count, body)};
}

// A scheme on a whole block and a short one; and back, to another type.
void add_scheme(std::vector<Golden>& cases, const Spec& spec, uint64_t number) {
  const Dtype dtype = kAllDtypes[number % 3];
  const std::string name = file_name(spec);
  const Floats x = gaussian(37, number, number % 2 ? 1 : 1e-3);
  cases.push_back(encoded(name, "Gaussian, a whole block and a short one", spec, number,
                          number * 1000003, dtype, oracle::to_memory(dtype, x)));
  const Bytes& packed = cases.back().packed;
  cases.push_back(decoded(name, "what encode/" + name + " decodes to", spec, dtype,
                          kAllDtypes[number % 5 % 3], x.size(),
                          Bytes(packed.begin() + 32, packed.end())));
}

// Every scheme, each once. The first ones are numbered; of the others the name gives a number, so
// that a new one changes nothing.
void add_every_scheme(std::vector<Golden>& cases) {
  std::vector<Spec> others = every_spec(32);
  uint64_t number = 0;
  for (Kind kind : kIntegerKinds) {
    for (int bits = kMinBits; bits <= kMaxBits; ++bits) {
      const Spec spec = make_spec(kind, bits, 32);
      add_scheme(cases, spec, number++);
      std::erase(others, spec);
    }
  }
  for (const Spec& spec : others) {
    number = 0;
    for (char c : describe(spec)) number = oracle::mix(number + static_cast<uint8_t>(c));
    add_scheme(cases, spec, number % 1000000);
  }
}

void add_special_values(std::vector<Golden>& cases) {
  const Spec int4 = make_spec(kIntNearest, 4, 32), minmax3 = make_spec(kMinMaxNearest, 3, 32);
  const Spec shift8 = make_spec(kMinMaxShift, 8, 32);
  const auto block = [](float most, float one) {
    Floats x(32, most);
    x[7] = one;
    return x;
  };
  cases.push_back(encoded("example_1", "FORMAT.md, section 7, the first and fourth example", int4,
                          {1, -3.5, 0.26f, 0, 7}));
  cases.push_back(encoded("example_2", "FORMAT.md, section 7, the second example", minmax3,
                          {-1, -0.5, 1, 2.5}));
  cases.push_back(
      encoded("example_3", "FORMAT.md, section 7, the third example", minmax3, {-1, 0, 1, 3}));
  cases.push_back(encoded("empty", "no element: a header alone", int4, {}));
  cases.push_back(encoded("one", "one element", minmax3, {-0.1f}));
  cases.push_back(encoded("nan_int", "a NaN spoils its block, not the next", int4, [&] {
    Floats x = block(1, NAN);
    x.push_back(3);
    return x;
  }()));
  cases.push_back(encoded("nan_minmax", "a NaN spoils its block, not the next", minmax3, [&] {
    Floats x = block(1, NAN);
    x.push_back(3);
    return x;
  }()));
  cases.push_back(encoded("infinity_int", "so does an infinity", int4, block(1, -INFINITY)));
  cases.push_back(encoded("infinity_minmax", "so does an infinity", minmax3, block(1, INFINITY)));
  cases.push_back(
      encoded("wide_minmax", "2^126 makes a block wide", minmax3, block(-0x1p125f, 0x1p126f)));
  cases.push_back(encoded("below_wide_minmax", "what is below does not", minmax3,
                          block(-0x1p125f, std::nextafter(0x1p126f, 0.0f))));
  cases.push_back(encoded(
      "widest_minmax", "all of fp32", make_spec(kMinMaxStochastic, 2, 32), 5, 0, Dtype::kFloat32,
      oracle::to_memory(Dtype::kFloat32, {FLT_MAX, -FLT_MAX, FLT_MAX / 3, 0, -0.0f, 1e38f})));
  // The first draw of seed 1 is below 1/2, so a base would be below the minimum.
  cases.push_back(encoded("wide_shift", "wide blocks are not shifted", shift8, 1, 0,
                          Dtype::kFloat32,
                          oracle::to_memory(Dtype::kFloat32, block(-FLT_MAX, -0x1.8p127f))));
  cases.push_back(encoded("zeros_int", "zeros of both signs", int4, block(0, -0.0f)));
  cases.push_back(encoded("zeros_minmax", "zeros of both signs", minmax3, block(-0.0f, 0)));
  cases.push_back(encoded("zero_minimum_minmax", "a zero base is +0", minmax3, block(-0.0f, 1)));
  cases.push_back(encoded("tiny_int", "2^-118 is encoded, what is below is zero", int4, [&] {
    Floats x = block(0, 0x1p-118f);
    for (float v : block(0, std::nextafter(0x1p-118f, 0.0f))) x.push_back(v);
    return x;
  }()));
  cases.push_back(encoded("tiny_minmax", "a range of 2^-118 is encoded, what is below is constant",
                          minmax3, [&] {
                            Floats x = block(0, 0x1p-118f);
                            for (float v : block(1e-30f, 1e-30f)) x.push_back(v);
                            return x;
                          }()));
  cases.push_back(encoded("subnormal_reciprocal", "1 / peak is subnormal",
                          make_spec(kIntNearest, 2, 32), {FLT_MAX, -FLT_MAX, FLT_MAX / 3, 0}));
  cases.push_back(encoded("huge_int", "the largest fp32", int4, {FLT_MAX, -FLT_MAX, 1e38f, 1}));
  cases.push_back(encoded("constant_minmax", "constants are exact", shift8, Floats(33, -0.3f)));
  const Spec learned4{.codec = Learned::kDescriptor.id, .bits = 4, .block = 32};
  cases.push_back(encoded("constant_learned", "constants are exact", learned4, Floats(33, -0.3f)));
  cases.push_back(
      encoded("widest_learned", "all of fp32: a wide block, and one that is not", learned4, [] {
        Floats x(34, 0x1.fp125f);
        x[0] = FLT_MAX, x[1] = -FLT_MAX, x[2] = 0, x[3] = -0x1p100f;
        x[32] = -0x1.fp125f;
        return x;
      }()));
  cases.push_back(encoded("negative_zero_learned",
                          "a smallest -0 makes codes symmetric, as any zero does", learned4,
                          {-0.0f, 1, 0.5f, 0.1f}));
  // Zeros among both signs, one sign and the other, and a short block.
  const Floats with_zeros = [] {
    Floats x(107);
    for (size_t i = 0; i < x.size(); ++i) x[i] = std::ldexp(static_cast<float>(i % 11) - 4, -2);
    for (size_t i = 32; i < 64; ++i) x[i] = std::fabs(x[i]);
    for (size_t i = 64; i < 96; ++i) x[i] = -std::fabs(x[i]);
    return x;
  }();
  const auto zeros = [&](const char* name, const Spec& spec) {
    cases.push_back(encoded(name, "zeros stay zeros", spec, 17, 0, Dtype::kFloat32,
                            oracle::to_memory(Dtype::kFloat32, with_zeros)));
  };
  zeros("with_zeros_minmax", minmax3);
  zeros("with_zeros_shift", shift8);
  zeros("with_zeros_stochastic", make_spec(kMinMaxStochastic, 4, 32));
  zeros("with_zeros_learned", learned4);
  // Element 11 of seed 1410 draws the largest number.
  cases.push_back(encoded("constant_peak", "127 / peak rounds down here: it must reach 127",
                          make_spec(kIntStochastic, 8, 32), 1410, 0, Dtype::kFloat32,
                          oracle::to_memory(Dtype::kFloat32, Floats(33, -0x1.002efap+0f))));
  cases.push_back(encoded("ties_int", "halves go to the even code", int4,
                          {7, 0.5f, 1.5f, 2.5f, -0.5f, -1.5f, -2.5f, 6.5f, -6.5f}));
  cases.push_back(encoded("fp16_extremes", "fp16: subnormals and the largest", int4, 0, 0,
                          Dtype::kFloat16, {0x01, 0x00, 0xff, 0x7b, 0xff, 0xfb, 0xff, 0x03}));
  cases.push_back(encoded("bf16_extremes", "bf16: the largest, a NaN's block follows",
                          make_spec(kIntNearest, 8, 32), 0, 0, Dtype::kBfloat16, [] {
                            Bytes x = oracle::to_memory(Dtype::kBfloat16, Floats(33, 0x1.fep127f));
                            x[64] = 0x81;
                            x[65] = 0xff;
                            return x;
                          }()));
}

// What an encoder never writes, and the way to another element type.
void add_decoded(std::vector<Golden>& cases) {
  const auto add = [&](const char* name, const char* about, Kind kind, int bits, size_t count,
                       const Bytes& body, Dtype dtype) {
    cases.push_back(
        decoded(name, about, make_spec(kind, bits, 32), Dtype::kFloat32, dtype, count, body));
  };
  const Dtype fp32 = Dtype::kFloat32, fp16 = Dtype::kFloat16, bf16 = Dtype::kBfloat16;
  const Bytes int4 = {0x87, 0x79, 0, 0, 0, 0, 0x80, 0x3f};
  add("lowest_code", "the code -2^(b-1) is limited to -peak", kIntNearest, 4, 4, int4, fp32);
  add("to_fp16", "fp32 encoded, fp16 wanted", kIntNearest, 4, 4, int4, fp16);
  add("to_bf16", "fp32 encoded, bf16 wanted", kIntNearest, 4, 4, int4, bf16);
  add("too_large_for_fp16", "infinities, where fp16 ends", kIntNearest, 4, 4,
      {0x87, 0x79, 0, 0, 0, 0, 0x80, 0x47}, fp16);
  add("infinite_peak", "any parameter that is not finite gives NaN", kIntNearest, 4, 4,
      {0x87, 0x79, 0, 0, 0, 0, 0x80, 0x7f}, fp32);
  add("nan_peak", "the canonical NaN, whatever NaN is read", kIntNearest, 4, 4,
      {0x87, 0x79, 0, 0, 0x45, 0x23, 0x81, 0xff}, bf16);
  add("infinite_step", "a step that is not finite gives NaN", kMinMaxNearest, 4, 4,
      {0x50, 0xfa, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0xff}, fp32);
  add("beyond_fp32", "base + code * step may be infinite", kMinMaxNearest, 4, 4,
      {0x50, 0xfa, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0, 0x7f}, fp32);
  add("fp32_ties", "values between two bf16", kMinMaxNearest, 4, 4,
      {0x50, 0xfa, 0, 0, 0, 0, 0x80, 0x3f, 0, 0, 0x80, 0x3b}, bf16);
}

void add_refused(std::vector<Golden>& cases) {
  const Spec spec = make_spec(kIntNearest, 4, 32);
  const Bytes good =
      oracle::seal(spec, Dtype::kFloat32, 5, oracle::encode(spec, {}, {1, -3.5, 0.26f, 0, 7}));
  const auto add = [&](const char* name, const char* about, Bytes packed, const char* message,
                       bool sealed) {
    const uint64_t check = sealed ? oracle::check(packed) : 0;
    if (sealed) std::memcpy(packed.data() + 24, &check, sizeof check);
    cases.push_back({.file = "refuse/container",
                     .name = name,
                     .about = about,
                     .packed = packed,
                     .message = message});
  };
  const auto with = [&](size_t at, int value) {
    Bytes packed = good;
    packed[at] = static_cast<uint8_t>(value);
    return packed;
  };
  const auto sized = [&](size_t bytes) {
    Bytes packed = good;
    packed.resize(bytes);
    return packed;
  };
  const char *scheme = "codec, bits, block", *size = "size", *check = "check";
  add("empty", "no byte", {}, "shorter than a header", false);
  add("short_header", "a header less its last byte", sized(31), "shorter than a header", false);
  add("magic", "bad magic", with(3, 'e'), "begin with TRSE", true);
  add("version_3", "an unknown version", with(4, 3), "version", true);
  add("version_5", "an unknown version", with(4, 5), "version", true);
  add("codec_0", "an unknown codec", with(5, 0), scheme, true);
  add("codec_255", "an unknown codec", with(5, 255), scheme, true);
  add("bits_1", "too few bits", with(6, 1), scheme, true);
  add("bits_9", "too many bits", with(6, 9), scheme, true);
  add("type_8", "NCCL's fp64", with(7, 8), "element type", true);
  add("block_0", "no block", with(8, 0), scheme, true);
  add("block_33", "not a multiple of 32", with(8, 33), scheme, true);
  add("block_4128", "a block above 4096", with(9, 0x10), scheme, true);
  add("block_65568", "a block whose low 16 bits would do", with(10, 1), scheme, true);
  add("scale_e8m0", "integers do not have such parameters", with(12, 2), scheme, true);
  add("scale_3", "parameters of an unknown kind", with(12, 3), scheme, true);
  add("hadamard_16", "an unknown transform", with(13, 16), scheme, true);
  add("reserved", "the reserved bytes are not zero", with(15, 1), scheme, true);
  add("count_less", "another count, of the same size", with(16, 1), check, false);
  add("count_more", "a count of more elements than there are", with(16, 9), size, true);
  add("count_huge", "a count of 2^63 + 5", with(23, 0x80), size, true);
  add("truncated", "the last byte is missing", sized(39), size, false);
  add("truncated_word", "the last word is missing, sealed anew", sized(36), size, true);
  add("trailing_byte", "a byte follows", sized(41), size, false);
  add("trailing_word", "a word follows, sealed anew", sized(44), size, true);
  add("check", "the check is wrong", with(24, 0), check, false);
  add("flipped_header", "a bit of the header is flipped: fp16", with(7, 6), check, false);
  add("flipped_code", "a bit of a code is flipped", with(32, 0xc3), check, false);
  add("flipped_peak", "a bit of the peak is flipped", with(38, 0xe1), check, false);
}

}  // namespace

std::vector<Golden> golden_cases() {
  std::vector<Golden> cases;
  add_every_scheme(cases);
  add_special_values(cases);
  add_decoded(cases);
  add_refused(cases);
  return cases;
}

}  // namespace terse::codec
