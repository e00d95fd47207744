// Sums of several sources, in windows, in chunks and in place: as the oracle's sum, encoded or
// rounded.
#include <gtest/gtest.h>

#include <algorithm>

#include "codec/checksum.h"
#include "support.h"

namespace terse::codec {
namespace {

struct Sum {
  Spec spec;
  size_t count;
  std::vector<Input> inputs;
  float factor;
  float premultiply = 1.0f;
  Dtype dtype = Dtype::kFloat32;  // of all raw memory
  bool read_late = false;         // the multiplier is read when the work is done

  Floats by_oracle() const { return sum(spec, count, inputs, factor, premultiply); }
  Bytes by_oracle(const Stream& stream) const {
    return encoded_sum(spec, stream, count, inputs, factor, premultiply);
  }
};

// A multiplier, and the memory that it may be read from.
struct Premultiply {
  explicit Premultiply(const Sum& s) : bytes(oracle::to_memory(s.dtype, {s.premultiply})) {
    if (s.read_late)
      value = {99.0f, bytes.data()};
    else
      value.value = s.premultiply;
  }
  Bytes bytes;
  Multiplier value;
};

Input packed_input(const Spec& spec, size_t count, Random& random) {
  Random own(random.next());
  return {oracle::encode(spec, {.seed = own.next()}, numbers(Kin::kGaussian, count, own)), {}};
}

Input raw_input(Dtype dtype, Kin kin, size_t count, Random& random) {
  return {oracle::to_memory(dtype, numbers(kin, count, random)), dtype};
}

Sum some_sum(Random& random) {
  Sum sum{some_spec(random, 32 * (1 + random.below(5))), 1 + random.below(900), {}, 1.0f};
  const size_t sources = 1 + random.below(9);
  if (random.below(2)) sum.factor = 1.0f / static_cast<float>(sources);
  sum.dtype = kAllDtypes[random.below(3)];
  if (random.below(2)) sum.premultiply = 0.25f * static_cast<float>(random.below(9));
  sum.read_late = random.below(2);
  for (size_t i = 0; i < sources; ++i) {
    if (random.below(2)) {
      sum.inputs.push_back(packed_input(sum.spec, sum.count, random));
    } else {
      const Kin kin = random.below(6) ? Kin::kGaussian : Kin::kPlanted;
      sum.inputs.push_back(raw_input(sum.dtype, kin, sum.count, random));
      sum.inputs.back().negated = random.below(3) == 0;
    }
  }
  return sum;
}

// Runs `sum` into `target` a window at a time; all memory lies `offset` bytes off alignment.
void run(const Sum& sum, Target target, size_t window, size_t offset) {
  std::vector<Guarded> memory;
  std::vector<Source> sources;
  for (const Input& input : sum.inputs) memory.emplace_back(input.bytes, offset);
  for (size_t i = 0; i < memory.size(); ++i)
    sources.push_back(sum.inputs[i].source(memory[i].data(), sum.spec));
  const Premultiply premultiply(sum);
  for (size_t first = 0; first < sum.count; first += window) {
    combine({.sources = sources,
             .target = target,
             .factor = sum.factor,
             .premultiply = premultiply.value,
             .total = sum.count,
             .first = first,
             .count = std::min(window, sum.count - first)});
  }
  for (size_t i = 0; i < memory.size(); ++i) {
    EXPECT_TRUE(memory[i].intact());
    EXPECT_EQ(memory[i].content(), sum.inputs[i].bytes) << "source " << i << " was written to";
  }
}

std::string trace(const Sum& s) {
  std::string text = describe(s.spec) + " count " + std::to_string(s.count) + " factor " +
                     std::to_string(s.factor) + " of";
  for (const Input& input : s.inputs)
    text += input.negated ? "-" : "", text += input.raw ? name_of(*input.raw) : "packed",
        text += " ";
  return text;
}

TEST(Combine, DecodeReduceEncode) {
  Random random(11);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const Sum s = some_sum(random);
    const Stream stream{
        .seed = random.next(), .rank = 3, .stage = 1, .origin = 32 * random.below(99)};
    const size_t window = s.spec.block * (1 + random.below(8)), offset = random.below(4);
    SCOPED_TRACE(trace(s) + " window " + std::to_string(window));
    Guarded out(body_size(s.spec, s.count), offset);
    run(s, {out.data(), s.spec, draw_of(stream), stream.origin}, window, offset);
    EXPECT_TRUE(out.intact());
    ASSERT_EQ(out.content(), s.by_oracle(stream));
  }
}

// The parts of a check are summed, and where the sum is 0 the draw stays as it is.
TEST(Combine, DrawsByTheSumOfTheContent) {
  Random random(12);
  const Spec spec{.rounding = Rounding::kStochastic, .bits = 4};
  const Input input = raw_input(Dtype::kFloat32, Kin::kGaussian, 1000, random);
  const auto encoded = [&](Draw draw, const uint64_t* content) {
    Bytes body(body_size(spec, 1000));
    const Source source = input.source(input.bytes.data(), spec);
    combine({.sources = {&source, 1},
             .target = {.data = body.data(),
                        .format = spec,
                        .draw = draw,
                        .content = content,
                        .content_parts = kSampleParts},
             .total = 1000,
             .first = 0,
             .count = 1000});
    return body;
  };
  const Draw draw = draw_of(Stream{.seed = 5});
  std::vector<uint64_t> parts(kSampleParts);
  EXPECT_EQ(encoded(draw, parts.data()), encoded(draw, nullptr));
  parts[0] = 7;
  parts[kSampleParts - 1] = 8;
  EXPECT_EQ(encoded(draw, parts.data()), encoded(redraw(draw, 15), nullptr));
  EXPECT_NE(encoded(draw, parts.data()), encoded(draw, nullptr));
}

// From one spec to another, whose blocks and transform may differ.
TEST(Combine, ChangesTheSpec) {
  Random random(16);
  const Spec others[] = {Spec{.rounding = Rounding::kStochastic, .bits = 4, .hadamard = 32},
                         make_spec({kSymmetric, Rounding::kNearest}, 8, 32),
                         make_spec({kMinMax, Rounding::kStochastic}, 3, 512)};
  for (int repeat = 0; repeat < 300; ++repeat) {
    Sum s = some_sum(random);
    const Spec to = others[random.below(std::size(others))];
    s.spec = some_spec(random, size_t{32} << random.below(7));
    if (s.spec == to) continue;
    for (Input& input : s.inputs) input = packed_input(s.spec, s.count, random);
    const Stream stream{.seed = random.next(), .rank = 2, .stage = 1, .origin = 64};
    const size_t window = std::max<size_t>(s.spec.block, to.block) * (1 + random.below(4));
    SCOPED_TRACE(trace(s) + " to " + describe(to) + " window " + std::to_string(window));
    Guarded out(body_size(to, s.count), random.below(4));
    run(s, {out.data(), to, draw_of(stream), stream.origin}, window, random.below(4));
    EXPECT_TRUE(out.intact());
    ASSERT_EQ(out.content(), encoded_sum(s.spec, to, stream, s.count, s.inputs, s.factor));
  }
}

// Bodies that differ in rounding alone are packed alike: of raw sources, too, and transformed once.
TEST(Combine, RoundsTheSumOtherwise) {
  Random random(18);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const Sum s = some_sum(random);
    const Descriptor& d = descriptor(s.spec.codec);
    Spec to = s.spec;
    to.rounding = static_cast<Rounding>((static_cast<int>(to.rounding) + 1) % kRoundings);
    if (!has(d.roundings, to.rounding) || d.codebook || shares_grid(d)) continue;
    const Stream stream{.seed = random.next(), .rank = 2, .stage = 1, .origin = 64};
    const size_t window = to.block * (1 + random.below(4)), offset = random.below(4);
    SCOPED_TRACE(trace(s) + " to " + describe(to) + " window " + std::to_string(window));
    Guarded out(body_size(to, s.count), offset);
    run(s, {out.data(), to, draw_of(stream), stream.origin}, window, offset);
    EXPECT_TRUE(out.intact());
    ASSERT_EQ(out.content(), encoded_sum(to, stream, s.count, s.inputs, s.factor, s.premultiply));
  }
}

