// Fused calls: the computes of the plan, in windows.
#include "plan/fuse.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>
#include <tuple>

#include "meaning.h"
#include "plan/delta.h"
#include "plan/rng_key.h"
#include "simulator.h"
#include "trials.h"

namespace terse::plan {
namespace {

constexpr size_t kAnyWindow = size_t{1} << 40;

Shape shape_of(size_t count, int ranks) {
  return {.count = count,
          .element_bytes = 4,
          .ranks = ranks,
          .packing = test_packing(32),
          .topology = even_topology(ranks, 1)};
}

// Collectives that are fused, and AllGather whose own shard stays exact.
struct Call {
  Collective collective;
  const char* algorithm;
  bool own_exact = false;
};
constexpr Call kCalls[] = {{Collective::kAllReduce, "oneshot"},
                           {Collective::kAllReduce, "twoshot"},
                           {Collective::kAllGather, "direct"},
                           {Collective::kAllGather, "direct", true},
                           {Collective::kReduceScatter, "direct"}};

Plan build(const Call& call, const Shape& shape) {
  const Selection selection = select(call.collective, shape, find_algo(call.algorithm).value());
  return build(*selection.algorithm, shape, {.own_exact = call.own_exact});
}

Fusion fused(const Call& call, const Shape& shape, size_t max_window_bytes = kAnyWindow) {
  return fuse(
      call.collective, [&](const Shape& s) { return build(call, s); }, shape, max_window_bytes);
}

TEST(Fuse, PacksIntoThePeersWindow) {
  const Fusion fusion = fused({Collective::kReduceScatter, "direct"}, shape_of(100, 2));
  ASSERT_EQ(fusion.reason, "");
  const Fused& first = fusion.by_rank[0];
  EXPECT_EQ(first.form, Fused::Form::kReduce);
  ASSERT_EQ(first.pushes.size(), 1u);
  EXPECT_EQ(first.pushes[0].peer, 1);
  EXPECT_EQ(first.pushes[0].compute.inputs[0].place, (Place{Region::kSend, 400}));
  EXPECT_EQ(first.pushes[0].compute.target, (Place{Region::kScratch, 0}));
  ASSERT_EQ(first.makes.size(), 1u);
  EXPECT_EQ(first.makes[0].inputs[0].place, (Place{Region::kSend, 0}));
  EXPECT_EQ(first.makes[0].inputs[1].place, (Place{Region::kScratch, 448}));  // of rank 1
  EXPECT_EQ(first.makes[0].target, (Place{Region::kRecv, 0}));
  EXPECT_TRUE(first.takes.empty());
}

// Memory of a rank.
struct Rank {
  std::vector<int32_t> send, recv;
  std::vector<char> pushed, shared;
};

void compute(const Compute& c, const Rank& own, const std::vector<char>& from, char* target) {
  std::vector<int32_t> sum(c.count, 0);
  for (const Input& in : c.inputs) {
    const char* data = in.place.region == Region::kSend
                           ? reinterpret_cast<const char*>(own.send.data())
                           : from.data();
    for (size_t i = 0; i < c.count; ++i) {
      int32_t value;
      std::memcpy(&value, data + in.place.offset + 4 * i, sizeof value);
      sum[i] += value;
    }
  }
  std::memcpy(target + c.target.offset, sum.data(), 4 * c.count);
}

// Runs the stages one after another, on all ranks.
void run(const std::vector<Fused>& call, std::vector<Rank>& ranks) {
  const auto received = [](Rank& rank) { return reinterpret_cast<char*>(rank.recv.data()); };
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const Fused::Push& p : call[r].pushes)
      compute(p.compute, ranks[r], {}, ranks[static_cast<size_t>(p.peer)].pushed.data());
  for (size_t r = 0; r < ranks.size(); ++r)
    for (const Compute& c : call[r].makes) {
      if (c.target.region == Region::kRecv)
        compute(c, ranks[r], ranks[r].pushed, received(ranks[r]));
      else
        for (Rank& to : ranks) compute(c, ranks[r], ranks[r].pushed, to.shared.data());
    }
  for (size_t r = 0; r < ranks.size(); ++r) {
    for (const Compute& c : call[r].takes)
      compute(c, ranks[r], ranks[r].shared, received(ranks[r]));
    for (const Copy& c : call[r].copies)
      std::memcpy(received(ranks[r]) + c.target.offset,
                  reinterpret_cast<const char*>(ranks[r].send.data()) + c.source.offset, c.bytes);
  }
}

TEST(Fuse, GivesWhatTheCollectiveMeans) {
  for (const Call& call : kCalls)
    for (const int ranks : {2, 3, 5, 8, 16})
      for (const size_t count : {1, 31, 32, 100, 1000, 4097}) {
        SCOPED_TRACE(fmt::format("{} x{} on {}", name(call.collective), count, ranks));
        const Shape shape = shape_of(count, ranks);
        const Fusion fusion = fused(call, shape);
        ASSERT_EQ(fusion.reason, "");
        ASSERT_EQ(validate(fusion.by_rank, shape), "");
        std::vector<Rank> all(ranks);
        for (int r = 0; r < ranks; ++r) {
          const Fused& f = fusion.by_rank[r];
          all[r] = {std::vector<int32_t>(f.buffers.send_bytes / 4),
                    std::vector<int32_t>(f.buffers.recv_bytes / 4, -1),
                    std::vector<char>(f.pushed_bytes), std::vector<char>(f.shared_bytes)};
          for (size_t i = 0; i < all[r].send.size(); ++i)
            all[r].send[i] = static_cast<int32_t>(i * 7 + 1000 * r);
        }
        run(fusion.by_rank, all);
        const Meaning meaning{call.collective, static_cast<size_t>(ranks), 0, count};
        for (int r = 0; r < ranks; ++r)
          for (size_t i = 0; i < all[r].recv.size(); ++i)
            ASSERT_EQ(all[r].recv[i],
                      meaning(
                          r, i, [&](size_t from, size_t k) { return all[from].send[k]; },
                          [](int32_t a, int32_t b) { return a + b; }))
                << r << ", " << i;
      }
}

// What decides on the bytes of a compute's result, but for the values.
auto signature(const Compute& c) {
  std::vector<int> formats;
  for (const Input& in : c.inputs) formats.push_back(static_cast<int>(in.format));
  return std::tuple(c.count, c.origin, c.shard, c.stage, c.averages, formats,
                    static_cast<int>(c.target_format), c.shared_draw ? c.shared_draw->rank : 99,
                    c.shared_draw ? static_cast<int>(c.shared_draw->variate) : 99);
}

TEST(Fuse, ComputesWhatThePlanComputes) {
  for (const Call& call : kCalls)
    for (const int ranks : {2, 3, 8}) {
      Shape shape = shape_of(5000, ranks);
      shape.packing.draws = shape.packing.shares_draws = true;
      shape.chunk_policy = exact_chunks(1 << 30);
      const Fusion fusion = fused(call, shape);
      ASSERT_EQ(fusion.reason, "");
      for (shape.rank = 0; shape.rank < ranks; ++shape.rank) {
        const Plan plan = build(call, shape);
        std::vector<decltype(signature({}))> planned, done;
        for (const Step& step : plan.steps)
          for (const Compute& c : step.compute) planned.push_back(signature(c));
        const Fused& f = fusion.by_rank[shape.rank];
        for (const Fused::Push& p : f.pushes) done.push_back(signature(p.compute));
        for (const Compute& c : f.makes) done.push_back(signature(c));
        for (const Compute& c : f.takes) done.push_back(signature(c));
        EXPECT_TRUE(std::ranges::is_permutation(planned, done)) << print(plan) << print(f);
        EXPECT_EQ(f.wire_bytes, plan.wire_bytes);
      }
    }
}

TEST(Fuse, FlagsAndAreasFollowTheForm) {
  const auto form = [](const Call& call) {
    const Fused f = fused(call, shape_of(1000, 4)).by_rank.at(2);
    EXPECT_EQ(f.pushing(), f.pushed_bytes != 0);
    EXPECT_EQ(f.sharing(), f.shared_bytes != 0);
    return std::pair(f.flags(), f.alternates());
  };
  EXPECT_EQ(form({Collective::kAllReduce, "twoshot"}), std::pair(size_t{2}, false));
  EXPECT_EQ(form({Collective::kAllReduce, "oneshot"}), std::pair(size_t{1}, true));
  EXPECT_EQ(form({Collective::kAllGather, "direct"}), std::pair(size_t{1}, true));
  EXPECT_EQ(form({Collective::kReduceScatter, "direct"}), std::pair(size_t{1}, true));
}

TEST(Fuse, SaysWhyAPlanIsNotFused) {
  const Call two_shot{Collective::kAllReduce, "twoshot"};
  const auto reason = [&](const Call& call, auto change, size_t window = kAnyWindow) {
    Shape shape = shape_of(1000, 4);
    change(shape);
    const Fusion fusion = fused(call, shape, window);
    EXPECT_TRUE(fusion.by_rank.empty());
    return fusion.reason;
  };
  const auto as_it_is = [](Shape&) {};
  EXPECT_EQ(reason(two_shot, [](Shape& s) { s.topology = {}; }), "for the nodes are not known");
  EXPECT_EQ(reason(two_shot, [](Shape& s) { s.topology = even_topology(4, 2); }),
            "for its ranks are on 2 nodes");
  EXPECT_EQ(reason(two_shot,
                   [](Shape& s) {
                     s.ranks = 17;
                     s.topology = even_topology(17, 1);
                   }),
            "for it has more than 16 ranks");
  EXPECT_EQ(reason(two_shot, as_it_is, 1000), "for it needs a window of 8576 B, more than 1000 B");
  EXPECT_EQ(reason(two_shot,
                   [](Shape& s) {
                     s.sum = {Format::kSumPacked, test_packing(64, 8), false};
                   }),
            "for it packs in two ways");
  EXPECT_EQ(reason(two_shot,
                   [](Shape& s) {
                     s.sum = {Format::kSumPacked, test_packing(32), true};
                   }),
            "for it packs in two ways");
  EXPECT_EQ(reason(two_shot, [](Shape& s) { s.packing.codebook_bytes = 64; }),
            "for its levels are of a table");
  for (const Call& rooted : {Call{Collective::kReduce, "twoshot"},
                             {Collective::kReduce, "direct"},
                             {Collective::kBroadcast, "shared"},
                             {Collective::kGather, "direct"}})
    EXPECT_EQ(reason(rooted, as_it_is), "for it has a root");
  // Of two ranks one is the root, and neither sends in the second exchange.
  const Fusion empty = fuse(Collective::kAllReduce, shared_broadcast, shape_of(100, 2), kAnyWindow);
  EXPECT_EQ(empty.reason, "for nothing is exchanged");
  const Fusion reduce =
      fuse(Collective::kAllReduce, two_shot_reduce, shape_of(1000, 4), kAnyWindow);
  EXPECT_EQ(reduce.reason, "for it sends some ranks what others do not get");
  EXPECT_EQ(
      reason({Collective::kAllReduce, "summed"},
             [](Shape& s) { s.packing = packing_for({.sharing = Sharing::kSummed}, s.packing); }),
      "for NCCL does a part of it");
}

TEST(Fuse, ValidateFindsWhatIsWrong) {
  const Shape shape = shape_of(1000, 3);
  const std::vector<Fused> good = fused({Collective::kAllReduce, "twoshot"}, shape).by_rank;
  ASSERT_EQ(validate(good, shape), "");
  const auto broken = [&](auto change) {
    std::vector<Fused> call = good;
    change(call);
    return validate(call, shape);
  };
  EXPECT_EQ(broken([](auto& f) { f[1].pushes[0].peer = f[1].pushes[1].peer; }),
            "rank 1 pushes twice to a place, or beyond the area");
  EXPECT_EQ(broken([](auto& f) { f[2].pushes[0].peer = 3; }),
            "rank 2 pushes to a rank that is not there");
  EXPECT_EQ(broken([](auto& f) { f[0].pushes[0].compute.target.offset += 64; }),
            "rank 1 reads what is not there");
  EXPECT_EQ(broken([](auto& f) { f[0].pushes.pop_back(); }), "rank 2 reads what is not there");
  EXPECT_EQ(broken([](auto& f) { f[0].makes[0].target = f[1].makes[0].target; }),
            "rank 1 shares at a place twice, or beyond the area");
  EXPECT_EQ(broken([](auto& f) { f[1].makes.clear(); }), "rank 0 reads what is not there");
  EXPECT_EQ(broken([](auto& f) { f[1].takes.pop_back(); }),
            "rank 1 leaves a part of the receive buffer");
  EXPECT_EQ(broken([](auto& f) { f[1].takes[0] = f[1].takes[1]; }),
            "rank 1 writes the receive buffer twice, or beyond it");
  EXPECT_EQ(broken([](auto& f) { f[1].takes[0].inputs[0].place.offset += 4; }),
            "rank 1 reads what is not there");
  EXPECT_EQ(broken([](auto& f) { f[1].takes[0].inputs[0].place.offset = size_t{0} - 64; }),
            "rank 1 reads what is not there");
  EXPECT_EQ(broken([](auto& f) {
              f[1].pushes[0].compute.inputs = {{{Region::kScratch, 0}}};
            }),
            "rank 1 reads what is not there");
  EXPECT_EQ(broken([](auto& f) { f[1].pushes[0].compute.target.region = Region::kSend; }),
            "rank 1 pushes past the area");
  EXPECT_EQ(broken([](auto& f) { f[0].makes[0].target.region = Region::kSend; }),
            "rank 0 writes the receive buffer twice, or beyond it");
  EXPECT_EQ(broken([](auto& f) { f[1].form = Fused::Form::kReduce; }),
            "rank 1 has another form, or other areas");
  EXPECT_EQ(broken([](auto& f) { f[2].pushed_bytes += 64; }),
            "rank 2 has another form, or other areas");
  EXPECT_EQ(broken([](auto& f) {
              for (Fused& each : f) each.form = Fused::Form::kReduce;
            }),
            "rank 0 shares without a flag");
  EXPECT_EQ(broken([](auto& f) {
              for (Fused& each : f) each.form = Fused::Form::kReduce, each.makes.clear();
            }),
            "rank 0 takes without a flag");
}

// Kept apart from the areas, in scratch of their own.
TEST(Fuse, FingerprintsAreMadeBefore) {
  const Shape shape = shape_of(1000, 4);
  const Fusion fusion = fuse(
      Collective::kReduceScatter,
      [](const Shape& s) { return with_content_rng_key(reduce_scatter(s), false); }, shape,
      kAnyWindow);
  ASSERT_EQ(fusion.reason, "");
  EXPECT_EQ(validate(fusion.by_rank, shape), "");
  for (const Fused& f : fusion.by_rank) {
    ASSERT_EQ(f.fingerprints.size(), 1u);
    EXPECT_EQ(f.fingerprints[0].target, (Place{Region::kScratch, 0}));
    EXPECT_EQ(f.scratch_bytes, kFingerprintBytes);
    for (const Fused::Push& p : f.pushes)
      EXPECT_EQ(p.compute.rng_key->fingerprint, (Place{Region::kScratch, 0}));
  }
  std::vector<Fused> broken = fusion.by_rank;
  broken[1].fingerprints.clear();
  EXPECT_EQ(validate(broken, shape), "rank 1 draws by a fingerprint that nobody makes");
  broken[0].fingerprints[0].bytes += 1;
  EXPECT_EQ(validate(broken, shape), "rank 0 makes a fingerprint from or to where none may be");
}

TEST(Fuse, PrintIsAsReviewed) {
  std::string text;
  for (const Call& call : kCalls) text += print(fused(call, shape_of(100, 3)).by_rank[1]);
  const std::string path = TERSE_TEST_DATA "/plan/fused.txt";
  if (std::getenv("TERSE_BLESS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str());
}

}  // namespace
}  // namespace terse::plan
