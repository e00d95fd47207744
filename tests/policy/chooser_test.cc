// What auto takes: by what was measured, or else by the model.
#include "engine/comm/chooser.h"

#include <gtest/gtest.h>

#include <array>
#include <cfenv>
#include <set>

#include "base/error.h"
#include "engine/comm/comm_routing.h"
#include "engine/comm/fusing.h"
#include "policy/match.h"
#include "policy/profile_file.h"

namespace terse {
namespace {

using codec::Dtype;
using plan::Collective;

constexpr size_t kCount = 1 << 24;
constexpr size_t kSize = 1 << 30;  // of a curve of one point, which up to it is flat

// Slow links and fast codecs, so that the fewest bits are the fastest.
const model::Profile kSlow{.name = "slow",
                           .within = model::Link{1e-6, 1e8},
                           .between = model::Link{1e-5, 1e7},
                           .coding = {1e12, 1e12}};

plan::Topology nodes(int count, int ranks_of_node) {
  std::vector<uint64_t> hosts;
  for (int rank = 0; rank < count * ranks_of_node; ++rank)
    hosts.push_back(static_cast<uint64_t>(rank / ranks_of_node));
  return plan::topology_of(hosts);
}

Prospect all_reduce(Dtype dtype = Dtype::kFloat32) {
  return {Collective::kAllReduce, kCount, dtype, 4, 0};
}

std::vector<Prediction> predicted(const model::Profile& profile, const char* scheme,
                                  const Prospect& call, const plan::Topology& topology) {
  return predictions(profile, parse_scheme(scheme), call, {plan::kHostChunks, topology});
}

std::string name_of(const Prediction& p) { return p.scheme.off ? "native" : short_name(p.scheme); }

std::string names(const std::vector<Prediction>& all) {
  std::string text;
  for (const Prediction& p : all) text += (text.empty() ? "" : " ") + name_of(p);
  return text;
}

std::string error_of(const auto& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    return e.message;
  }
  return "none";
}

model::Curve curve(const char* scheme, std::vector<model::Curve::Point> points,
                   Dtype dtype = Dtype::kFloat32) {
  return {Collective::kAllReduce, dtype, 4, 1, scheme, std::move(points)};
}

TEST(Chooser, ModelsWhatWasNotMeasured) {
  const plan::Topology one = nodes(1, 4);
  const std::vector<Prediction> all = predicted(kSlow, "auto:bits=4", all_reduce(), one);
  EXPECT_EQ(names(all),
            "native bf16 linear16:round=nearest int8 minmax8 fp8e4m3 fp8e5m2 mxfp8 "
            "linear8:round=nearest int7 minmax7 int6 minmax6 mxfp6 int5 minmax5 int4 minmax4 "
            "mxfp4 nvfp4");
  for (const Prediction& p : all) {
    EXPECT_FALSE(p.measured);
    EXPECT_GT(*p.seconds, 0);
  }
  EXPECT_EQ(name_of(choose(all)), "int4");
  const auto native = predict_native(kSlow, all_reduce(), {plan::kHostChunks, one});
  EXPECT_EQ(all.front().seconds, native.seconds);
}

// To a root all others send, whichever rank it is: what comes to its node takes the time.
TEST(Chooser, CountsWhatComesToARoot) {
  const plan::Topology alone = nodes(4, 1), shared = nodes(2, 8);
  const Machines on_four{plan::kHostChunks, alone}, on_two{plan::kHostChunks, shared};
  for (const Collective collective : {Collective::kReduce, Collective::kGather}) {
    const Prospect first{collective, kCount, Dtype::kFloat32, 4, 0};
    const Prospect third{collective, kCount, Dtype::kFloat32, 4, 2};
    EXPECT_EQ(predict_native(kSlow, first, on_four).seconds,
              predict_native(kSlow, third, on_four).seconds);
    const double sends = collective == Collective::kReduce ? 1 : 3;
    EXPECT_NEAR(*predict_native(kSlow, first, on_four).seconds, sends * 4 * kCount / 1e7, 0.01);
    EXPECT_NEAR(*predict(kSlow, parse_scheme("int8:algo=direct"), first, on_four)->seconds,
                3 * kCount / 1e7, 0.5)
        << plan::name(collective);
  }
  // Eight ranks of another node send to the root, or their leader does once.
  for (const int root : {0, 5, 15}) {
    const Prospect reduce{Collective::kReduce, kCount, Dtype::kFloat32, 16, root};
    const auto direct = predict(kSlow, parse_scheme("int8:algo=direct"), reduce, on_two);
    EXPECT_GT(*direct->seconds, 8 * kCount / 1e7) << root;
    EXPECT_NE(choose(predicted(kSlow, "auto:bits=8", reduce, shared)).scheme.algorithm,
              direct->scheme.algorithm)
        << root;
  }
}

// `terse tune` measures one rounding; the other takes nearly as long.
TEST(Chooser, TakesWhatWasMeasuredOfTheOtherRounding) {
  model::Profile p = kSlow;
  p.measured = {curve("native", {{kSize, 1.0}}), curve("int4", {{kSize, 0.5}}),
                curve("int8", {{kSize, 0.75}}), curve("int8:round=stochastic", {{kSize, 0.25}})};
  const auto all = predicted(p, "auto:bits=4,round=stochastic", all_reduce(), nodes(1, 4));
  EXPECT_EQ(names(all), "native int8:round=stochastic int4:round=stochastic");
  EXPECT_EQ(all[1].seconds, 0.25);
  EXPECT_EQ(all[2].seconds, 0.5);
}

TEST(Chooser, WhereNativeAloneWasMeasuredGoesByTheModel) {
  model::Profile p = kSlow;
  p.measured = {curve("native", {{1, 1e-9}}), curve("int2", {{1, 1e-9}})};
  const auto all = predicted(p, "auto:bits=8", all_reduce(), nodes(1, 4));
  EXPECT_EQ(name_of(choose(all)), "int8");
  for (const Prediction& each : all) EXPECT_FALSE(each.measured);
  EXPECT_EQ(all.front().lacking, nullptr);
  p.within = p.between = {};
  const auto native = predicted(p, "auto:bits=8", all_reduce(), nodes(1, 4));
  EXPECT_EQ(names(native), "native");
  EXPECT_STREQ(native.front().lacking, "links within a node");
}

// By every communicator, not for every size.
TEST(Chooser, SaysOnceThatNativeAloneWasMeasured) {
  Settings settings;
  settings.profile = model::Profile{.name = "bare", .measured = {curve("native", {{1, 1e-9}})}};
  const plan::Topology t = nodes(1, 4);
  Chooser chooser;
  testing::internal::CaptureStderr();
  for (size_t count = 1; count < 4; ++count)
    EXPECT_TRUE(chooser
                    .of(&*settings.profile, parse_scheme("auto"),
                        {Collective::kAllReduce, count, Dtype::kFloat32, 4, 0},
                        {plan::kHostChunks, t})
                    .scheme.off);
  const std::string said = testing::internal::GetCapturedStderr();
  const std::string line =
      "AllReduce stays native: the profile \"bare\" has measured nothing else of such calls, and "
      "says nothing of links within a node";
  EXPECT_NE(said.find(line), std::string::npos) << said;
  EXPECT_EQ(std::ranges::count(said, '\n'), 1) << said;
}

// A program whose sizes all differ has few choices.
TEST(Chooser, ChoosesOnceForSizesThatAreNearlyAlike) {
  Settings settings;
  settings.profile = kSlow;
  Chooser chooser;
  std::set<const Prediction*> choices;
  constexpr size_t kFirst = 100'000, kLast = 1'600'000;
  for (size_t count = kFirst; count < kLast; count += 97) {
    const Prospect call{Collective::kAllReduce, count, Dtype::kFloat32, 4, 0};
    choices.insert(&chooser.of(&*settings.profile, parse_scheme("auto"), call,
                               {plan::kHostChunks, nodes(1, 4)}));
    const double chosen = static_cast<double>(as_chosen_for(call).count);
    ASSERT_NEAR(chosen / static_cast<double>(count), 1, 1.0 / 32) << count;
  }
  EXPECT_LE(choices.size(), 4 * 16 + 1u);
  for (const size_t exact : {0ul, 1ul, 31ul, 1ul << 20, 3ul << 30, 1ul << 62})
    EXPECT_EQ(as_chosen_for({Collective::kAllReduce, exact}).count, exact);
}

// Ranks come to the same choice, and read the same numbers.
TEST(Chooser, DoesNotDependOnHowAThreadRounds) {
  const int before = std::fegetround();
  std::set<std::string> taken;
  std::set<double> shares;
  for (const int mode : {FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO}) {
    std::fesetround(mode);
    Settings settings;
    settings.profile = parse_profile(R"(
      [[measured]]
      collective = "allreduce"
      dtype = "float32"
      ranks = 4
      nodes = 1
      scheme = "native"
      points = [[4096, 0.0011]]
      [[measured]]
      collective = "allreduce"
      dtype = "float32"
      ranks = 4
      nodes = 1
      scheme = "int8"
      points = [[4096, 0.001]])",
                                     "tie.toml");
    const Scheme scheme = parse_scheme("auto:error=0.3");
    shares.insert(scheme.automatic->error);
    Chooser chooser;
    taken.insert(name_of(chooser.of(&*settings.profile, scheme,
                                    {Collective::kAllReduce, 1024, Dtype::kFloat32, 4, 0},
                                    {plan::kHostChunks, nodes(1, 4)})));
    shares.insert(settings.profile->measured[0].points[0].seconds);
  }
  std::fesetround(before);
  EXPECT_EQ(taken.size(), 1u);
  EXPECT_EQ(shares, (std::set{0.3, 0.0011}));
}

