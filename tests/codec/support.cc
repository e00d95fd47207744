#include "support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cfloat>
#include <cmath>
#include <limits>

namespace terse::codec {
namespace {

constexpr size_t kGuard = 128;
constexpr uint8_t kGuardByte = 0xA5, kFresh = 0x5A;

float one_number(Kin kin, Random& random) {
  const auto bits = [&](uint32_t mask) {
    return std::bit_cast<float>(static_cast<uint32_t>(random.next()) & mask);
  };
  switch (kin) {
    case Kin::kUniform:
      return static_cast<float>(random.uniform() * 3 - 1);
    case Kin::kWide: {
      const float value = bits(0xFFFFFFFF);
      return std::isfinite(value) ? value : 1.0f;
    }
    case Kin::kSparse: {
      if (random.below(2)) return random.below(2) ? 0.0f : -0.0f;
      return static_cast<float>(random.gaussian());
    }
    // From zero to about 2^-117, on both sides of the limit below which blocks are zero.
    case Kin::kSubnormal:
      return bits(random.below(8) ? 0x807FFFFF : 0x84FFFFFF);
    case Kin::kHuge:
      return random.below(4) ? (0.6f + 0.4f * static_cast<float>(random.uniform())) * FLT_MAX
                             : FLT_MAX;
    case Kin::kPlanted: {
      const float bad[] = {std::numeric_limits<float>::quiet_NaN(), -INFINITY, INFINITY,
                           std::bit_cast<float>(0xFF812345)};
      return random.below(300) ? static_cast<float>(random.gaussian()) : bad[random.below(4)];
    }
    case Kin::kHalf: {
      const bool fp16 = random.below(2);
      const float value = oracle::widen(fp16 ? Dtype::kFloat16 : Dtype::kBfloat16,
                                        static_cast<uint32_t>(random.next() & 0xFFFF));
      return std::isfinite(value) && std::fabs(value) < 1e9f ? value : 65504.0f;
    }
    case Kin::kOneSign: {
      if (random.below(100) == 0) return random.below(2) ? 0.0f : -0.0f;
      return std::fabs(static_cast<float>(random.gaussian()));
    }
    default:
      return static_cast<float>(random.gaussian());
  }
}

}  // namespace

Spec some_spec(Random& random, size_t block) {
  const CodecId codec = kDescriptors[random.below(Codecs::kSize)].id;
  std::vector<Spec> specs = every_spec(block);
  std::erase_if(specs, [&](const Spec& s) { return s.codec != codec; });
  return specs[random.below(specs.size())];
}

const char* name_of(Dtype dtype) {
  const char* names[] = {"fp32", "fp16", "bf16"};
  return names[static_cast<int>(dtype)];
}

double Random::gaussian() {
  const double radius = std::sqrt(-2 * std::log(1 - uniform()));
  return radius * std::cos(2 * M_PI * uniform());
}

Floats numbers(Kin kin, size_t n, Random& random) {
  Floats x(n);
  const float constant = one_number(random.below(2) ? Kin::kWide : Kin::kGaussian, random);
  for (float& value : x) value = kin == Kin::kConstant ? constant : one_number(kin, random);
  // Of one sign more often than not: opposite signs are a range beyond fp32.
  const size_t flip = kin == Kin::kHuge      ? random.below(3)
                      : kin == Kin::kOneSign ? random.below(2)
                                             : 0;
  for (float& value : x) value = flip == 1 || (flip == 2 && random.below(2)) ? -value : value;
  return x;
}

Floats gaussian(size_t n, uint64_t seed, double deviation) {
  Random random(seed);
  Floats x(n);
  for (float& value : x) value = static_cast<float>(deviation * random.gaussian());
  return x;
}

void put_bits(Bytes& memory, size_t i, uint32_t bits) {
  for (size_t k = 0; k < 4; ++k) memory[4 * i + k] = static_cast<uint8_t>(bits >> 8 * k);
}

Guarded::Guarded(size_t n, size_t offset)
    : n_(n), bytes_(kGuard + 64 + offset + n + kGuard, kGuardByte) {
  const size_t address = reinterpret_cast<uintptr_t>(bytes_.data()) + kGuard;
  begin_ = kGuard + (64 - address % 64) % 64 + offset;
  std::fill_n(bytes_.begin() + begin_, n, kFresh);
}

Guarded::Guarded(const Bytes& content, size_t offset) : Guarded(content.size(), offset) {
  std::copy(content.begin(), content.end(), bytes_.begin() + begin_);
}

bool Guarded::intact() const {
  for (size_t i = 0; i < bytes_.size(); ++i)
    if ((i < begin_ || i >= begin_ + n_) && bytes_[i] != kGuardByte) return false;
  return true;
}

Draw draw_of(const Stream& s) {
  return make_draw({s.seed, s.communicator, s.sequence, s.rank, s.shard, s.stage,
                    static_cast<Variate>(s.variate)});
}

Bytes encode(const Spec& spec, const Stream& stream, Dtype dtype, const Bytes& memory,
             size_t offset, const float* codebook) {
  const size_t count = memory.size() / dtype_size(dtype);
  Guarded in(memory, offset), out(body_size(spec, count), offset);
  const Source source{in.data(), dtype};
  combine({.sources = {&source, 1},
           .target = {out.data(), spec, draw_of(stream), stream.origin},
           .total = count,
           .count = count,
           .codebook = codebook});
  EXPECT_TRUE(out.intact()) << describe(spec) << ": wrote outside the body";
  EXPECT_EQ(in.content(), memory) << describe(spec) << ": wrote to its source";
  return out.content();
}

Bytes decode(const Spec& spec, const Bytes& body, size_t count, Dtype dtype, size_t offset,
             const float* codebook) {
  Guarded in(body, offset), out(count * dtype_size(dtype), offset);
  const Source source{in.data(), spec};
  combine({.sources = {&source, 1},
           .target = {out.data(), dtype},
           .total = count,
           .count = count,
           .codebook = codebook});
  EXPECT_TRUE(out.intact()) << describe(spec) << ": wrote outside the elements";
  EXPECT_EQ(in.content(), body) << describe(spec) << ": wrote to its source";
  return out.content();
}

Floats round_trip(const Spec& spec, const Stream& stream, const Floats& x) {
  Bytes memory(4 * x.size());
  std::copy_n(reinterpret_cast<const uint8_t*>(x.data()), memory.size(), memory.data());
  const Bytes body = encode(spec, stream, Dtype::kFloat32, memory);
  const Bytes decoded = decode(spec, body, x.size(), Dtype::kFloat32);
  Floats got(x.size());
  std::copy_n(decoded.data(), decoded.size(), reinterpret_cast<uint8_t*>(got.data()));
  return got;
}

double relative_error(const Floats& x, const Floats& got) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{got[i]} - x[i]) * (double{got[i]} - x[i]);
    norm += double{x[i]} * x[i];
  }
  return std::sqrt(error / norm);
}

