#include "cases.h"

#include <algorithm>
#include <numeric>

#include "codec/checksum.h"
#include "learned_levels.h"

namespace terse::kernels {

using codec::Input;
using codec::Random;

namespace {

size_t some_count(size_t block, Random& random) {
  switch (random.below(6)) {
    case 0:
      return 1 + random.below(9);
    case 1:
      return block;
    case 2:
      return block * (1 + random.below(3)) + random.below(3) - 1;
    case 3:
      return 512 * (1 + random.below(4)) + random.below(17) - 8;
    default:
      return 1 + random.below(6000);
  }
}

// With blocks that divide those of the given one, or the other way round; none if it is the same.
std::optional<codec::Spec> other_spec(const codec::Spec& spec, Random& random) {
  size_t block = 0;
  do {
    block = kBlocks[random.below(std::size(kBlocks))];
  } while (block % spec.block != 0 && spec.block % block != 0);
  const codec::Spec other = codec::some_spec(random, block);
  const bool divides = other.block % spec.block == 0 || spec.block % other.block == 0;
  const bool two_tables =
      codec::descriptor(other.codec).codebook && codec::descriptor(spec.codec).codebook;
  if (packs_alike(other, spec) || !divides || two_tables) return {};
  return other;
}

// One that rounds otherwise, if there is one.
std::optional<codec::Spec> rounded_otherwise(codec::Spec spec, Random& random) {
  spec.rounding = static_cast<codec::Rounding>(random.below(codec::kRoundings));
  const codec::Descriptor& d = codec::descriptor(spec.codec);
  if (!codec::has(d.roundings, spec.rounding) || d.codebook) return {};
  return spec;
}

// That which has a table of levels, if any.
const codec::Spec* learned_spec(const Case& c) {
  if (codec::descriptor(c.spec.codec).codebook) return &c.spec;
  return c.to && codec::descriptor(c.to->codec).codebook ? &*c.to : nullptr;
}

}  // namespace

Input some_input(const Case& c, size_t count, bool packed, Random& random) {
  const auto kin = static_cast<codec::Kin>(random.below(codec::kKins));
  const auto x = codec::numbers(kin, count, random);
  if (packed) return {oracle::encode(c.spec, {.seed = random.next()}, x), {}};
  return {oracle::to_memory(c.raw, x), c.raw};
}

// Makes all works as the first one is.
void put_in_a_row(Case& c, Random& random) {
  c.in_a_row = true;
  for (size_t number = 1; number < c.works.size(); ++number) {
    Work& w = c.works[number];
    w = c.works.front();
    w.stream.shard += static_cast<uint32_t>(3 * number);
    for (codec::Input& input : w.inputs) {
      const bool negated = input.negated;
      input = some_input(c, w.count, !input.raw, random);
      input.negated = negated;
    }
  }
}

Case some_case(Random& random) {
  Case c{codec::some_spec(random, kBlocks[random.below(std::size(kBlocks))]),
         codec::kAllDtypes[random.below(3)],
         random.below(3) != 0,
         {}};
  if (codec::shares_grid(codec::descriptor(c.spec.codec))) {
    c.spec.ranks = static_cast<uint16_t>(1 + random.below(9));
    c.in_parts = c.packed_target && random.below(2);
    const bool may_merge = codec::descriptor(c.spec.codec).sharing == codec::Sharing::kMerged;
    c.merges = may_merge && c.packed_target && !c.in_parts && random.below(2);
  }
  if (c.packed_target && !c.in_parts && !c.merges && random.below(4) == 0)
    c.to = random.below(2) ? other_spec(c.spec, random) : rounded_otherwise(c.spec, random);
  const codec::Spec* const learned = learned_spec(c);
  if (learned != nullptr && random.below(4) != 0)
    c.codebook = codec::table_of(learned->bits, codec::some_levels(learned->bits, random));
  if (random.below(4) == 0) c.replays = random.below(3);
  if (random.below(4) == 0) {
    c.content.resize(random.below(2) ? codec::kContentParts : codec::kSampleParts);
    if (random.below(4) != 0)
      for (uint64_t& part : c.content) part = random.next();
  }
  if (random.below(3) == 0) c.premultiply = 0.25f * static_cast<float>(random.below(9));
  c.read_late = random.below(3) == 0;
  const size_t pieces = 1 + random.below(random.below(4) == 0 ? 40 : 3);
  for (size_t p = 0; p < pieces; ++p) {
    Work w{{}, some_count(c.spec.block, random), 1.0f, {}, 0};
    if (pieces > 4) w.count = 1 + w.count % 700;
    const size_t sources = random.below(2) ? 1 : 1 + random.below(9);
    const bool changes = c.to && !packs_alike(*c.to, c.spec);
    // The raw one, if any.
    const size_t own = !changes && !c.merges && random.below(2) ? random.below(sources) : sources;
    for (size_t s = 0; s < sources; ++s)
      w.inputs.push_back(some_input(
          c, w.count, sources == 1 ? changes || c.merges || !c.packed_target : s != own, random));
    if (random.below(3) == 0) w.factor = 1.0f / static_cast<float>(1 + random.below(8));
    w.stream = {.seed = random.next(),
                .rank = 2,
                .shard = 5,
                .stage = 1,
                .origin = 32 * random.below(1000)};
    if (random.below(3) == 0) w.offset = random.below(16);
    if (own < sources && random.below(3) == 0) {  // what is sent, and what it differs from
      Input base = some_input(c, w.count, false, random);
      base.negated = true;
      w.inputs.insert(w.inputs.begin() + static_cast<ptrdiff_t>(own) + 1, std::move(base));
    }
    w.in_place = !c.packed_target && own < sources && sources > 1 && random.below(2);
    c.works.push_back(std::move(w));
  }
  if (random.below(3) == 0) put_in_a_row(c, random);
  return c;
}

Case conversion(const codec::Spec& spec, codec::Dtype raw, bool packed_target,
                std::span<const size_t> counts, Random& random) {
  Case c{spec, raw, packed_target, {}};
  for (const size_t count : counts) {
    Work w{{}, count, 1.0f, {.seed = random.next()}, 0};
    w.inputs.push_back(some_input(c, count, !packed_target, random));
    c.works.push_back(std::move(w));
  }
  return c;
}

std::string describe(const Case& c) {
  std::string text = codec::describe(c.spec) + " " + codec::name_of(c.raw) + " to ";
  text += c.to ? codec::describe(*c.to) : c.packed_target ? "packed" : "raw";
  if (!c.codebook.empty()) text += " by a table";
  text += c.in_parts ? " in parts" : c.merges ? " merged" : "";
  text += c.in_a_row ? " in a row," : ",";
  for (const Work& w : c.works)
    text += " " + std::to_string(w.count) + " of " + std::to_string(w.inputs.size()) + " at " +
            std::to_string(w.offset) + (w.in_place ? " in place" : "");
  return text;
}

size_t raw_source(const Work& w) {
  size_t own = 0;
  while (!w.inputs[own].raw) ++own;
  return own;
}

codec::Format target_format(const Case& c) {
  if (c.packed_target) return c.to.value_or(c.spec);
  return c.raw;
}

// Bytes between codes and parameters. Of a work with packed sources these hold for them, too.
size_t gap(const Case& c, const Work& w) {
  const bool raw =
      std::ranges::all_of(w.inputs, [](const Input& in) { return in.raw.has_value(); });
  return c.in_parts && raw ? 4 * (w.count % 7) : 0;
}

size_t target_bytes(const Case& c, const Work& w) {
  const codec::Format to = target_format(c);
  if (to.raw()) return w.count * codec::dtype_size(to.dtype());
  return codec::body_size(*to.spec(), w.count) + gap(c, w);
}

codec::Draw changed_draw(const Case& c, const codec::Draw& draw) {
  const uint64_t sum = std::accumulate(c.content.begin(), c.content.end(), uint64_t{0});
  return codec::redraw(codec::redraw(draw, c.replays), sum);
}

codec::Combine combine_of(const Case& c, const Work& w, std::span<const codec::Source> sources,
                          void* target, const void* multiplier) {
  const codec::Multiplier now{c.premultiply, nullptr}, late{99.0f, multiplier};
  return {.sources = sources,
          .target = {target, target_format(c), codec::draw_of(w.stream), w.stream.origin,
                     c.merges ? codec::Part::kMerged : codec::Part::kAll},
          .factor = w.factor,
          .premultiply = c.read_late ? late : now,
          .total = w.count,
          .first = 0,
          .count = w.count,
          .params_offset =
              gap(c, w) == 0 ? 0 : codec::body_layout(c.spec, w.count).params_offset + gap(c, w)};
}

}  // namespace terse::kernels