// A program may reduce to each of many ranks: where nodes are alike that is one choice.
TEST(Chooser, ChoosesOnceForAllRoots) {
  Settings settings;
  settings.profile = kSlow;
  Chooser chooser;
  const auto choice = [&](Collective collective, const plan::Topology& t, int root) {
    return &chooser.of(&*settings.profile, parse_scheme("auto"),
                       {collective, kCount, Dtype::kFloat32, static_cast<int>(t.node.size()), root},
                       {plan::kHostChunks, t});
  };
  const plan::Topology alike = nodes(2, 4), other = plan::topology_of(std::array{7ul, 7ul, 9ul});
  EXPECT_EQ(choice(Collective::kReduce, alike, 0), choice(Collective::kReduce, alike, 5));
  EXPECT_NE(choice(Collective::kReduce, other, 0), choice(Collective::kReduce, other, 2));
  EXPECT_NE(choice(Collective::kSend, alike, 1), choice(Collective::kSend, alike, 5)) << "far away";
}

// Curves of other types, ranks or nodes say nothing of the call.
TEST(Chooser, TakesWhatWasMeasuredAloneWhereNativeWas) {
  model::Profile p = kSlow;
  const size_t bytes = 4 * kCount;
  p.measured = {curve("int8", {{kSize, 1}}), curve("native", {{1, 0.5}, {2 * bytes - 1, 1.5}}),
                curve("int4", {{kSize, 0.9}}), curve("int6", {{kSize, 1}}, Dtype::kFloat16)};
  const std::vector<Prediction> all = predicted(p, "auto:bits=4", all_reduce(), nodes(1, 4));
  ASSERT_EQ(names(all), "native int8 int4");
  EXPECT_EQ(all[0].seconds, 1.0);
  EXPECT_EQ(all[1].seconds, 1.0);
  EXPECT_EQ(all[2].seconds, 0.9);
  for (const Prediction& each : all) EXPECT_TRUE(each.measured);

  for (const auto& [call, topology] :
       {std::pair(all_reduce(), nodes(2, 2)), std::pair(all_reduce(), nodes(4, 1)),
        std::pair(all_reduce(Dtype::kBfloat16), nodes(1, 4)),
        std::pair(Prospect{Collective::kAllReduce, kCount, Dtype::kFloat32, 8, 0}, nodes(1, 8)),
        std::pair(Prospect{Collective::kAllGather, kCount, Dtype::kFloat32, 4, 0}, nodes(1, 4))})
    EXPECT_FALSE(predicted(p, "auto", call, topology).front().measured);
}

