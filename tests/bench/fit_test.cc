// What `terse tune` makes of a machine's times is the machine that they are of.
#include "fit.h"

#include <gtest/gtest.h>

#include "engine/comm/chooser.h"
#include "engine/comm/fusing.h"
#include "model/predict.h"
#include "policy/profile_file.h"

namespace terse::perf {
namespace {

using codec::Dtype;
using model::Curve;
using model::Profile;
using plan::Collective;

struct Layout {
  int ranks, nodes;
};

constexpr size_t kSizes[] = {4 << 10, 1 << 20, 16 << 20, 64 << 20};

// Coding takes its time before and after the sending.
Profile machine(double encode, double decode) {
  return {.name = "by hand",
          .within = model::Link{2e-6, 4e9},
          .between = model::Link{20e-6, 125e6},
          .gpu = false,
          .node_ranks = 1,
          .message = 0,
          .launch = 0,
          .overlap = 0,
          .coding = {encode, decode},
          .codecs = {},
          .measured = {}};
}

double seconds(const Profile& p, const Layout& l, std::string_view scheme, size_t bytes) {
  const plan::Topology t = plan::even_topology(l.ranks, l.nodes);
  const bool native = scheme == model::kNative;
  const codec::Spec spec = native ? codec::Spec{} : on_ranks(parse_scheme(scheme), l.ranks)->spec;
  const plan::Shape shape =
      shape_of({spec}, bytes / 4, 4, {l.ranks, 0, 0}, {plan::default_chunk_policy(p.gpu), t});
  if (native) return model::native_seconds(p, Collective::kAllReduce, shape);
  const plan::Selection taken = plan::select(Collective::kAllReduce, shape, plan::Algo{});
  return model::estimate(p, *taken.algorithm, shape, "").seconds;
}

// As if they had been measured on that machine.
Profile fitted(const Profile& real, const std::vector<Layout>& layouts,
               const std::vector<std::string>& schemes) {
  Profile p{.name = "fitted", .gpu = real.gpu, .coding = {1, 1}};
  for (const Layout& l : layouts)
    for (const std::string& scheme : schemes) {
      Curve curve{Collective::kAllReduce, Dtype::kFloat32, l.ranks, l.nodes, scheme, {}};
      for (const size_t bytes : kSizes)
        curve.points.push_back({bytes, seconds(real, l, scheme, bytes)});
      p.measured.push_back(std::move(curve));
    }
  fit(&p);
  return p;
}

Profile fitted(const Profile& real, const Layout& l, const std::vector<std::string>& schemes) {
  return fitted(real, std::vector{l}, schemes);
}

TEST(Fit, TheLinkIsThatOfTheNativeCalls) {
  const Profile real = machine(1e9, 1e9);
  for (const Layout l : {Layout{2, 2}, Layout{4, 4}, Layout{8, 8}}) {
    const Profile p = fitted(real, l, {"native"});
    ASSERT_TRUE(p.between) << l.ranks;
    EXPECT_FALSE(p.within);
    EXPECT_NEAR(p.between->latency, 20e-6, 0.2e-6) << l.ranks;
    EXPECT_NEAR(p.between->bandwidth, 125e6, 1e6) << l.ranks;
    EXPECT_EQ(p.node_ranks, 1);
  }
  const Profile one_node = fitted(real, {4, 1}, {"native"});
  ASSERT_TRUE(one_node.within);
  EXPECT_FALSE(one_node.between);
  EXPECT_NEAR(one_node.within->latency, 2e-6, 0.02e-6);
  EXPECT_NEAR(one_node.within->bandwidth, 4e9, 4e7);
  EXPECT_EQ(one_node.node_ranks, 4);
}

// Measured on all ranks and within a node, each class of links has its own. So what was not
// measured within a node stays native where it is faster, and codecs are no faster than they are.
TEST(Fit, LinksWithinNodesAreThoseOfACommunicatorOfOneNode) {
  const Profile real = machine(2e9, 2e9);
  const Profile p = fitted(real, {{16, 2}, {8, 1}}, {"native", "int8"});
  ASSERT_TRUE(p.between && p.within);
  EXPECT_NEAR(p.between->latency, 20e-6, 1e-6);
  EXPECT_NEAR(p.between->bandwidth, 125e6, 2e6);
  EXPECT_NEAR(p.within->latency, 2e-6, 0.02e-6);
  EXPECT_NEAR(p.within->bandwidth, 4e9, 4e7);
  EXPECT_EQ(p.node_ranks, 8);
  EXPECT_NEAR(p.codecs.at("int8").encode, 2e9, 1e8);
  const auto taken = [](const Profile& profile, size_t count, const plan::Topology& t) {
    const Prospect call{Collective::kBroadcast, count, Dtype::kFloat32,
                        static_cast<int>(t.node.size())};
    return choose(predictions(profile, parse_scheme("auto"), call, {plan::kHostChunks, t}))
        .scheme.off;
  };
  for (const Layout l : {Layout{8, 1}, Layout{16, 2}})
    for (const size_t count : {1 << 16, 1 << 20, 1 << 24}) {
      const plan::Topology t = plan::even_topology(l.ranks, l.nodes);
      EXPECT_EQ(taken(p, count, t), taken(real, count, t)) << l.ranks << " ranks, " << count;
      if (l.nodes == 1) {
        EXPECT_TRUE(taken(p, count, t)) << count;
      }
    }
}

// Starting kernels takes a GPU longer than small calls' bytes do. So calls of layouts that were not
// measured stay native where codecs are slower.
TEST(Fit, LaunchesAreWhatSmallCompressedCallsTakeBeyondTheirBytes) {
  const Profile real = read_profile("a100-8x-100gbit");
  const Profile p = fitted(real, {{16, 2}, {8, 1}}, {"native", "int8"});
  EXPECT_GT(p.launch, real.launch * 0.8);
  EXPECT_LT(p.launch, (real.launch + 10 * real.message) * 1.2);
  EXPECT_NEAR(p.between->latency / real.between->latency, 1, 0.25);
  for (const Layout l : {Layout{8, 1}, Layout{4, 1}, Layout{16, 2}, Layout{32, 4}, Layout{8, 2}})
    for (size_t count = 1 << 14; count <= 1 << 24; count *= 4)
      for (const Collective collective : {Collective::kAllReduce, Collective::kBroadcast}) {
        const plan::Topology t = plan::even_topology(l.ranks, l.nodes);
        const Prospect call{collective, count, Dtype::kFloat32, l.ranks};
        const Machines machines{plan::default_chunk_policy(true), t};
        const Prediction taken =
            choose(predictions(p, parse_scheme("auto:bits=8"), call, machines));
        if (taken.scheme.off) continue;
        const double native = *predict_native(real, call, machines).seconds;
        const auto spent = predict_as_called(real, taken.scheme, call, machines);
        ASSERT_TRUE(spent);
        EXPECT_GT(native / *spent->seconds, 0.97)
            << count << " elements, " << l.ranks << " ranks on " << l.nodes << " nodes";
      }
}

// As fast both ways: calls do not tell which of the two took how long.
TEST(Fit, ACodecTakesWhatItsCallsTakeBeyondTheirBytes) {
  const Profile p = fitted(machine(3e8, 3e8), {4, 4}, {"native", "int8", "linear8:block=256"});
  ASSERT_EQ(p.codecs.size(), 2u);
  for (const char* name : {"int8", "linear8"}) {
    EXPECT_NEAR(p.codecs.at(name).encode, 3e8, 1e7) << name;
    EXPECT_EQ(p.codecs.at(name).encode, p.codecs.at(name).decode) << name;
  }
  EXPECT_NEAR(p.coding.encode, 3e8, 1e7);  // of codecs that were not measured: the slowest
}

// On nodes of 4, 3 and 3 ranks bf16 sends more between them than NCCL, and so does exp8 on nodes of
// 8: such calls are NCCL's own, and their times say nothing of the codec.
TEST(Fit, ACodecWhoseCallsStayNativeIsNotKnown) {
  const Profile uneven = fitted(machine(3e8, 3e8), {10, 3}, {"native", "bf16", "int8"});
  EXPECT_FALSE(uneven.codecs.contains("bf16"));
  ASSERT_TRUE(uneven.codecs.contains("int8"));
  EXPECT_EQ(uneven.coding.encode, uneven.codecs.at("int8").encode);
  const Profile shared = fitted(machine(3e8, 3e8), {64, 8}, {"native", "exp8", "int8"});
  EXPECT_FALSE(shared.codecs.contains("exp8"));
  EXPECT_TRUE(shared.codecs.contains("int8"));
}

// Of times that hardly grow, as in a cache, no larger bandwidth follows than a profile may have;
// of hours for nothing no longer latency, of a codec no slower one.
TEST(Fit, ItsProfileCanBeRead) {
  const auto curve = [](const char* scheme, std::vector<Curve::Point> points) {
    return Curve{Collective::kAllReduce, Dtype::kFloat32, 4, 1, scheme, std::move(points)};
  };
  Profile level{.name = "level",
                .measured = {curve("native", {{1024, 1e-5}, {4096, 9.9e-6}}),
                             curve("int8", {{1024, 1e-5}, {4096, 1e-5}})}};
  fit(&level);
  ASSERT_TRUE(level.within);
  EXPECT_EQ(level.within->bandwidth, kMaxRate);
  EXPECT_EQ(parse_profile(print_profile(level), "level.toml"), level);

  Profile slow{.name = "slow",
               .measured = {curve("native", {{1024, 1e5}, {4096, 1e6}}),
                            curve("int8", {{1024, 1e5}, {4096, 1e6}})}};
  fit(&slow);
  ASSERT_TRUE(slow.within);
  EXPECT_EQ(slow.within->bandwidth, kMinRate);
  EXPECT_EQ(slow.within->latency, kMaxLatency);
  EXPECT_EQ(slow.codecs.at("int8").encode, kMinRate);
  EXPECT_EQ(parse_profile(print_profile(slow), "slow.toml"), slow);
}

// Of four ranks on one node, natively, in steps, and fused: in one row.
struct OnOneNode {
  const plan::Topology topology = plan::even_topology(4, 1);
  const Fusing fusing{.window_bytes = size_t{1} << 30};
  Profile real = machine(1e9, 1e9);

