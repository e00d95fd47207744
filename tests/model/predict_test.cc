// How long calls take, against sums that are made by hand; and what must hold whatever the machine.
#include "model/predict.h"

#include <gtest/gtest.h>

#include <random>

#include "trials.h"

namespace terse::model {
namespace {

using plan::Algorithm;
using plan::Collective;
using plan::Shape;
using test::trials;

// Every part of a time has a power of two of its own, so that sums are exact.
constexpr double kWithinLatency = 0x1p-2, kBetweenLatency = 0x1p3;
constexpr double kWithinBytes = 0x1p10, kBetweenBytes = 0x1p5;  // a second
constexpr double kEncode = 0x1p12, kDecode = 0x1p9;
constexpr double kMessage = 0x1p-10, kLaunch = 0x1p-20;

const Profile kMachine{.name = "by hand",
                       .within = Link{kWithinLatency, kWithinBytes},
                       .between = Link{kBetweenLatency, kBetweenBytes},
                       .message = kMessage,
                       .launch = kLaunch,
                       .overlap = 0.5,
                       .coding = {kEncode, kDecode}};

plan::Topology topology(int nodes, int ranks_of_node) {
  std::vector<uint64_t> hosts;
  for (int rank = 0; rank < nodes * ranks_of_node; ++rank)
    hosts.push_back(static_cast<uint64_t>(rank / ranks_of_node));
  return plan::topology_of(hosts);
}

// A byte an element; on a shared grid one parameter for each 64.
plan::Packing packing(bool shared_grid = false) {
  plan::Packing bytes{64, [](size_t n) { return n; }};
  bytes.codes = bytes.bytes;
  if (!shared_grid) return bytes;
  return {64, [](size_t n) { return n + n / 16; },
          plan::SharedGrid{[](size_t n) { return n; }, plan::Element::kUint32}};
}

// Of 1024 elements of four bytes, in one chunk.
Shape shape(int nodes, int ranks_of_node, bool shared_grid = false) {
  return {.count = 1024,
          .ranks = nodes * ranks_of_node,
          .chunk_policy = plan::exact_chunks(size_t{1} << 30),
          .packing = packing(shared_grid),
          .topology = topology(nodes, ranks_of_node)};
}

const Algorithm& algorithm(Collective collective, std::string_view name) {
  for (const Algorithm& a : plan::algorithms())
    if (a.collective == collective && a.names.own == name) return a;
  throw std::invalid_argument(std::string(name));
}

double seconds_of(const Shape& s, std::string_view name, const Profile& profile = kMachine) {
  return estimate(profile, algorithm(Collective::kAllReduce, name), s, "int8").seconds;
}

// Up a tree and down again; and 2 (n-1)/n of 4096 bytes by each rank.
TEST(Predict, NativeRingsOnSeveralNodes) {
  EXPECT_EQ(native_seconds(kMachine, Collective::kAllReduce, shape(4, 1)),
            2 * 2 * kBetweenLatency + kLaunch + 6144 / kBetweenBytes);
  EXPECT_EQ(native_seconds(kMachine, Collective::kAllReduce, shape(2, 1)),
            2 * 1 * kBetweenLatency + kLaunch + 4096 / kBetweenBytes);
  // One way alone; each rank passes on the shards of three, of 4096 bytes each.
  for (const Collective c : {Collective::kAllGather, Collective::kReduceScatter})
    EXPECT_EQ(native_seconds(kMachine, c, shape(4, 1)),
              2 * kBetweenLatency + kLaunch + 3 * 4096 / kBetweenBytes);
}

TEST(Predict, TreesHaveALevelForEachPowerOfTwo) {
  Profile latencies = kMachine;
  latencies.launch = 0;
  latencies.between->bandwidth = 1e30;
  const int levels[] = {1, 2, 2, 3, 3, 3, 3, 4};  // of 2 nodes and more
  for (int nodes = 2; nodes < 10; ++nodes)
    EXPECT_FLOAT_EQ(
        static_cast<float>(native_seconds(latencies, Collective::kBroadcast, shape(nodes, 1))),
        static_cast<float>(levels[nodes - 2] * kBetweenLatency))
        << nodes;
}

// All at the rates of their own links.
TEST(Predict, NativeRingsOnOneNode) {
  EXPECT_EQ(native_seconds(kMachine, Collective::kAllReduce, shape(1, 4)),
            2 * 2 * kWithinLatency + kLaunch + 6144 / kWithinBytes);
}

// A root that alone sends does so over its own link: all shards but its own, or the message.
TEST(Predict, NativeFromARootOnOneNode) {
  const double latencies = 2 * kWithinLatency + kLaunch;
  EXPECT_EQ(native_seconds(kMachine, Collective::kScatter, shape(1, 4)),
            latencies + 3 * 4096 / kWithinBytes);
  EXPECT_EQ(native_seconds(kMachine, Collective::kBroadcast, shape(1, 4)),
            latencies + 4096 / kWithinBytes);
}

// A root that receives does so from each of the others, and decodes what each of them encoded.
TEST(Predict, ARootsMessagesCount) {
  const auto gather = [](int ranks) {
    return estimate(kMachine, algorithm(Collective::kGather, "direct"), shape(1, ranks), "int8")
        .seconds;
  };
  const double of_each = kMessage + 1024 / kWithinBytes + 1024 / kDecode;
  EXPECT_EQ(gather(4) - gather(2), 2 * of_each);
}

// What leaves a node goes through one link, what stays through a link of each rank: the slower
// counts.
TEST(Predict, NativeRingsThroughNodesOfSeveralRanks) {
  const double latencies = 2 * (kWithinLatency + kBetweenLatency) + kLaunch;
  EXPECT_EQ(native_seconds(kMachine, Collective::kAllReduce, shape(2, 2)),
            latencies + 6144 / kBetweenBytes);
  Profile fast = kMachine;
  fast.between->bandwidth = 0x1p40;
  EXPECT_EQ(native_seconds(fast, Collective::kAllReduce, shape(2, 2)),
            latencies + (2 * 6144 - 6144) / 2 / kWithinBytes);
}

// A ring leaves a pod by one of its nodes, and so by half of the pod's link a node.
TEST(Predict, NativeRingsThroughPods) {
  Shape s = shape(4, 1);
  s.topology = plan::even_topology(4, 4, 2);
  Profile pods = kMachine;
  EXPECT_EQ(native_seconds(pods, Collective::kAllReduce, s),
            2 * 2 * kBetweenLatency + kLaunch + 6144 / kBetweenBytes)
      << "as between nodes";
  pods.pods = Link{0x1p6, 0x1p2};
  EXPECT_EQ(native_seconds(pods, Collective::kAllReduce, s),
            2 * (kBetweenLatency + 0x1p6) + kLaunch + 3072 / 0x1p2);
  pods.pods->bandwidth = 0x1p40;
  EXPECT_EQ(native_seconds(pods, Collective::kAllReduce, s),
            2 * (kBetweenLatency + 0x1p6) + kLaunch + 6144 / kBetweenBytes);
}

// In groups half of what a rank sends crosses between pods, and in two levels two thirds.
TEST(Predict, LevelsOfPodsSendLessBetweenThem) {
  Shape s = shape(4, 1);
  s.topology = plan::even_topology(4, 4, 2);
  Profile pods = kMachine;
  pods.launch = pods.message = 0;
  pods.coding = {0x1p60, 0x1p60};
  pods.within->latency = pods.between->latency = 0;
  pods.between->bandwidth = 0x1p60;
  pods.pods = Link{0, 1};
  const double in_steps = seconds_of(s, "twoshot", pods),
               in_levels = seconds_of(s, "multilevel", pods);
  EXPECT_NEAR(in_steps, 2 * 2 * 256, 1e-6);
  EXPECT_NEAR(in_levels, 2 * 256, 1e-6);
}

// Each rank encodes three shards of 256, and the sum; decodes what it gets of each.
constexpr double kTwoShotCoding = 1024 / kEncode + (3 * 256 + 4 * 256) / kDecode;

TEST(Predict, TwoShots) {
  // Encode, exchange, reduce, share, decode; six messages there, six back, of 256 bytes each.
  const double own = 5 * kLaunch + 2 * 6 * kMessage + kTwoShotCoding;
  EXPECT_EQ(seconds_of(shape(1, 4), "twoshot"),
            own + 2 * kWithinLatency + 2 * 3 * 256 / kWithinBytes);
  EXPECT_EQ(seconds_of(shape(4, 1), "twoshot"),
            own + 2 * kBetweenLatency + 2 * 3 * 256 / kBetweenBytes);
}

TEST(Predict, OneShot) {
  EXPECT_EQ(seconds_of(shape(1, 4), "oneshot"), 3 * kLaunch + 6 * kMessage + kWithinLatency +
                                                    3 * 1024 / kWithinBytes + 1024 / kEncode +
                                                    4 * 1024 / kDecode);
}

// A kernel's start in place of the steps', writes in place of messages, of which half the time goes
// along with coding.
TEST(Predict, AFusedCallHasFlagsInPlaceOfSteps) {
  Profile p = kMachine;
  p.fused = FusedCalls{.launch = 0x1p-6, .flag = 0x1p-8, .bandwidth = 0x1p11, .overlap = 0.5};
  const auto fused = [&](const Shape& s, std::string_view name, size_t flags) {
    return estimate(p, algorithm(Collective::kAllReduce, name), s, "int8", flags);
  };
  Shape s = shape(1, 4);
  const double two_shot = 2 * 3 * 256 / 0x1p11, one_shot = 3 * 1024 / 0x1p11;  // less than coding
  EXPECT_EQ(fused(s, "twoshot", 2).seconds,
            0x1p-6 + 2 * 0x1p-8 + kTwoShotCoding + two_shot - two_shot / 2);
  EXPECT_EQ(fused(s, "oneshot", 1).seconds,
            0x1p-6 + 0x1p-8 + 1024 / kEncode + 4 * 1024 / kDecode + one_shot - one_shot / 2);
  EXPECT_TRUE(fused(s, "oneshot", 1).is_fused);
  const double plain = fused(s, "oneshot", 1).seconds;
  s.packing.draws = true;  // a step of its own finds by what
  EXPECT_EQ(fused(s, "oneshot", 1).seconds, plain + kLaunch);
  // In steps, where the call is not fused, or the profile says nothing of such calls.
  s.packing.draws = false;
  EXPECT_EQ(fused(s, "oneshot", 0).seconds, seconds_of(s, "oneshot"));
  p.fused.reset();
  EXPECT_EQ(fused(s, "oneshot", 1).seconds, seconds_of(s, "oneshot"));
  EXPECT_FALSE(fused(s, "oneshot", 1).is_fused);
}

TEST(Predict, TheFastestMayBeTheOneThatIsFused) {
  Profile p = kMachine;
  p.launch = 10;
  p.fused = FusedCalls{.bandwidth = 0x1p30};
  const Shape s = shape(1, 4);
  const auto own = [&](const char* wanted) {
    return fastest(
               p, Collective::kAllReduce, s, "int8",
               [&](const Algorithm& a) { return size_t{a.names.own == std::string_view(wanted)}; })
        .algorithm->names.own;
  };
  EXPECT_EQ(own("twoshot"), std::string_view("twoshot"));
  EXPECT_EQ(own("oneshot"), std::string_view("oneshot"));
}

// NCCL's own AllReduce of the parameters and of the codes, which go up a tree and down. Finding
// parameters is not counted beside packing.
TEST(Predict, SumsByNccl) {
  EXPECT_EQ(seconds_of(shape(1, 4, true), "summed"), 5 * kLaunch + 2 * 4 * kWithinLatency +
                                                         (1024 + 64) * 1.5 / kWithinBytes +
                                                         1024 / kEncode + 1024 / kDecode);
}

// Two shots within a node and two between nodes; a rank sends its neighbour two shards of 256 and
// gets as many back, and one of them each way to the other node.
TEST(Predict, TwoLevels) {
  Profile fast = kMachine;
  const double own = 8 * kLaunch + 8 * kMessage + 2 * (kWithinLatency + kBetweenLatency) +
                     (2 + 2 + 1) * 256 / kEncode + (2 + 2 + 4) * 256 / kDecode;
  // In one chunk one after the other.
  EXPECT_EQ(seconds_of(shape(2, 2), "hierarchical"),
            own + 2 * 2 * 256 / kWithinBytes + 2 * 2 * 256 / kBetweenBytes);
  fast.between->bandwidth = 0x1p40;
  EXPECT_DOUBLE_EQ(seconds_of(shape(2, 2), "hierarchical", fast),
                   own + 2 * 2 * 256 / kWithinBytes + 2 * 2 * 256 / 0x1p40);
}

// Of two-shot's three messages each way two leave the node, and so do those of its neighbour.
TEST(Predict, TheRanksOfANodeShareItsLink) {
  EXPECT_EQ(seconds_of(shape(2, 2), "twoshot"), 5 * kLaunch + 12 * kMessage + 2 * kBetweenLatency +
                                                    kTwoShotCoding +
                                                    2 * 2 * 2 * 256 / kBetweenBytes);
}

TEST(Predict, TwoLevelsAreFasterWhereANodeHasSeveralRanks) {
  Shape large = shape(2, 4);
  large.count = 1 << 20;
  EXPECT_LT(seconds_of(large, "hierarchical"), seconds_of(large, "twoshot"));
  EXPECT_EQ(fastest(kMachine, Collective::kAllReduce, large, "int8").algorithm,
            &algorithm(Collective::kAllReduce, "hierarchical"));
}

// In four chunks each step is done four times; but for the first chunk half of the shorter part,
// here coding, is hidden by the longer one. Latencies go by while others send.
TEST(Predict, ChunksOverlap) {
  Shape s = shape(4, 1);
  s.chunk_policy = plan::exact_chunks(1024);
  const double sending = 2 * 3 * 256 / kBetweenBytes;
  const double chunks = 4 * (5 * kLaunch + 12 * kMessage) + 2 * kBetweenLatency;
  EXPECT_EQ(seconds_of(s, "twoshot"),
            chunks + sending + kTwoShotCoding - 0.5 * 3 / 4 * kTwoShotCoding);
  Profile fast = kMachine;
  fast.between->bandwidth = 0x1p40;
  fast.overlap = 1;
  EXPECT_EQ(seconds_of(s, "twoshot", fast),
            chunks + kTwoShotCoding + 2 * 3 * 256 / 0x1p40 - 2 * 3 * 256 / 0x1p40 * 3 / 4);
  fast.overlap = 0;
  EXPECT_EQ(seconds_of(s, "twoshot", fast), chunks + kTwoShotCoding + 2 * 3 * 256 / 0x1p40);
}

// As plan/chunks.h cuts: of many chunks half as many, on GPUs the square root, and none for less
// than a shard's least.
TEST(Predict, ThereAreAsManyChunksAsThePlanHas) {
  Profile launches{.within = Link{0, 1e300}, .launch = 1, .coding = {1e300, 1e300}};
  const struct {
    size_t bytes;
    plan::ChunkPolicy chunk_policy;
    double chunks;
  } cases[] = {
      {31 << 20, plan::kHostChunks, 31},     {32 << 20, plan::kHostChunks, 16},
      {1 << 20, plan::kHostChunks, 1},       {4096, plan::kHostChunks, 1},
      {64 << 20, plan::kGpuChunks, 2},       {256 << 20, plan::kGpuChunks, 4},
      {64 << 20, {1 << 20, 4 << 20, 32}, 4},
  };
  for (const auto& c : cases) {
    Shape s = shape(1, 4);
    s.count = c.bytes / s.element_bytes;
    s.chunk_policy = c.chunk_policy;
    EXPECT_DOUBLE_EQ(seconds_of(s, "twoshot", launches), 5 * c.chunks) << c.bytes;
  }
}

// A GPU takes one launch for bodies at equal distances, however many ranks there are.
TEST(Predict, AGpuTakesALaunchForBodiesAtEqualDistances) {
  Profile launches{.within = Link{0, 1e300}, .launch = 1, .coding = {1e300, 1e300}};
  launches.gpu = true;
  Shape s = shape(1, 64);
  s.count = 64 * 64;
  EXPECT_DOUBLE_EQ(seconds_of(s, "twoshot", launches), 5);
}

// The root's link has what all ranks send to its node, whichever levels they are on.
TEST(Predict, ARootsLinkHasWhatAllSendIt) {
  const Profile link{.within = Link{0, 1e300}, .between = Link{0, 1}, .coding = {1e300, 1e300}};
  for (const char* name : {"hierarchical", "multilevel"})
    for (const int root : {0, 5, 31}) {
      Shape s = shape(16, 2);
      s.count = 32 * 64;
      s.root = root;
      const Algorithm& a = algorithm(Collective::kReduce, name);
      size_t bytes = 0;
      for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
        const std::vector<size_t> to = a.build(s).wire_to;
        for (size_t peer = 0; peer < to.size(); ++peer)
          if (s.topology.node[peer] == root / 2 && s.rank / 2 != root / 2) bytes += to[peer];
      }
      s.rank = root;
      EXPECT_DOUBLE_EQ(estimate(link, a, s, "int8").seconds, static_cast<double>(bytes))
          << name << " " << root;
    }
}

// Whichever rank has them, on nodes in groups.
TEST(Predict, ABroadcastTakesAsLongAsTheMostMessages) {
  const Profile messages{
      .within = Link{0, 1e300}, .between = Link{0, 1e300}, .message = 1, .coding = {1e300, 1e300}};
  const Algorithm& a = algorithm(Collective::kBroadcast, "multilevel");
  for (const int root : {0, 5, 31}) {
    Shape s = shape(16, 2);
    s.count = 32 * 64;
    s.root = root;
    size_t most = 0;
    for (s.rank = 0; s.rank < s.ranks; ++s.rank) {
      size_t sum = 0;
      for (const plan::Step& step : a.build(s).steps) sum += step.transfers.size();
      most = std::max(most, sum);
    }
    s.rank = root;
    EXPECT_DOUBLE_EQ(estimate(messages, a, s, "int8").seconds, static_cast<double>(most)) << root;
  }
}

TEST(Predict, CodecsHaveRatesOfTheirOwn) {
  Profile p = kMachine;
  p.codecs["int4"] = {2 * kEncode, 4 * kDecode};
  const Shape s = shape(1, 4);
  const Algorithm& a = algorithm(Collective::kAllReduce, "twoshot");
  EXPECT_EQ(estimate(p, a, s, "int8").seconds, estimate(kMachine, a, s, "int8").seconds);
  EXPECT_EQ(estimate(p, a, s, "int8").seconds - estimate(p, a, s, "int4").seconds,
            1024 / kEncode / 2 + 1792 / kDecode * 3 / 4);
}

TEST(Predict, SaysWhichLinksTheProfileLacks) {
  Profile none, within, between;
  within.within = between.between = Link{};
  const struct {
    const Profile& profile;
    int nodes, ranks_of_node;
    const char* lacks;
  } cases[] = {
      {none, 1, 2, "links within a node"},
      {none, 2, 1, "links between nodes"},
      {within, 1, 2, nullptr},
      {within, 2, 1, "links between nodes"},
      {within, 2, 2, "links between nodes"},
      {between, 1, 2, "links within a node"},
      {between, 2, 1, nullptr},
      {between, 2, 2, "links within a node"},
      {kMachine, 2, 2, nullptr},
      {none, 1, 1, nullptr},
  };
  for (const auto& c : cases)
    EXPECT_STREQ(lacks(c.profile, topology(c.nodes, c.ranks_of_node)), c.lacks)
        << c.nodes << " nodes of " << c.ranks_of_node;
}

// A machine that lacks nothing.
Profile random_profile(std::mt19937& random) {
  const auto power = [&](double least, double most) {
    return std::pow(10, std::uniform_real_distribution(least, most)(random));
  };
  return {.name = "random",
          .within = Link{power(-7, -4), power(8, 12)},
          .between = Link{power(-6, -3), power(7, 11)},
          .message = power(-8, -5),
          .launch = power(-7, -4),
          .overlap = std::uniform_real_distribution(0.0, 1.0)(random),
          .coding = {power(8, 12), power(8, 12)}};
}

// A call of any collective of all ranks, on nodes that are alike or not.
struct RandomCall {
  explicit RandomCall(std::mt19937& random) {
    const auto one_of = [&](int least, int most) {
      return std::uniform_int_distribution(least, most)(random);
    };
    collective = static_cast<Collective>(one_of(0, static_cast<int>(Collective::kScatter)));
    shape =
        model::shape(one_of(1, 4), one_of(2, 4),
                     plan::has_algorithm(collective, plan::Sharing::kSummed) && one_of(0, 1) == 1);
    if (one_of(0, 3) == 0) {
      std::vector<uint64_t> hosts;
      for (int rank = 0; rank < shape.ranks; ++rank)
        hosts.push_back(static_cast<uint64_t>(one_of(0, 2)));
      shape.topology = plan::topology_of(hosts);
    }
    shape.chunk_policy = plan::default_chunk_policy(true);
    shape.count = static_cast<size_t>(one_of(1, 1 << 12)) << one_of(0, 12);
  }