namespace {

// In terms of a body, or of elements where nothing is packed.
Floats plain_sum(const Spec& spec, size_t count, const std::vector<Input>& inputs, float factor,
                 float premultiply, bool transforms) {
  Floats total;
  for (const Input& input : inputs) {
    Floats x = input.raw ? oracle::from_memory(*input.raw, input.bytes)
                         : oracle::decode_transformed(spec, input.bytes, count, factor);
    if (input.raw) {
      for (float& value : x) value = oracle::mul(value, oracle::mul(premultiply, factor));
      if (input.negated)
        for (float& value : x) value = -value;
      if (transforms) x = oracle::transformed(spec, x);
    }
    if (total.empty()) {
      total = x;
    } else {
      for (size_t i = 0; i < count; ++i) total[i] = oracle::add(total[i], x[i]);
    }
  }
  return total;
}

}  // namespace

Floats sum(const Spec& spec, size_t count, const std::vector<Input>& inputs, float factor,
           float premultiply) {
  const bool packed = std::any_of(inputs.begin(), inputs.end(), [](auto& i) { return !i.raw; });
  const Floats total = plain_sum(spec, count, inputs, factor, premultiply, packed);
  return packed ? oracle::restored(spec, total) : total;
}

Bytes encoded_sum(const Spec& spec, const Stream& stream, size_t count,
                  const std::vector<Input>& inputs, float factor, float premultiply) {
  return oracle::encode_transformed(spec, stream,
                                    plain_sum(spec, count, inputs, factor, premultiply, true));
}

Bytes encoded_sum(const Spec& from, const Spec& to, const Stream& stream, size_t count,
                  const std::vector<Input>& inputs, float factor) {
  return oracle::encode(to, stream, sum(from, count, inputs, factor));
}

}  // namespace terse::codec
