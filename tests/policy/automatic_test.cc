// auto: what it says, what it may take, and the error that it goes by.
#include "policy/automatic.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "error_of.h"
#include "policy/policy.h"

namespace terse {
namespace {

TEST(Automatic, PrintsWhatItMeans) {
  const struct {
    const char *text, *printed;
  } cases[] = {
      {"auto", "auto:bits=8,round=nearest"},
      {"auto:bits=8", "auto:bits=8,round=nearest"},
      {"auto:bits=2", "auto:bits=2,round=nearest"},
      {"auto:bits=16", "auto:bits=16,round=nearest"},
      {"auto:error=0.02", "auto:bits=2,error=0.02,round=nearest"},
      {"auto:error=1", "auto:bits=2,error=1,round=nearest"},
      {"auto:error=2e-5", "auto:bits=2,error=2e-05,round=nearest"},
      {"auto:bits=4,error=0.5", "auto:bits=4,error=0.5,round=nearest"},
      {"auto:own=exact", "auto:bits=8,round=nearest,own=exact"},
      {"auto:own=quantized", "auto:bits=8,round=nearest"},
      {"auto:seed=18446744073709551615,round=stochastic",
       "auto:bits=8,round=stochastic,seed=18446744073709551615"},
  };
  for (const auto& c : cases) {
    const Scheme scheme = parse_scheme(c.text);
    EXPECT_EQ(print_scheme(scheme), c.printed);
    EXPECT_EQ(parse_scheme(c.printed), scheme) << c.printed;
  }
}

TEST(Automatic, ReadsEveryKey) {
  const Scheme scheme = parse_scheme("auto:bits=5,error=0.25,round=stochastic,own=exact,seed=7");
  EXPECT_EQ(scheme.automatic, (Auto{5, 0.25, codec::Rounding::kStochastic, true}));
  EXPECT_EQ(scheme.seed, 7u);
  EXPECT_FALSE(scheme.off);
  EXPECT_FALSE(parse_scheme("int8").automatic);
}

TEST(Automatic, ErrorsNameWhatIsWrong) {
  const std::string share = "\", but must be above 0 and no more than 1, such as 0.02";
  const struct {
    const char* options;
    std::string error;
  } cases[] = {
      {"", "\"\" is not key=value"},
      {"bits=8,", "\"\" is not key=value"},
      {",", "\"\" is not key=value"},
      {"8", "\"8\" is not key=value"},
      {"block=8", "unknown key \"block\"; auto has bits, error, round, own and seed"},
      {"=8", "unknown key \"\"; auto has bits, error, round, own and seed"},
      {"bits=8,bits=8", "bits is given twice"},
      {"seed=1,error=1,seed=1", "seed is given twice"},
      {"bits=1", "bits is \"1\", but must be 2 to 16"},
      {"bits=17", "bits is \"17\", but must be 2 to 16"},
      {"bits=-2", "bits is \"-2\", but must be 2 to 16"},
      {"bits=4.5", "bits is \"4.5\", but must be 2 to 16"},
      {"bits=258", "bits is \"258\", but must be 2 to 16"},
      {"bits=", "bits is \"\", but must be 2 to 16"},
      {"error=0", "error is \"0" + share},
      {"error=1.01", "error is \"1.01" + share},
      {"error=-0.1", "error is \"-0.1" + share},
      {"error=nan", "error is \"nan" + share},
      {"error=inf", "error is \"inf" + share},
      {"error=1e-999", "error is \"1e-999" + share},
      {"error=2%", "error is \"2%" + share},
      {"error=", "error is \"" + share},
      {"round=shift", "round is \"shift\", but must be nearest or stochastic"},
      {"round=", "round is \"\", but must be nearest or stochastic"},
      {"own=yours", "own is \"yours\", but must be exact or quantized"},
      {"seed=x", "seed is \"x\", but must be a number below 2^64"},
      {"seed=18446744073709551616",
       "seed is \"18446744073709551616\", but must be a number below 2^64"},
  };
  for (const auto& c : cases) {
    const std::string text = std::string("auto:") + c.options;
    EXPECT_EQ(error_of([&] { parse_scheme(text); }), "scheme \"" + text + "\": " + c.error);
  }
}

// Those of most bits first, so that of equals they are taken.
std::string names(const char* text, int ranks) {
  std::string all;
  for (const Scheme& s : candidates(parse_scheme(text), ranks))
    all += (all.empty() ? "" : " ") + short_name(s);
  return all;
}

TEST(Automatic, TakesWhatIsNoWorseThanIntegersOfItsBits) {
  const struct {
    const char* text;
    int ranks;
    const char* names;
  } cases[] = {
      {"auto", 4, "bf16 linear16:round=nearest int8 minmax8"},
      {"auto:bits=7", 4, "bf16 linear16:round=nearest int8 minmax8 int7 minmax7"},
      {"auto:bits=9", 4, "bf16 linear16:round=nearest"},
      {"auto:bits=16", 4, "bf16 linear16:round=nearest"},
      {"auto:round=stochastic", 4,
       "bf16:round=stochastic linear16 int8:round=stochastic minmax8:round=stochastic"},
      // Of so many ranks hardly a step is left, of more none.
      {"auto", 2000, "bf16 int8 minmax8"},
      {"auto", 2184, "bf16 int8 minmax8"},
      {"auto", 2185, "bf16 int8 minmax8"},
      {"auto:error=1,bits=16", 2184, "bf16 linear16:round=nearest"},
      {"auto:error=1,bits=16", 2185, "bf16"},
  };
  for (const auto& c : cases) EXPECT_EQ(names(c.text, c.ranks), c.names) << c.text << c.ranks;
}

TEST(Automatic, TakesWhatIsWithinAnError) {
  const struct {
    const char* text;
    int ranks;
    const char* names;
  } cases[] = {
      {"auto:error=0.02", 4, "bf16 linear16:round=nearest int8 minmax8 int7 minmax7"},
      {"auto:error=0.001", 4, "linear16:round=nearest"},
      {"auto:error=1e-9", 4, ""},
      // The grid of eight bits gets coarser by the ranks; of 9 it would be that of sixteen.
      {"auto:error=0.05", 2,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 mxfp8 linear8:round=nearest int7 minmax7 "
       "int6 minmax6 mxfp6 minmax5"},
      {"auto:error=0.05", 4,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 mxfp8 linear8:round=nearest int7 minmax7 "
       "int6 minmax6 mxfp6 minmax5"},
      {"auto:error=0.05", 8,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 mxfp8 int7 minmax7 int6 minmax6 mxfp6 "
       "minmax5"},
      {"auto:error=0.08,bits=8", 8,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 fp8e5m2 mxfp8 linear8:round=nearest"},
      {"auto:error=0.08,bits=8", 9,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 fp8e5m2 mxfp8"},
      {"auto:error=0.05,bits=7", 4,
       "bf16 linear16:round=nearest int8 minmax8 fp8e4m3 mxfp8 linear8:round=nearest int7 minmax7"},
      {"auto:error=0.05,round=stochastic", 2,
       "bf16:round=stochastic linear16 int8:round=stochastic minmax8:round=stochastic "
       "fp8e4m3:round=stochastic mxfp8:round=stochastic linear8 int7:round=stochastic "
       "minmax7:round=stochastic int6:round=stochastic minmax6:round=stochastic "
       "mxfp6:round=stochastic"},
  };
  for (const auto& c : cases) EXPECT_EQ(names(c.text, c.ranks), c.names) << c.text << c.ranks;
}

TEST(Automatic, NeverTakesWhatItsErrorDoesNotTellAllOf) {
  for (const int ranks : {1, 4, 64}) {
    const std::string all = names("auto:error=1,bits=2", ranks);
    for (const char* never : {"fp16", "exp8", "learned", "fit=mse", "hadamard"})
      EXPECT_EQ(all.find(never), std::string::npos) << never << " in " << all;
    for (const char* always : {"int2", "minmax3", "mxfp4", "nvfp4", "mxfp6", "fp8e5m2", "bf16"})
      EXPECT_NE(all.find(always), std::string::npos) << always << " not in " << all;
  }
}

TEST(Automatic, WhatItTakesHasItsRoundingItsSeedAndTheRanks) {
  for (const int ranks : {2, 8, 100})
    for (const Scheme& s :
         candidates(parse_scheme("auto:error=1,round=stochastic,own=exact,seed=3"), ranks)) {
      EXPECT_EQ(s.delta.own_exact, sharing_of(s.spec) == plan::Sharing::kNone);
      EXPECT_EQ(parse_scheme(print_scheme(s)).delta, s.delta);
      EXPECT_EQ(s.seed, 3u);
      EXPECT_FALSE(s.automatic);
      EXPECT_EQ(s.spec.rounding, codec::Rounding::kStochastic);
      EXPECT_EQ(on_ranks(s, ranks), s) << print_scheme(s);
      EXPECT_EQ(on_ranks(parse_scheme(print_scheme(s)), ranks), s) << print_scheme(s);
      EXPECT_LE(gaussian_error(s.spec), 1);
    }
}

TEST(Automatic, NamesAreThoseOfTheCodecWithItsUsualRounding) {
  for (const char* name : {"int4", "bf16", "linear8:round=nearest", "int4:round=stochastic"})
    EXPECT_EQ(short_name(parse_scheme(name)), name);
  EXPECT_EQ(short_name(parse_scheme("int4:seed=5")), "int4");
}

double error_of_one(const char* text, int ranks = 1) {
  return gaussian_error(on_ranks(parse_scheme(text), ranks)->spec);
}

TEST(GaussianError, IsAsKnown) {
  const struct {
    const char* text;
    double error;
  } cases[] = {{"int4:block=128", 0.1175}, {"int8", 0.0065}, {"bf16", 0.00168}};
  for (const auto& c : cases) EXPECT_NEAR(error_of_one(c.text), c.error, 0.03 * c.error) << c.text;
}

// A bit halves the step; rounding at random has twice the mean square.
TEST(GaussianError, FollowsTheStep) {
  for (const char* bits : {"6", "7"}) {
    const double own = error_of_one(fmt::format("int{}", bits).c_str());
    EXPECT_NEAR(error_of_one(fmt::format("int{}:round=stochastic", bits).c_str()),
                own * std::sqrt(2.0), 0.03 * own);
  }
  EXPECT_NEAR(error_of_one("int7") / error_of_one("int8"), 127.0 / 63, 0.05);
}

// Numbers by which so many ranks round: in pairs, the last three together if they are odd in
// number.
std::vector<double> shared_draws(int ranks, std::mt19937& random) {
  std::uniform_real_distribution<double> draw;
  std::vector<double> u;
  while (static_cast<int>(u.size()) < ranks) {
    const int left = ranks - static_cast<int>(u.size());
    const double own = draw(random);
    u.push_back(own);
    if (left == 3)
      u.insert(u.end(), {std::fmod(2 - 2 * own, 1), std::fmod(own + 0.5, 1)});
    else if (left > 1)
      u.push_back(1 - own);
  }
  return u;
}

// Sums of blocks of all ranks' data, on the grid of the largest of it.
double simulated(int bits, int block, int ranks, bool nearest) {
  constexpr int kBlocks = 400;
  std::mt19937 random(static_cast<unsigned>(ranks));
  std::normal_distribution<double> bell;
  const double levels = std::floor(((1 << (bits - 1)) - 1) / static_cast<double>(ranks));
  double error = 0, norm = 0;
  for (int trial = 0; trial < kBlocks; ++trial) {
    std::vector<double> all(static_cast<size_t>(block * ranks));
    double absmax = 0;
    for (double& x : all) absmax = std::max(absmax, std::abs(x = bell(random)));
    const double step = absmax / levels;
    for (size_t i = 0; i < static_cast<size_t>(block); ++i) {
      const std::vector<double> u = shared_draws(ranks, random);
      double got = 0, exact = 0;
      for (size_t r = 0; r < u.size(); ++r) {
        const double x = all[r * static_cast<size_t>(block) + i];
        got += step * std::floor(x / step + (nearest ? 0.5 : u[r]));
        exact += x;
      }
      error += (got - exact) * (got - exact);
      norm += exact * exact;
    }
  }
  return std::sqrt(error / norm);
}

TEST(GaussianError, OfIntegersIsThatOfASimulation) {
  for (const int bits : {4, 6, 8})
    for (const bool nearest : {true, false}) {
      const double wanted = simulated(bits, 128, 1, nearest);
      const std::string text =
          fmt::format("int{}:round={}", bits, nearest ? "nearest" : "stochastic");
      EXPECT_NEAR(error_of_one(text.c_str()), wanted, 0.03 * wanted) << text;
    }
}

TEST(GaussianError, OfASharedGridIsThatOfASimulation) {
  for (const int ranks : {1, 2, 5, 8})
    for (const bool nearest : {true, false}) {
      const double wanted = simulated(8, 256, ranks, nearest);
      const char* text = nearest ? "linear8:round=nearest" : "linear8:round=stochastic";
      EXPECT_NEAR(error_of_one(text, ranks), wanted, 0.03 * wanted) << text << " of " << ranks;
    }
  const double wanted = simulated(16, 256, 64, true);
  EXPECT_NEAR(error_of_one("linear16:round=nearest", 64), wanted, 0.03 * wanted);
}

Policy policy(std::string_view text) { return parse_policy_line(text, 65536); }

TEST(AutomaticRules, PrintAndParseBack) {
  for (const char* text :
       {"auto", "allreduce bytes=1M.. -> auto:error=0.01; int8", "nodes=2.. -> auto:seed=3",
        "alltoall,broadcast -> auto:bits=4,round=stochastic"}) {
    const Policy once = policy(text);
    EXPECT_EQ(policy(once.print()).rules, once.rules) << once.print();
  }
  EXPECT_EQ(policy("auto").print(), "shard=64K.. -> auto:bits=8,round=nearest");
  EXPECT_EQ(parse_policy_file("[[rule]]\nscheme = \"auto:bits=4\"\n", "p.toml", 65536).print(),
            policy("auto:bits=4").print());
}

TEST(AutomaticRules, MessagesBetweenTwoRanksAreRefused) {
  const char* refusal = "auto is for collectives of all ranks, not for sendrecv";
  EXPECT_EQ(error_of([] { policy("sendrecv -> auto"); }), std::string("column 13: ") + refusal);
  EXPECT_EQ(error_of([] { policy("int8; allreduce,sendrecv -> auto:bits=4"); }),
            std::string("column 29: ") + refusal);
  EXPECT_EQ(policy("sendrecv -> int8; auto").rules.size(), 2u);
}

// A prediction depends on the nodes, which only ranks that have met know.
TEST(AutomaticRules, AskHowManyNodesThereAre) {
  const struct {
    const char* text;
    bool chooses, asks;
  } cases[] = {
      {"auto", true, true},   {"int8; allgather -> auto", true, true},
      {"int8", false, false}, {"nodes=2.. -> int8", false, true},
      {"off", false, false},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(policy(c.text).chooses(), c.chooses) << c.text;
    EXPECT_EQ(policy(c.text).asks_nodes(), c.asks) << c.text;
  }
}

}  // namespace
}  // namespace terse