// Where links were not, either: they are not needed.
TEST(Chooser, WhatWasMeasuredNeedsNoModel) {
  model::Profile p{.name = "measured", .measured = {curve("native", {{kSize, 1}})}};
  p.measured.push_back(curve("int8:round=stochastic", {{kSize, 0.5}}));
  EXPECT_EQ(names(predicted(p, "auto:round=stochastic", all_reduce(), nodes(1, 4))),
            "native int8:round=stochastic");
}

TEST(Chooser, AGainOfLessThanTenPercentIsNone) {
  const struct {
    double native, int8, int4;
    const char* taken;
  } cases[] = {
      {1.2, 1.2, 1.2, "native"}, {1.2, 1.1, 1.1, "native"},  {1.2, 1.0, 1.1, "int8"},
      {1.2, 1.0, 0.9, "int4"},   {1.2, 1.0, 1.0, "int8"},    // of equals that of more bits
      {1.2, 1.0, 0.995, "int8"}, {1.2, 1.0, 0.985, "int4"},  // hardly faster
      {1.11, 1.0, 2.0, "int8"},  {1.09, 1.0, 2.0, "native"}, {1.0, 2.0, 3.0, "native"},
  };
  for (const auto& c : cases) {
    const model::Profile p{.measured = {curve("native", {{kSize, c.native}}),
                                        curve("int8", {{kSize, c.int8}}),
                                        curve("int4", {{kSize, c.int4}})}};
    const std::vector<Prediction> all = predicted(p, "auto:bits=4", all_reduce(), nodes(1, 4));
    EXPECT_EQ(name_of(choose(all)), c.taken) << c.native << " " << c.int8 << " " << c.int4;
  }
}

