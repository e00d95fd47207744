// Launches of a step's computes, against the library's own cut of the same work.
#include "model/launches.h"

#include <gtest/gtest.h>

#include <deque>
#include <vector>

#include "kernels/device/batch.h"
#include "plan/algorithms.h"

namespace terse::model {
namespace {

using plan::Compute;
using plan::Format;
using plan::Input;
using plan::Place;
using plan::Region;

static_assert(kMaxRunsOfLaunch == kernels::Batch::kMaxPieces &&
              kMaxSourcesOfLaunch == kernels::Batch::kMaxSources);

constexpr size_t kCount = 128;

// Body of elements of the send buffer that is packed into scratch.
Compute body(size_t from, size_t to, uint32_t shard = 0) {
  return {.inputs = {{Place{Region::kSend, from}, Format::kRaw}},
          .target = {Region::kScratch, to},
          .count = kCount,
          .shard = shard};
}

TEST(Launches, NameEqualDistancesOnce) {
  EXPECT_EQ(launches({}), 0u);
  std::vector<Compute> computes;
  for (uint32_t i = 0; i < 1000; ++i) computes.push_back(body(512 * i, 192 * i, 7 * i));
  EXPECT_EQ(launches(computes), 1u);
}

TEST(Launches, HaveSoManyRuns) {
  std::vector<Compute> computes;
  for (size_t i = 0; i < 2 * kMaxRunsOfLaunch + 2; ++i)
    computes.push_back(body(512 * i * i, 192 * i));
  // Any two are a run.
  EXPECT_EQ(launches(computes), 2u);
  computes.push_back(body(0, 0));
  EXPECT_EQ(launches(std::span(computes).first(2 * kMaxRunsOfLaunch)), 1u);
}

TEST(Launches, AreOfOneKind) {
  std::vector<Compute> computes{body(0, 0), body(512, 192), body(1024, 384)};
  EXPECT_EQ(launches(computes), 1u);
  computes[1].target_format = Format::kIntraPacked;
  EXPECT_EQ(launches(computes), 3u);
  computes[1] = body(512, 192);
  computes[1].rng_key = plan::RngKey{Place{}, false};
  EXPECT_EQ(launches(computes), 3u);
}

// What is packed anew in another format has sums in between.
TEST(Launches, AreTwoToPackAnew) {
  Compute sum{.inputs = {{Place{Region::kScratch, 0}, Format::kIntraPacked}},
              .target = {Region::kScratch, 4096},
              .count = kCount,
              .sums = Place{Region::kScratch, 8192}};
  EXPECT_EQ(launches({&sum, 1}), 2u);
}

// Computes on memory of their own, as the engine binds them.
class Bound {
 public:
  explicit Bound(std::span<const Compute> computes) {
    for (const Compute& c : computes) {
      std::vector<codec::Source>& sources = sources_.emplace_back();
      for (const Input& input : c.inputs)
        sources.push_back({at(input.place), format(input.format)});
      works_.push_back(
          {.sources = sources,
           .target = {at(c.target), format(c.target_format),
                      codec::make_draw({.rank = c.shared_draw ? c.shared_draw->rank : 77,
                                        .shard = c.shard,
                                        .stage = c.stage}),
                      c.origin},
           .factor = c.averages ? 0.5f : 1.0f,
           .total = c.count,
           .count = c.count,
           .sums = c.sums ? static_cast<float*>(at(*c.sums)) : nullptr});
    }
  }

  size_t launches() const {
    size_t launches = 0;
    kernels::make_batches(works_, nullptr, [&](const auto&, const auto&) { ++launches; });
    return launches;
  }

 private:
  // Addresses of regions that lie far from each other, and are not read.
  static void* at(const Place& place) {
    const uintptr_t region = (uintptr_t{1} + static_cast<size_t>(place.region)) << 40;
    return reinterpret_cast<void*>(region + place.offset);  // NOLINT: no memory is there
  }
  static codec::Format format(Format format) {
    if (format == Format::kRaw) return codec::Dtype::kFloat32;
    const uint8_t bits = format == Format::kPacked ? 4 : 8;
    return codec::Spec{.bits = bits};
  }

  std::deque<std::vector<codec::Source>> sources_;
  std::vector<codec::Combine> works_;
};

plan::Packing packing_of(uint8_t bits) {
  const codec::Spec spec{.bits = bits};
  return {.quantum = 128,
          .bytes = [=](size_t n) { return codec::body_size(spec, n); },
          .codes = [=](size_t n) { return codec::body_layout(spec, n).params_offset; }};
}

// All plans of many nodes, in two levels and more: as many launches as the library makes.
TEST(Launches, AreThoseOfTheLibrary) {
  size_t of_all = 0, bodies = 0;
  for (const plan::Algorithm& algorithm : plan::algorithms())
    for (const int nodes : {2, 12, 32})
      for (const size_t chunk : {size_t{1} << 16, size_t{1} << 30}) {
        plan::Shape s{.count = 96 * 1024,
                      .ranks = 4 * nodes,
                      .rank = 5,
                      .chunk_policy = plan::exact_chunks(chunk),
                      .packing = packing_of(4),
                      .topology = plan::even_topology(4 * nodes, nodes)};
        s.within = {Format::kIntraPacked, packing_of(8)};
        s.sum = {.format = Format::kPacked};
        s.outer = {Format::kOuterPacked, packing_of(8)};
        if (!plan::is_for(algorithm, algorithm.collective, s)) continue;
        if (!algorithm.applies(s, *plan::find_algo(algorithm.names.own)).applies) continue;
        const plan::Plan plan = algorithm.build(s);
        SCOPED_TRACE(plan.algorithm);
        for (const plan::Step& step : plan.steps) {
          const size_t expected = Bound(step.compute).launches();
          ASSERT_EQ(launches(step.compute), expected) << step.name << " on " << nodes << " nodes";
          of_all += expected;
          bodies += step.compute.size();
        }
      }
  EXPECT_LT(4 * of_all, bodies);
}

}  // namespace
}  // namespace terse::model