  OnOneNode() {
    real.launch = 3e-5;
    real.fused = model::FusedCalls{.launch = 8e-6, .bandwidth = 6e9};
  }
  double seconds_of(const Profile& p, const char* scheme, size_t bytes, bool fused) const {
    const Machines machines{plan::default_chunk_policy(false), topology, fused ? &fusing : nullptr};
    const Prospect call{Collective::kAllReduce, bytes / 4, Dtype::kFloat32, 4};
    return *predict_as_called(p, parse_scheme(scheme), call, machines)->seconds;
  }
  Profile fitted(const std::vector<bool>& ways) const {
    Profile p = perf::fitted(real, {4, 1}, {"native"});
    for (const bool fused : ways) {
      p.measured.push_back({Collective::kAllReduce, Dtype::kFloat32, 4, 1, "int8", {}, fused});
      for (const size_t bytes : kSizes)
        p.measured.back().points.push_back({bytes, seconds_of(real, "int8", bytes, fused)});
    }
    fit(&p);
    return p;
  }
};

TEST(Fit, FusedCallsAreThoseOfTheMachine) {
  const OnOneNode one;
  const Profile p = one.fitted({false, true});
  ASSERT_TRUE(p.fused);
  EXPECT_FALSE(p.fused->estimate);
  EXPECT_NEAR(p.fused->launch, 8e-6, 1e-6);
  EXPECT_NEAR(p.fused->bandwidth, 6e9, 1e9);
  EXPECT_NEAR(p.launch, 3e-5, 6e-6);
  EXPECT_NEAR(p.codecs.at("int8").encode, 1e9, 5e7);
}

// All that they take beside a launch is then their codec's.
TEST(Fit, FusedCallsAloneAreForecastAgain) {
  const OnOneNode one;
  const Profile p = one.fitted({true});
  ASSERT_TRUE(p.fused);
  EXPECT_EQ(p.launch, 0) << "of steps nothing is known";
  for (const size_t bytes : kSizes)
    EXPECT_NEAR(
        one.seconds_of(p, "int8", bytes, true) / one.seconds_of(one.real, "int8", bytes, true), 1,
        0.05)
        << bytes;
  EXPECT_FALSE(one.fitted({false}).fused);
  EXPECT_EQ(parse_profile(print_profile(p), "p.toml"), p);
}

// So what was measured is forecast again, and other numbers of ranks as on the real machine.
TEST(Fit, ForecastsWhatTheMachineTakes) {
  const Profile real = machine(3e8, 3e8);
  const Profile p = fitted(real, {4, 4}, {"native", "int8"});
  for (const Layout l : {Layout{4, 4}, Layout{2, 2}, Layout{8, 8}})
    for (const char* scheme : {"native", "int8"})
      for (const size_t bytes : kSizes)
        EXPECT_NEAR(seconds(p, l, scheme, bytes) / seconds(real, l, scheme, bytes), 1, 0.03)
            << scheme << " of " << bytes << " on " << l.ranks;
}

// Nothing is changed where there is nothing to go by.
TEST(Fit, WithoutNativeCallsThereIsNoLink) {
  const Profile p = fitted(machine(1e9, 1e9), {4, 4}, {"int8"});
  EXPECT_FALSE(p.between);
  EXPECT_TRUE(p.codecs.empty());
  EXPECT_EQ(p.coding, (model::Rates{1, 1}));
}

}  // namespace
}  // namespace terse::perf