TEST(Chooser, FormatsAreNarrowerThanTheElements) {
  for (const Dtype dtype : {Dtype::kFloat16, Dtype::kBfloat16})
    EXPECT_EQ(names(predicted(kSlow, "auto", all_reduce(dtype), nodes(1, 4))),
              "native int8 minmax8");
  model::Profile p{.measured = {curve("native", {{kSize, 1}}, Dtype::kFloat16),
                                curve("bf16", {{kSize, 0.1}}, Dtype::kFloat16),
                                curve("int8", {{kSize, 0.1}}, Dtype::kFloat16)}};
  EXPECT_EQ(names(predicted(p, "auto", all_reduce(Dtype::kFloat16), nodes(1, 4))), "native int8");
}

// NCCL sums codes, and only moves nothing for terse.
TEST(Chooser, SharedGridsAreForSums) {
  for (const Collective c : {Collective::kAllGather, Collective::kAllToAll, Collective::kBroadcast,
                             Collective::kGather, Collective::kScatter})
    EXPECT_EQ(names(predicted(kSlow, "auto", {c, 1 << 16, Dtype::kFloat32, 4, 0}, nodes(2, 2))),
              "native bf16 int8 minmax8")
        << plan::name(c);
  for (const Collective c : {Collective::kReduceScatter, Collective::kReduce})
    EXPECT_EQ(names(predicted(kSlow, "auto", {c, 1 << 16, Dtype::kFloat32, 4, 0}, nodes(2, 2))),
              "native bf16 linear16:round=nearest int8 minmax8")
        << plan::name(c);
}

// As the calls themselves go (route.cc).
TEST(Chooser, DifferencesAreForAllGatherAndLevelsForAllRanks) {
  const Scheme delta = parse_scheme("int4:delta=inplace"), learned = parse_scheme("learned4");
  for (const Collective c : {Collective::kAllReduce, Collective::kReduceScatter,
                             Collective::kAllToAll, Collective::kBroadcast}) {
    EXPECT_FALSE(is_for(delta, c, Dtype::kFloat32)) << plan::name(c);
    EXPECT_TRUE(is_for(learned, c, Dtype::kFloat32)) << plan::name(c);
  }
  EXPECT_TRUE(is_for(delta, Collective::kAllGather, Dtype::kFloat32));
  EXPECT_FALSE(is_for(learned, Collective::kSend, Dtype::kFloat32));
  EXPECT_FALSE(predict(kSlow, delta, all_reduce(), {plan::kHostChunks, nodes(1, 4)}));
}

TEST(Chooser, SaysWhichLinksAProfileLacks) {
  model::Profile p = kSlow;
  const auto error = [&](int count, int ranks_of_node) {
    return error_of([&] { predicted(p, "auto", all_reduce(), nodes(count, ranks_of_node)); });
  };
  EXPECT_EQ(error(2, 2), "none");
  p.between = {};
  EXPECT_EQ(error(1, 4), "none");
  EXPECT_EQ(error(2, 2),
            "the profile \"slow\" says nothing of links between nodes, and 4 ranks are on 2 nodes");
  p = kSlow;
  p.within = {};
  EXPECT_EQ(error(4, 1), "none");
  EXPECT_EQ(error(1, 4),
            "the profile \"slow\" says nothing of links within a node, and 4 ranks are on 1 node");
}

