#include "model/launches.h"

#include <algorithm>
#include <vector>

namespace terse::model {
namespace {

using plan::Compute;
using plan::Format;
using plan::Input;

// Address of a place; those of different regions are at no distance that repeats.
uint64_t address(const plan::Place& place) {
  constexpr int kOffsetBits = 56;
  return (static_cast<uint64_t>(place.region) << kOffsetBits) + place.offset;
}

bool is_raw(const Input& input) { return input.format == Format::kRaw; }
bool has_raw(const Compute& c) {
  return c.target_format == Format::kRaw || std::ranges::any_of(c.inputs, is_raw);
}
Format packed_input(const Compute& c) {
  const auto packed = std::ranges::find_if_not(c.inputs, is_raw);
  return packed == c.inputs.end() ? Format::kRaw : packed->format;
}
bool draws_by_content(const Compute& c) { return c.rng_key && c.rng_key->fingerprint; }

// Returns true if one launch may do both.
bool of_one_launch(const Compute& a, const Compute& b) {
  return a.target_format == b.target_format && packed_input(a) == packed_input(b) &&
         has_raw(a) == has_raw(b) && a.part == b.part && a.message == b.message &&
         draws_by_content(a) == draws_by_content(b);
}

// Returns true if both differ in places and shards alone.
bool of_one_run(const Compute& a, const Compute& b) {
  const auto alike = [](const Input& x, const Input& y) {
    return x.format == y.format && x.negated == y.negated;
  };
  return a.count == b.count && a.origin == b.origin && a.params_offset == b.params_offset &&
         a.averages == b.averages && a.stage == b.stage && a.shared_draw == b.shared_draw &&
         std::ranges::equal(a.inputs, b.inputs, alike);
}

// Returns true if from one to the next all is as far as from the first to the second.
bool at_equal_distances(const Compute& first, const Compute& second, const Compute& last,
                        const Compute& next) {
  const auto equal = [](uint64_t a, uint64_t b, uint64_t c, uint64_t d) { return b - a == d - c; };
  if (!equal(address(first.target), address(second.target), address(last.target),
             address(next.target)) ||
      !equal(first.shard, second.shard, last.shard, next.shard))
    return false;
  for (size_t i = 0; i < first.inputs.size(); ++i)
    if (!equal(address(first.inputs[i].place), address(second.inputs[i].place),
               address(last.inputs[i].place), address(next.inputs[i].place)))
      return false;
  return true;
}

// Groups of a compute's sources of one kind at equal distances.
size_t groups_of_sources(const Compute& c) {
  size_t groups = 0, length = 0;
  uint64_t stride = 0;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Input &input = c.inputs[i], &before = c.inputs[i == 0 ? 0 : i - 1];
    const uint64_t distance = address(input.place) - address(before.place);
    const bool goes_on = length > 0 && is_raw(input) == is_raw(before) &&
                         input.negated == before.negated && (length == 1 || distance == stride);
    stride = distance;
    length = goes_on ? length + 1 : 1;
    groups += goes_on ? 0 : 1;
  }
  return groups;
}

size_t launches_of_one_spec(std::span<const Compute> computes) {
  size_t launches = 0, runs = 0, sources = 0;
  const Compute *first = nullptr, *second = nullptr, *last = nullptr;  // of a run
  for (const Compute& c : computes) {
    if (last != nullptr && of_one_launch(*last, c) && of_one_run(*last, c) &&
        (second == nullptr || at_equal_distances(*first, *second, *last, c))) {
      if (second == nullptr) second = &c;
      last = &c;
      continue;
    }
    const size_t groups = groups_of_sources(c);
    if (last == nullptr || !of_one_launch(*last, c) || runs == kMaxRunsOfLaunch ||
        sources + groups > kMaxSourcesOfLaunch) {
      ++launches;
      runs = sources = 0;
    }
    ++runs;
    sources += groups;
    first = last = &c;
    second = nullptr;
  }
  return launches;
}

}  // namespace

size_t launches(std::span<const Compute> computes) {
  if (std::ranges::none_of(computes, [](const Compute& c) { return c.sums.has_value(); }))
    return launches_of_one_spec(computes);
  // Sums in fp32 first, and then these packed.
  std::vector<Compute> sums, rest;
  for (const Compute& c : computes) {
    rest.push_back(c);
    if (!c.sums) continue;
    sums.push_back(c);
    sums.back().target = *c.sums;
    sums.back().target_format = Format::kRaw;
    rest.back().inputs = {{*c.sums, Format::kRaw}};
  }
  return launches_of_one_spec(sums) + launches_of_one_spec(rest);
}

}  // namespace terse::model