TEST(Combine, DecodeReduce) {
  Random random(12);
  for (int repeat = 0; repeat < 300; ++repeat) {
    const Sum s = some_sum(random);
    const Dtype dtype = kAllDtypes[random.below(3)];
    const size_t window = s.spec.block * (1 + random.below(8)), offset = random.below(4);
    SCOPED_TRACE(trace(s) + " to " + name_of(dtype) + " window " + std::to_string(window));
    Guarded out(s.count * dtype_size(dtype), offset);
    run(s, {out.data(), dtype}, window, offset);
    EXPECT_TRUE(out.intact());
    ASSERT_EQ(out.content(), oracle::to_memory(dtype, s.by_oracle()));
  }
}

// What the transform leaves over comes out with the only NaN that is ever written, whichever was
// read there, and where the sum of two infinities is none.
TEST(Combine, CanonicalNansBehindTheTransform) {
  constexpr size_t kWhole = 3 * kHadamard, kNans = std::size(kOtherNans);
  constexpr uint32_t kInfinity = 0x7F800000, kMinusInfinity = 0xFF800000;
  Random random(17);
  for (const Spec& spec : every_spec(64)) {
    if (spec.hadamard == 0) continue;
    for (size_t rest : {1, 5, 31}) {
      for (size_t packed_at : {0, 1, 2}) {
        for (Dtype dtype : kAllDtypes) {
          Sum s{spec, kWhole + rest, {}, 1.0f};
          Input a = raw_input(Dtype::kFloat32, Kin::kGaussian, s.count, random), b = a;
          for (size_t i = kWhole; i < s.count; ++i) {
            const size_t k = random.below(kNans + 1);
            put_bits(a.bytes, i, k < kNans ? kOtherNans[k] : kInfinity);
            if (k == kNans) put_bits(b.bytes, i, kMinusInfinity);
          }
          s.inputs = {a, b};
          s.inputs.insert(s.inputs.begin() + packed_at, packed_input(spec, s.count, random));
          SCOPED_TRACE(trace(s) + " to " + name_of(dtype));
          const size_t offset = random.below(4);
          Guarded out(s.count * dtype_size(dtype), offset);
          run(s, {out.data(), dtype}, 2 * spec.block, offset);
          EXPECT_TRUE(out.intact());
          ASSERT_EQ(out.content(), oracle::to_memory(dtype, s.by_oracle()));
        }
      }
    }
  }
}