// A scheme that names its algorithm is predicted with that; else it comes to name the fastest one
// where the table takes another.
TEST(Chooser, TheAlgorithmIsChosen) {
  const plan::Topology t = nodes(4, 1);
  const auto predict_on = [&](const model::Profile& p, const char* scheme, size_t count) {
    return predict(p, parse_scheme(scheme), {Collective::kAllReduce, count, Dtype::kFloat32, 4, 0},
                   {plan::kHostChunks, t})
        .value();
  };
  EXPECT_EQ(print_scheme(predict_on(kSlow, "int8", kCount).scheme), "int8:block=128,round=nearest");
  model::Profile slow_to_start = kSlow;
  slow_to_start.between = model::Link{10, 1e12};
  const Prediction best = predict_on(slow_to_start, "int8", kCount);
  EXPECT_EQ(print_scheme(best.scheme), "int8:block=128,round=nearest,algo=oneshot");
  const Prediction asked = predict_on(slow_to_start, "int8:algo=twoshot", kCount);
  EXPECT_EQ(print_scheme(asked.scheme), "int8:block=128,round=nearest,algo=twoshot");
  EXPECT_NEAR(*asked.seconds - *best.seconds, 10, 1);
  EXPECT_EQ(predict_on(slow_to_start, "int8:algo=oneshot", kCount).seconds, best.seconds);
}

// Of 10 ranks on nodes of 4, 3 and 3, where links between nodes are the faster ones.
struct Uneven {
  const plan::Topology topology = plan::even_topology(10, 3);
  const Machines machines{plan::kHostChunks, topology};
  const Prospect call{Collective::kAllReduce, kCount, Dtype::kFloat32, 10, 0};
  model::Profile profile{.name = "uneven",
                         .within = model::Link{1e-6, 1e9},
                         .between = model::Link{1e-6, 1e10},
                         .coding = {1e12, 1e12}};
};

// A node's four ranks send six others half of the message each, twice.
TEST(Chooser, KnowsWhereNcclSendsLessBetweenNodes) {
  const Uneven u;
  EXPECT_TRUE(nccl_sends_less(parse_scheme("bf16"), u.call, u.machines));
  EXPECT_FALSE(nccl_sends_less(parse_scheme("bf16:algo=twoshot"), u.call, u.machines));
  EXPECT_FALSE(nccl_sends_less(parse_scheme("int8"), u.call, u.machines));
  const plan::Topology one = nodes(1, 10);
  EXPECT_FALSE(nccl_sends_less(parse_scheme("bf16"), u.call, {plan::kHostChunks, one}));
}

TEST(Chooser, DoesNotTakeWhatWouldStayNative) {
  Uneven u;
  const auto modelled = predictions(u.profile, parse_scheme("auto:bits=16"), u.call, u.machines);
  EXPECT_EQ(names(modelled), "native linear16:round=nearest");
  EXPECT_EQ(name_of(choose(modelled)), "linear16:round=nearest");
  EXPECT_FALSE(predict(u.profile, parse_scheme("bf16"), u.call, u.machines));
  EXPECT_TRUE(predict(u.profile, parse_scheme("bf16:algo=twoshot"), u.call, u.machines));

  // Of calls that were native what was measured is NCCL's own time.
  for (const auto& [scheme, seconds] :
       {std::pair("native", 1.0), std::pair("bf16", 0.5), std::pair("int8", 0.8)})
    u.profile.measured.push_back(
        {Collective::kAllReduce, Dtype::kFloat32, 10, 3, scheme, {{kSize, seconds}}});
  const auto measured = predictions(u.profile, parse_scheme("auto"), u.call, u.machines);
  EXPECT_EQ(names(measured), "native int8");
  EXPECT_TRUE(measured.front().measured);
}

// On eight nodes one shot of int8 sends 7 x 8.25/32 of the message, and NCCL 7/4.
TEST(Chooser, TakesTheTablesAlgorithmWhereTheFastestSendsMoreThanNccl) {
  model::Profile slow_to_start = kSlow;
  slow_to_start.between = model::Link{10, 1e12};
  const plan::Topology t = nodes(8, 1);
  const auto predicted_of = [&](const char* scheme) {
    return predict(slow_to_start, parse_scheme(scheme),
                   {Collective::kAllReduce, kCount, Dtype::kFloat32, 8, 0}, {plan::kHostChunks, t})
        .value();
  };
  const Prediction taken = predicted_of("int8");
  EXPECT_EQ(print_scheme(taken.scheme), "int8:block=128,round=nearest");
  EXPECT_EQ(taken.seconds, predicted_of("int8:algo=twoshot").seconds);
  EXPECT_LT(*predicted_of("int8:algo=oneshot").seconds, *taken.seconds);
}