  // Natively, and by every algorithm for it.
  std::vector<double> all_seconds(const Profile& p, const Shape& s) const {
    std::vector<double> all{native_seconds(p, collective, s)};
    for (const Algorithm& a : plan::algorithms())
      if (plan::is_for(a, collective, s) && a.applies(s, *plan::find_algo(a.names.own)).applies)
        all.push_back(estimate(p, a, s, "int8").seconds);
    return all;
  }
  std::vector<double> all_seconds(const Profile& p) const { return all_seconds(p, shape); }

  Collective collective;
  Shape shape;
};

void expect_no_more(const std::vector<double>& less, const std::vector<double>& more,
                    const char* what) {
  ASSERT_EQ(less.size(), more.size());
  for (size_t i = 0; i < less.size(); ++i) EXPECT_LE(less[i], more[i] * (1 + 1e-9)) << what;
}

TEST(Predict, WhatIsFasterNeverMakesACallSlower) {
  std::mt19937 random(11);
  for (int trial = 0; trial < trials(500, 50); ++trial) {
    SCOPED_TRACE(trial);
    const Profile p = random_profile(random);
    const RandomCall call(random);
    const std::vector<double> before = call.all_seconds(p);
    for (const double seconds : before) EXPECT_GT(seconds, 0);
    const struct {
      const char* what;
      void (*better)(Profile&);
    } changes[] = {
        {"bandwidth within", [](Profile& q) { q.within->bandwidth *= 3; }},
        {"bandwidth between", [](Profile& q) { q.between->bandwidth *= 3; }},
        {"latency within", [](Profile& q) { q.within->latency /= 3; }},
        {"latency between", [](Profile& q) { q.between->latency /= 3; }},
        {"encode", [](Profile& q) { q.coding.encode *= 3; }},
        {"decode", [](Profile& q) { q.coding.decode *= 3; }},
        {"launch", [](Profile& q) { q.launch /= 3; }},
        {"message", [](Profile& q) { q.message /= 3; }},
        {"overlap", [](Profile& q) { q.overlap = 1; }},
    };
    for (const auto& change : changes) {
      Profile better = p;
      change.better(better);
      expect_no_more(call.all_seconds(better), before, change.what);
    }
  }
}

TEST(Predict, MoreBytesAreNeverFaster) {
  std::mt19937 random(12);
  for (int trial = 0; trial < trials(500, 50); ++trial) {
    SCOPED_TRACE(trial);
    const Profile p = random_profile(random);
    const RandomCall call(random);
    Shape larger = call.shape;
    larger.count += std::uniform_int_distribution<size_t>(1, call.shape.count)(random);
    expect_no_more(call.all_seconds(p), call.all_seconds(p, larger), "more bytes");
  }
}

TEST(Predict, TheFastestTakesTheLeast) {
  std::mt19937 random(13);
  for (int trial = 0; trial < trials(500, 50); ++trial) {
    const Profile p = random_profile(random);
    const RandomCall call(random);
    const std::vector<double> all = call.all_seconds(p);
    const Estimate best = fastest(p, call.collective, call.shape, "int8");
    EXPECT_EQ(best.seconds, *std::min_element(all.begin() + 1, all.end())) << trial;
    EXPECT_EQ(best.seconds, estimate(p, *best.algorithm, call.shape, "int8").seconds) << trial;
  }
}

}  // namespace
}  // namespace terse::model