// The target is the memory of one of the raw sources, whichever it is.
TEST(Combine, InPlace) {
  Random random(13);
  for (int repeat = 0; repeat < 200; ++repeat) {
    Sum s = some_sum(random);
    const Dtype dtype = kAllDtypes[random.below(3)];
    const size_t own = random.below(s.inputs.size()), offset = random.below(4);
    s.inputs[own] = raw_input(dtype, Kin::kGaussian, s.count, random);
    for (Input& input : s.inputs)
      if (input.raw && *input.raw != dtype) input = packed_input(s.spec, s.count, random);
    s.dtype = dtype;
    SCOPED_TRACE(trace(s) + " in place of source " + std::to_string(own));
    std::vector<Guarded> memory;
    std::vector<Source> sources;
    for (const Input& input : s.inputs) memory.emplace_back(input.bytes, offset);
    for (size_t i = 0; i < memory.size(); ++i)
      sources.push_back(s.inputs[i].source(memory[i].data(), s.spec));
    const Premultiply premultiply(s);
    combine({.sources = sources,
             .target = {memory[own].data(), dtype},
             .factor = s.factor,
             .premultiply = premultiply.value,
             .total = s.count,
             .count = s.count});
    EXPECT_TRUE(memory[own].intact());
    ASSERT_EQ(memory[own].content(), oracle::to_memory(dtype, s.by_oracle()));
  }
}

// A window writes its own part of the target and nothing else.
TEST(Combine, WindowTouchesOnlyItsPart) {
  const Spec spec = make_spec({kMinMax, Rounding::kStochastic}, 4, 64);
  Random random(14);
  const Bytes memory = oracle::to_memory(Dtype::kFloat32, numbers(Kin::kGaussian, 640, random));
  Guarded in(memory), out(body_size(spec, 640)), raw(640 * 2);
  const Bytes body = out.content(), elements = raw.content();
  const Source source{in.data(), Dtype::kFloat32};
  Combine work{.sources = {&source, 1},
               .target = {out.data(), spec},
               .total = 640,
               .first = 128,
               .count = 192};
  combine(work);
  const size_t params = body_layout(spec, 640).params_offset;
  for (size_t i = 0; i < body.size(); ++i) {
    const bool code = i >= 128 / 2 && i < 320 / 2;
    const bool parameter = i >= params + 2 * 8 && i < params + 5 * 8;
    if (code || parameter) continue;
    EXPECT_EQ(out.content()[i], body[i]) << "byte " << i << " of the body";
  }
  work.target = {raw.data(), Dtype::kBfloat16};
  combine(work);
  for (size_t i = 0; i < elements.size(); ++i) {
    if (i >= 128 * 2 && i < 320 * 2) continue;
    EXPECT_EQ(raw.content()[i], elements[i]) << "byte " << i << " of the elements";
  }
}

// Chunks are bodies of their own whose elements keep their numbers: together they decode to what
// the whole decodes to.
TEST(Combine, ChunksEqualTheWhole) {
  Random random(15);
  for (const Spec& spec : every_spec(96)) {
    const size_t chunk = std::max<size_t>(480, spec.block);
    const Floats x = numbers(Kin::kGaussian, 4 * chunk + 80, random);
    const Stream whole{.seed = 5, .origin = 320};
    Floats joined;
    for (size_t first = 0; first < x.size(); first += chunk) {
      const Floats part(x.begin() + first, x.begin() + std::min(first + chunk, x.size()));
      Stream stream = whole;
      stream.origin += first;
      const Floats values = round_trip(spec, stream, part);
      joined.insert(joined.end(), values.begin(), values.end());
    }
    EXPECT_EQ(joined, round_trip(spec, whole, x)) << describe(spec);
  }
}

TEST(Combine, NothingOfNothing) {
  const Source source{nullptr, Dtype::kFloat32};
  Guarded out(0);
  combine({.sources = {&source, 1}, .target = {out.data(), Spec{}}});
  combine({.sources = {&source, 1}, .target = {out.data(), Dtype::kFloat16}});
  EXPECT_TRUE(out.intact());
}

}  // namespace
}  // namespace terse::codec