// A program that names a scheme alone runs the table's algorithm, whichever is the fastest.
TEST(Chooser, ATimeAsCalledIsOfTheTablesAlgorithm) {
  model::Profile slow_to_start = kSlow;
  slow_to_start.between = model::Link{10, 1e12};
  const plan::Topology four = nodes(4, 1);
  const Prospect call = all_reduce();
  const auto as_called = [&](const char* scheme) {
    return predict_as_called(slow_to_start, parse_scheme(scheme), call, {plan::kHostChunks, four})
        ->seconds;
  };
  const Prediction fastest =
      predict(slow_to_start, parse_scheme("int8"), call, {plan::kHostChunks, four}).value();
  ASSERT_EQ(fastest.scheme.algorithm, parse_scheme("int8:algo=oneshot").algorithm);
  EXPECT_EQ(as_called("int8"), as_called("int8:algo=twoshot"));
  EXPECT_EQ(as_called("int8:algo=oneshot"), fastest.seconds);
  EXPECT_GT(*as_called("int8"), *fastest.seconds);
  // None of what stays native.
  const Uneven u;
  EXPECT_FALSE(predict_as_called(u.profile, parse_scheme("bf16"), u.call, u.machines));
}

// Of four ranks on one node, whose steps take long to start.
struct OneNode {
  const plan::Topology topology = nodes(1, 4);
  Fusing fusing{.window_bytes = size_t{1} << 30};
  model::Profile profile = kSlow;

  OneNode() {
    profile.launch = 10;
    profile.fused = model::FusedCalls{.launch = 1e-5, .flag = 1e-6, .bandwidth = 1e8};
  }
  Machines machines() const { return {plan::kHostChunks, topology, &fusing}; }
  Machines in_steps() const { return {plan::kHostChunks, topology}; }
};

TEST(Chooser, PredictsFusedCallsAsSuch) {
  OneNode one;
  const auto chosen = [&](const Machines& machines) {
    return choose(predictions(one.profile, parse_scheme("auto:bits=8"), all_reduce(), machines));
  };
  EXPECT_EQ(name_of(chosen(one.in_steps())), "native");
  EXPECT_EQ(name_of(chosen(one.machines())), "int8");
  EXPECT_TRUE(chosen(one.machines()).is_fused);
  const auto as_called = [&](const char* scheme, const Machines& machines) {
    return *predict_as_called(one.profile, parse_scheme(scheme), all_reduce(), machines);
  };
  EXPECT_TRUE(as_called("int8", one.machines()).is_fused);
  EXPECT_LT(*as_called("int8", one.machines()).seconds, 10);
  EXPECT_GT(*as_called("int8", one.in_steps()).seconds, 30);
  // What is never fused: sums by NCCL, differences, windows that are too large or were refused.
  EXPECT_FALSE(as_called("linear8", one.machines()).is_fused);
  EXPECT_FALSE(as_called("int8:delta=inplace", one.machines()).is_fused);
  one.fusing.refused_bytes = 1 << 20;
  EXPECT_FALSE(as_called("int8", one.machines()).is_fused);
  one.fusing = {.window_bytes = 1 << 20};
  EXPECT_FALSE(as_called("int8", one.machines()).is_fused);
  one.fusing = {.window_bytes = size_t{1} << 30,
                .takes = [](const Forms& forms, Dtype) { return forms.spec.bits != 8; }};
  EXPECT_FALSE(as_called("int8", one.machines()).is_fused);
  EXPECT_TRUE(as_called("int4", one.machines()).is_fused);
}

TEST(Chooser, TakesWhatWasMeasuredOfTheSameWay) {
  OneNode one;
  one.profile.measured = {curve("native", {{kSize, 4}}), curve("int8", {{kSize, 3}}),
                          curve("int8", {{kSize, 1}})};
  one.profile.measured.back().fused = true;
  const auto seconds = [&](const Machines& machines) {
    return *predictions(one.profile, parse_scheme("auto"), all_reduce(), machines).back().seconds;
  };
  EXPECT_DOUBLE_EQ(seconds(one.machines()), 1);
  EXPECT_DOUBLE_EQ(seconds(one.in_steps()), 3);
}

// On all ranks at the same call: what was chosen before went by windows that nobody has.
TEST(Chooser, ChoosesAnewWhenWindowsAreRefused) {
  const OneNode one;
  CommRouting routing(0, 4, plan::kHostChunks, one.fusing);
  routing.plans().learn(one.topology);
  const auto chosen = [&] {
    return name_of(routing.chooser().of(&one.profile, parse_scheme("auto:bits=8"), all_reduce(),
                                        routing.machines()));
  };
  const auto gains = [&] {
    return !routing.savings().are_too_little(&one.profile, parse_scheme("int8"), all_reduce(),
                                             routing.machines());
  };
  const auto from = [&] {
    return routing.fused_from(&one.profile, Collective::kAllReduce, Dtype::kFloat32);
  };
  EXPECT_EQ(chosen(), "int8");
  EXPECT_TRUE(gains());
  EXPECT_NE(from(), ~size_t{0});
  routing.refuse_windows(64 << 10);
  EXPECT_EQ(chosen(), "native");
  EXPECT_FALSE(gains());
  EXPECT_EQ(from(), ~size_t{0});
}

// The size is that from which on all larger ones gain.
TEST(Chooser, FusedCallsGainFromASizeOn) {
  OneNode one;
  one.profile.gpu = true;
  one.profile.launch = 0;
  one.profile.within = model::Link{2e-5, 1e9};
  const auto from = [&](const model::FusedCalls& fused) {
    one.profile.fused = fused;
    return fused_from(one.profile, Collective::kAllReduce, Dtype::kFloat32, 4, one.machines());
  };
  constexpr size_t kNone = ~size_t{0};
  // Natively 2 x 2 latencies and 1.5 times the bytes; fused 2 x 3/4 of a quarter of them.
  EXPECT_EQ(from({.launch = 1e-6, .bandwidth = 1e9}), kMinFusedShard);
  EXPECT_EQ(from({.launch = 1e-6, .bandwidth = 1e9, .estimate = true}), kUsualShard);
  EXPECT_EQ(from({.launch = 1e-3, .bandwidth = 1e9}), size_t{1} << 20);
  EXPECT_EQ(from({.launch = 1, .bandwidth = 1e9}), kNone);
  EXPECT_EQ(from({.launch = 1e-6, .bandwidth = 1e7}), kNone);
  EXPECT_EQ(fused_from(one.profile, Collective::kAllReduce, Dtype::kFloat32, 4, one.in_steps()),
            kNone);
}

TEST(Chooser, WhatNobodyDoesIsNotPredicted) {
  const plan::Topology t = nodes(1, 4);
  const auto predicted_at_all = [&](const char* scheme, const Prospect& call) {
    return predict(kSlow, parse_scheme(scheme), call, {plan::kHostChunks, t}).has_value();
  };
  EXPECT_TRUE(predicted_at_all("linear8", all_reduce()));
  EXPECT_FALSE(
      predicted_at_all("linear8", {Collective::kAllGather, kCount, Dtype::kFloat32, 4, 0}));
  EXPECT_TRUE(predicted_at_all("bf16", all_reduce()));
  EXPECT_FALSE(predicted_at_all("bf16", all_reduce(Dtype::kFloat16)));
}

// No rank is a part of the question; and it is answered once.
TEST(Chooser, AnswersEveryRankAlike) {
  Settings settings;
  settings.profile = kSlow;
  const plan::Topology t = nodes(2, 2);
  const Machines machines{plan::kHostChunks, t};
  for (const char* text : {"auto", "auto:bits=4", "auto:error=0.05,round=stochastic,seed=3"})
    for (const Collective c : {Collective::kAllReduce, Collective::kBroadcast, Collective::kReduce,
                               Collective::kScatter, Collective::kAllToAll})
      for (const size_t count : {1u, 100u, 1u << 20}) {
        const Scheme scheme = parse_scheme(text);
        const Prospect call{c, count, Dtype::kFloat32, 4, 1};
        Chooser first, second;
        const Prediction& taken = first.of(&*settings.profile, scheme, call, machines);
        EXPECT_EQ(&first.of(&*settings.profile, scheme, call, machines), &taken);
        EXPECT_EQ(second.of(&*settings.profile, scheme, call, machines).scheme, taken.scheme);
        const std::vector<Prediction> all = predictions(kSlow, scheme, call, machines);
        EXPECT_EQ(taken.scheme, without_seed(choose(all).scheme)) << text;
      }
}

TEST(Chooser, TellsSchemesAndCallsApart) {
  Settings settings;
  settings.profile = kSlow;
  const plan::Topology t = nodes(1, 4);
  Chooser chooser;
  const auto taken = [&](const char* scheme, const Prospect& call) {
    return print_scheme(
        chooser.of(&*settings.profile, parse_scheme(scheme), call, {plan::kHostChunks, t}).scheme);
  };
  for (int again = 0; again < 2; ++again) {
    EXPECT_EQ(taken("auto", all_reduce()), "int8:block=128,round=nearest");
    EXPECT_EQ(taken("auto:bits=4", all_reduce()), "int4:block=128,round=nearest");
    EXPECT_EQ(taken("auto:bits=4,seed=5", all_reduce()), "int4:block=128,round=nearest");
    EXPECT_EQ(taken("auto:bits=4,round=stochastic", all_reduce()),
              "int4:block=128,round=stochastic");
    EXPECT_EQ(taken("auto:bits=9", all_reduce(Dtype::kFloat16)), "off");
    EXPECT_EQ(taken("auto:bits=9", all_reduce()), "bf16:round=nearest");
  }
}

// More kinds of calls than are kept. Small ones cost their launches alone.
TEST(Chooser, ForgetsWithoutChangingItsMind) {
  Settings settings;
  settings.profile = kSlow;
  settings.profile->launch = 1e-3;
  const plan::Topology t = nodes(1, 4);
  Chooser chooser;
  const auto is_native = [&](size_t count) {
    const Prospect call{Collective::kAllReduce, count, Dtype::kFloat32, 4, 0};
    return chooser.of(&*settings.profile, parse_scheme("auto"), call, {plan::kHostChunks, t})
        .scheme.off;
  };
  for (size_t count = 1; count < 4200; ++count) EXPECT_TRUE(is_native(count)) << count;
  for (const size_t count : {kCount, kCount + 1}) EXPECT_FALSE(is_native(count));
  EXPECT_TRUE(is_native(1));
}

TEST(Chooser, NeedsAProfile) {
  const plan::Topology t = nodes(1, 4);
  EXPECT_EQ(error_of([&] {
              Chooser().of(nullptr, parse_scheme("auto"), all_reduce(), {plan::kHostChunks, t});
            }),
            std::string("auto needs a profile: ") + kProfileHint);
}

// Where compression pays, larger calls have no less to gain, and no gain grows faster than the
// size, unless another algorithm takes over.
void expect_no_jump(const model::Profile& profile, Prospect call, const Scheme& scheme) {
  const Machines machines{plan::default_chunk_policy(profile.gpu),
                          plan::full_topology(call.ranks, profile.node_ranks)};
  double last = 0;
  std::optional<plan::Algo> algorithm;
  for (size_t bytes = 64 << 10; bytes <= size_t{4} << 30; bytes += bytes / 4) {
    call.count = bytes / codec::dtype_size(call.dtype) / plan::shards(call.collective, call.ranks);
    const auto compressed = predict(profile, scheme, call, machines);
    ASSERT_TRUE(compressed && compressed->seconds);
    const double gain = *predict_native(profile, call, machines).seconds / *compressed->seconds;
    const auto where = [&] {
      return fmt::format("{}, {}, {}, {} ranks, {} bytes", profile.name,
                         plan::name(call.collective), print_scheme(scheme), call.ranks, bytes);
    };
    if (algorithm == compressed->scheme.algorithm) {
      if (last >= 1) {
        EXPECT_GE(gain, 0.99 * last) << where();
      }
      EXPECT_LE(gain, 1.25 * last) << where();
    }
    last = gain;
    algorithm = compressed->scheme.algorithm;
  }
}

TEST(Chooser, PredictsNoJumpsAlongSizes) {
  for (const KnownProfile& known : known_profiles()) {
    const model::Profile profile = parse_profile(known.text, std::string(known.name));
    if (!profile.between) continue;
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter})
      for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
        for (const char* scheme : {"int8", "int4"})
          for (const int nodes : {2, 8})
            expect_no_jump(profile, {collective, 0, dtype, nodes * profile.node_ranks, 0},
                           parse_scheme(scheme));
  }
}

}  // namespace
}  // namespace terse
