#include "policy/scheme.h"

#include <gtest/gtest.h>

#include <random>

#include "error_of.h"

namespace terse {
namespace {

std::string error_of(std::string_view text) {
  return terse::error_of([&] { parse_scheme(text); });
}

TEST(Scheme, ErrorsQuoteNoMoreThanTheBeginningOfWhatIsLong) {
  const std::string x(10'000'000, 'x'),
      quoted = "\"" + x.substr(0, 100) + "... (10000000 characters)\"";
  EXPECT_EQ(error_of(x).find("scheme " + quoted + ": unknown codec " + quoted), 0u)
      << error_of(x).substr(0, 500);
  EXPECT_LT(error_of("int8:" + x).size(), 1000u);
  EXPECT_LT(error_of("int8:" + x + "=1").size(), 1000u);
  EXPECT_LT(error_of("int8:block=" + x).size(), 5000u);
}

TEST(Scheme, BareNamesMeanBlock128Nearest) {
  const Scheme s = parse_scheme("int4");
  EXPECT_FALSE(s.off);
  EXPECT_EQ(s.spec,
            (codec::Spec{codec::Symmetric::kDescriptor.id, codec::Rounding::kNearest, 4, 128}));
  EXPECT_EQ(s.algorithm, plan::Algo{});
  EXPECT_FALSE(s.seed);
  EXPECT_EQ(parse_scheme("minmax8").spec.codec, codec::MinMax::kDescriptor.id);
  EXPECT_TRUE(parse_scheme("off").off);
}

TEST(Scheme, EveryCodecHasANameAndWhatIsUsual) {
  for (const std::string& name : codec_names()) {
    const Scheme s = parse_scheme(name);
    const codec::Descriptor& d = codec::descriptor(s.spec.codec);
    EXPECT_TRUE(codec::valid(s.spec)) << name;
    EXPECT_EQ(s.spec.block, d.default_block) << name;
    EXPECT_EQ(s.spec.scale, d.default_scale) << name;
    EXPECT_EQ(s.spec.rounding, d.default_rounding) << name;
    EXPECT_EQ(print_scheme(s).substr(0, name.size() + 1), name + ":");
    EXPECT_EQ(parse_scheme(print_scheme(s)), s) << print_scheme(s);
  }
  EXPECT_EQ(print_scheme(parse_scheme("bf16")), "bf16:round=nearest");
  EXPECT_EQ(print_scheme(parse_scheme("mxfp4:round=stochastic,block=32")),
            "mxfp4:round=stochastic");
  EXPECT_EQ(print_scheme(parse_scheme("linear8")), "linear8:block=256,round=stochastic");
  EXPECT_EQ(print_scheme(parse_scheme("linear16:round=nearest,scale=bf16")),
            "linear16:block=256,round=nearest,scale=bf16");
  EXPECT_EQ(print_scheme(parse_scheme("exp8")), "exp8:block=256,round=stochastic");
  EXPECT_EQ(print_scheme(parse_scheme("exp8:block=4096,round=nearest,scale=bf16")),
            "exp8:block=4096,round=nearest,scale=bf16");
  EXPECT_EQ(print_scheme(parse_scheme("learned4")), "learned4:block=128,round=nearest");
  EXPECT_EQ(print_scheme(parse_scheme("int4:hadamard=32,scale=bf16,block=64")),
            "int4:block=64,round=nearest,scale=bf16,hadamard=32");
}

// Two codecs of one name.
TEST(Scheme, TheFitTellsIntegersApart) {
  const Scheme fitted = parse_scheme("int4:fit=mse,block=64,scale=bf16");
  EXPECT_EQ(fitted.spec.codec, codec::Fitted::kDescriptor.id);
  EXPECT_EQ(print_scheme(fitted), "int4:block=64,round=nearest,scale=bf16,fit=mse");
  EXPECT_EQ(parse_scheme(print_scheme(fitted)), fitted);
  EXPECT_EQ(parse_scheme("int4:fit=absmax"), parse_scheme("int4"));
  EXPECT_EQ(parse_scheme("int3:hadamard=32,fit=mse").spec.hadamard, 32);
}

TEST(Scheme, ReadsEveryKey) {
  const Scheme s =
      parse_scheme("minmax3:block=1024,round=shift,seed=18446744073709551615,algo=oneshot");
  EXPECT_EQ(s.spec, (codec::Spec{codec::MinMax::kDescriptor.id, codec::Rounding::kShift, 3, 1024}));
  EXPECT_EQ(s.seed, UINT64_MAX);
  EXPECT_EQ(plan::name(s.algorithm), "oneshot");
}

// What goes within a node is of another codec, with the same keys less those that it lacks.
TEST(Scheme, IntraSharesTheOtherKeys) {
  const auto intra = [](const char* text) { return parse_scheme(text).intra; };
  EXPECT_EQ(intra("int4"), Intra{});
  EXPECT_EQ(intra("int4:intra=int4"), Intra{});
  EXPECT_EQ(intra("int4:intra=off"), Intra{.off = true});
  const struct {
    const char *text, *within;
  } cases[] = {
      {"int4:intra=int8", "int8"},
      {"int4:block=64,round=stochastic,intra=int8", "int8:block=64,round=stochastic"},
      {"int4:scale=bf16,block=64,intra=int6", "int6:scale=bf16,block=64"},
      {"int4:scale=bf16,block=64,intra=minmax8", "minmax8:block=64"},
      {"int4:hadamard=32,intra=int8", "int8"},
      {"int4:hadamard=32,intra=int3", "int3:hadamard=32"},
      {"int4:block=512,intra=mxfp8", "mxfp8"},
      {"int4:block=512,intra=bf16", "bf16"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(intra(c.text), Intra{.spec = parse_scheme(c.within).spec}) << c.text;
    const Scheme s = parse_scheme(c.text);
    EXPECT_EQ(parse_scheme(print_scheme(s)), s) << print_scheme(s);
  }
  EXPECT_EQ(print_scheme(parse_scheme("int4:intra=int8,round=stochastic")),
            "int4:block=128,round=stochastic,intra=int8");
}

// A sum on its way to all ranks has a codec, a rounding or both of its own.
TEST(Scheme, SecondSharesTheOtherKeys) {
  const auto second = [](const char* text) { return parse_scheme(text).second; };
  EXPECT_EQ(second("int4"), std::nullopt);
  EXPECT_EQ(second("int4:second=int4"), std::nullopt);
  EXPECT_EQ(second("int4:round=stochastic,second-round=stochastic"), std::nullopt);
  const struct {
    const char *text, *of_sums;
  } cases[] = {
      {"int4:second=int5", "int5"},
      {"int4:block=64,round=stochastic,second=int5", "int5:block=64,round=stochastic"},
      {"int4:round=stochastic,second-round=nearest", "int4:round=nearest"},
      {"int4:round=stochastic,second=int5,second-round=nearest", "int5:round=nearest"},
      {"int4:second-round=stochastic", "int4:round=stochastic"},
      {"int4:hadamard=32,second=int8", "int8"},
      {"int4:hadamard=32,intra=int8,second=int3", "int3:hadamard=32"},
      {"minmax4:round=shift,second=int8,second-round=nearest", "int8"},
      {"int4:block=512,second=mxfp8", "mxfp8"},
      {"int4:second=bf16", "bf16"},
  };
  for (const auto& c : cases) {
    EXPECT_EQ(second(c.text), parse_scheme(c.of_sums).spec) << c.text;
    const Scheme s = parse_scheme(c.text);
    EXPECT_EQ(parse_scheme(print_scheme(s)), s) << print_scheme(s);
  }
  EXPECT_EQ(print_scheme(parse_scheme("int4:second-round=nearest,round=stochastic,second=int5")),
            "int4:block=128,round=stochastic,second=int5,second-round=nearest");
}

TEST(Scheme, LearnNamesCalls) {
  const Scheme usual = parse_scheme("learned4");
  EXPECT_EQ(parse_scheme("learned4:learn=1+100+1000+10000"), usual);
  for (const uint64_t call : {1, 100, 1000, 10000}) EXPECT_TRUE(usual.learn.at(call)) << call;
  for (const uint64_t call : {0, 2, 99, 101, 10001}) EXPECT_FALSE(usual.learn.at(call)) << call;
  for (const char* learn : {"never", "1", "2+3", "7+4294967296", "1+2+3+4+5+6+7+8"}) {
    const std::string text = fmt::format("learned2:block=64,round=stochastic,learn={}", learn);
    const Scheme s = parse_scheme(text);
    EXPECT_NE(s, parse_scheme("learned2:block=64,round=stochastic"));
    EXPECT_EQ(print_scheme(s), text);
  }
  EXPECT_EQ(print_scheme(parse_scheme("learned8:seed=3,learn=5,intra=int8,algo=direct")),
            "learned8:block=128,round=nearest,intra=int8,learn=5,seed=3,algo=direct");
  EXPECT_FALSE(parse_scheme("learned2:learn=never").learn.at(0));
  const Scheme last = parse_scheme("learned2:learn=1+2+3+4+5+6+7+8");
  EXPECT_TRUE(last.learn.at(8));
  EXPECT_FALSE(last.learn.at(0));
}

// Whatever the table of algorithms names.
TEST(Scheme, AlgoIsANameOfTheTable) {
  EXPECT_EQ(parse_scheme("int4:algo=auto"), parse_scheme("int4"));
  constexpr const char* kSchemes[] = {"int4", "linear8", "exp8"};  // by plan::Sharing
  for (const plan::Algorithm& a : plan::algorithms())
    for (const std::string_view name : {a.names.own, a.names.also}) {
      if (name.empty()) continue;
      const std::string text = fmt::format("{}:block=128,round=nearest,algo={}",
                                           kSchemes[static_cast<size_t>(a.sharing)], name);
      const Scheme s = parse_scheme(text);
      EXPECT_TRUE(a.answers_to(s.algorithm)) << text;
      EXPECT_EQ(print_scheme(s), text);
    }
}

TEST(Scheme, EveryAcceptedSchemePrintsToATextThatParsesBack) {
  for (const char* family : {"int", "minmax"})
    for (int bits = 2; bits <= 8; ++bits)
      for (int block = 32; block <= 4096; block += 32)
        for (const char* rest :
             {"", ",round=stochastic", ",round=nearest,seed=7", ",algo=twoshot"}) {
          const std::string text = fmt::format("{}{}:block={}{}", family, bits, block, rest);
          const Scheme s = parse_scheme(text);
          EXPECT_EQ(s.spec.bits, bits);
          EXPECT_EQ(s.spec.block, block);
          EXPECT_EQ(parse_scheme(print_scheme(s)), s) << text;
          EXPECT_LT(print_scheme(s).size(), 256u);
        }
  EXPECT_EQ(print_scheme(parse_scheme("off")), "off");
}

// Ranks compare schemes by their texts.
TEST(Scheme, OptionsInAnyCombinationPrintToATextThatParsesBack) {
  constexpr const char* kOptions[] = {"block=32",
                                      "block=128",
                                      "block=4096",
                                      "round=nearest",
                                      "round=stochastic",
                                      "round=shift",
                                      "scale=fp32",
                                      "scale=bf16",
                                      "fit=mse",
                                      "hadamard=32",
                                      "hadamard=0",
                                      "intra=int8",
                                      "intra=off",
                                      "intra=mxfp8",
                                      "intra=nvfp4",
                                      "intra=minmax8",
                                      "intra=bf16",
                                      "delta=inplace",
                                      "delta=shadow",
                                      "delta=off",
                                      "every=7",
                                      "own=exact",
                                      "own=quantized",
                                      "learn=never",
                                      "learn=1+5",
                                      "seed=3",
                                      "algo=twoshot",
                                      "algo=direct",
                                      "bits=4",
                                      "error=0.02",
                                      "second=int5",
                                      "second=bf16",
                                      "second=mxfp4",
                                      "second-round=nearest",
                                      "second-round=stochastic"};
  std::vector<std::string> names = codec_names();
  names.emplace_back("auto");
  std::mt19937 random(1);
  size_t accepted = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string text = names[random() % names.size()];
    const size_t options = random() % 5;
    for (size_t k = 0; k < options; ++k)
      text += (k == 0 ? ":" : ",") + std::string(kOptions[random() % std::size(kOptions)]);
    if (error_of(text) != "accepted") continue;
    ++accepted;
    const Scheme s = parse_scheme(text);
    ASSERT_EQ(parse_scheme(print_scheme(s)), s) << text << " is " << print_scheme(s);
  }
  EXPECT_GT(accepted, 10'000u);
}

TEST(Scheme, OfTheOwnShard) {
  const Scheme exact = parse_scheme("int4:own=exact");
  EXPECT_TRUE(exact.delta.own_exact);
  EXPECT_NE(exact, parse_scheme("int4"));
  EXPECT_EQ(print_scheme(exact), "int4:block=128,round=nearest,own=exact");
  EXPECT_EQ(parse_scheme(print_scheme(exact)), exact);
  EXPECT_EQ(parse_scheme("int4:own=quantized"), parse_scheme("int4"));
}

// Sums between groups of nodes have 8 bits of the scheme's family, unless it has as many.
TEST(Scheme, OfSumsBetweenGroups) {
  const auto outer = [](const char* text) {
    Scheme scheme;
    scheme.spec = outer_of(parse_scheme(text).forms());
    return print_scheme(scheme);
  };
  EXPECT_EQ(outer("int4"), "int8:block=128,round=nearest");
  EXPECT_EQ(outer("int4:block=64,round=stochastic,scale=bf16,hadamard=32"),
            "int8:block=64,round=stochastic,scale=bf16");
  EXPECT_EQ(outer("int4:fit=mse"), "int8:block=128,round=nearest");
  EXPECT_EQ(outer("minmax4:block=1024,round=shift"), "minmax8:block=1024,round=shift");
  EXPECT_EQ(outer("learned4:block=1024"), "minmax8:block=1024,round=nearest");
  EXPECT_EQ(outer("mxfp4:round=stochastic"), "mxfp8:round=stochastic");
  EXPECT_EQ(outer("nvfp4"), "int8:block=128,round=nearest");
  for (const char* own : {"int8", "fp8e5m2", "bf16", "minmax8:round=shift", "mxfp8"})
    EXPECT_EQ(outer(own), print_scheme(parse_scheme(own)));

  const Scheme named = parse_scheme("int4:outer=int6");
  EXPECT_EQ(print_scheme(named), "int4:block=128,round=nearest,outer=int6");
  EXPECT_EQ(parse_scheme(print_scheme(named)), named);
  EXPECT_EQ(parse_scheme("int4:outer=int8"), parse_scheme("int4"));
  EXPECT_EQ(outer("int8:outer=fp8e4m3"), "fp8e4m3:block=128,round=nearest");
}

TEST(Scheme, OfDifferences) {
  EXPECT_FALSE(parse_scheme("int4").delta);
  EXPECT_EQ(parse_scheme("int4:delta=off"), parse_scheme("int4"));
  const Scheme usual = parse_scheme("int4:block=2048,delta=inplace");
  EXPECT_EQ(usual.delta, (Differences{.base = plan::Base::kInplace, .own_exact = false}));
  EXPECT_EQ(print_scheme(usual), "int4:block=2048,round=nearest,delta=inplace");
  EXPECT_EQ(parse_scheme("int4:block=2048,delta=inplace,own=quantized,every=0"), usual);
  const Scheme whole = parse_scheme(
      "int8:own=exact,every=4294967295,delta=shadow,seed=18446744073709551615,scale=bf16,"
      "round=stochastic,block=4096,algo=hierarchical");
  EXPECT_EQ(whole.delta,
            (Differences{.base = plan::Base::kShadow, .own_exact = true, .every = 4294967295}));
  EXPECT_EQ(print_scheme(whole),
            "int8:block=4096,round=stochastic,scale=bf16,delta=shadow,every=4294967295,"
            "own=exact,seed=18446744073709551615,algo=hierarchical");
  EXPECT_EQ(parse_scheme(print_scheme(whole)), whole);
  EXPECT_LT(print_scheme(whole).size(), 256u);
}

TEST(Scheme, WhenToLearnIsAListWithCommasToo) {
  EXPECT_EQ(parse_scheme("learned4:learn=1,50,600,block=64"),
            parse_scheme("learned4:block=64,learn=1+50+600"));
  EXPECT_EQ(parse_scheme("learned4:learn=100,1000"), parse_scheme("learned4:learn=100+1000"));
  EXPECT_EQ(print_scheme(parse_scheme("learned4:learn=7,8")),
            "learned4:block=128,round=nearest,learn=7+8");
}

// As terse.h promises.
TEST(Scheme, NoCanonicalTextIsLongerThan255) {
  const std::string text = print_scheme(
      parse_scheme("learned8:block=4096,round=stochastic,intra=minmax8,learn="
                   "4294967289+4294967290+4294967291+4294967292+4294967293+4294967294+"
                   "4294967295+4294967296,seed=18446744073709551615,algo=hierarchical"));
  EXPECT_EQ(text.size(), 188u) << text;
}

TEST(Scheme, RefusalsNameTheOffendingPart) {
  const struct {
    const char* text;
    const char* part;
  } cases[] = {
      {"", "unknown codec \"\""},
      {"int", "unknown codec \"int\""},
      {"int04", "unknown codec \"int04\""},
      {"int4x", "unknown codec \"int4x\""},
      {"Int4", "unknown codec \"Int4\""},
      {"int1", "1 bits are not offered"},
      {"int9", "9 bits are not offered"},
      {"int-4", "unknown codec \"int-4\""},
      {"minmax99999999999999999999", "unknown codec"},
      {"off:block=32", "off takes no options"},
      {"int4:", "\"\" is not key=value"},
      {"int4:block", "\"block\" is not key=value"},
      {"int4:block=", "block is \"\""},
      {"int4:block=0", "block is \"0\""},
      {"int4:block=100", "block is \"100\""},
      {"int4:block=4128", "block is \"4128\""},
      {"int4:block=65664", "block is \"65664\""},
      {"int4:block=128,block=128", "block is given twice"},
      {"int4:block=128,", "\"\" is not key=value"},
      {"int4:blocks=128", "unknown key \"blocks\""},
      {"int4: block=128", "unknown key \" block\""},
      {"int4:round=up", "round is \"up\""},
      {"int4:round=shift", "round=shift is for minmax"},
      {"minmax4:seed=-1", "seed is \"-1\""},
      {"minmax4:seed=18446744073709551616", "seed is"},
      {"mxfp4:block=128", "mxfp4 has blocks of 32"},
      {"nvfp4:block=128", "nvfp4 has blocks of 4096"},
      {"nvfp4:scale=bf16", "nvfp4 has no scale=bf16, only fp32"},
      {"nvfp4:round=shift", "round=shift is for minmax codecs"},
      {"nvfp4:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"nvfp8", "unknown codec \"nvfp8\""},
      {"bf16:block=64", "bf16 has no blocks"},
      {"bf16:hadamard=32", "hadamard does nothing for bf16"},
      {"int8:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"minmax4:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"fp16:scale=fp32", "fp16 has no scale"},
      {"fp16:round=shift", "round=shift is for minmax codecs"},
      {"mxfp8:scale=fp32", "mxfp8 has no scale=fp32, only e8m0"},
      {"minmax4:scale=bf16", "minmax has no scale=bf16, only fp32"},
      {"int4:scale=fp8", "scale is \"fp8\", but must be fp32, bf16 or e8m0"},
      {"int4:hadamard=64", "hadamard is \"64\", but must be 0 or 32"},
      {"minmax4:fit=mse", "minmax has no fit=mse"},
      {"int4:fit=mse,round=stochastic", "only round=nearest, or fit=absmax"},
      {"int4:fit=mse,round=shift", "round=shift is for minmax codecs"},
      {"int4:fit=mse,scale=e8m0", "int with fit=mse has no scale=e8m0, only fp32 or bf16"},
      {"int8:fit=mse,hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"int4:fit=best", "fit is \"best\", but must be absmax or mse"},
      {"fp8", "unknown codec \"fp8\""},
      {"bf160", "unknown codec \"bf160\""},
      {"int4:algo=star",
       "algo is \"star\", but must be auto, multilevel, hierarchical, oneshot, twoshot, direct, "
       "shared, summed or merged"},
      {"int4:outer=int99", "99 bits are not offered"},
      {"int4:outer=learned4", "outer is not for learned: the ranks hold levels"},
      {"linear8:outer=int8", "outer is not for linear8: all ranks have one grid"},
      {"int4:delta=inplace,outer=int8", "outer is not for differences"},
      {"int4:intra=int99", "99 bits are not offered"},
      {"int4:intra=", "unknown codec \"\""},
      {"int4:intra=off:block=32", "unknown codec \"off:block=32\""},
      {"minmax4:round=shift,intra=int8", "round=shift is for minmax"},
      {"linear8:intra=off", "intra is not for linear8: all ranks have one grid"},
      {"linear8:intra=int8", "intra is not for linear8"},
      {"int4:intra=linear8", "intra is not for linear8"},
      {"exp8:intra=int8", "intra is not for exp8"},
      {"int4:second=int99", "99 bits are not offered"},
      {"int4:second=off", "unknown codec \"off\""},
      {"int4:second-round=up", "second-round is \"up\", but must be nearest, stochastic or shift"},
      {"minmax4:round=shift,second=int8", "round=shift is for minmax"},
      {"int4:second-round=shift", "round=shift is for minmax"},
      {"linear8:second=int8", "second is not for linear8: all ranks have one grid, and a sum its"},
      {"exp8:second-round=nearest", "second is not for exp8"},
      {"int4:second=linear8", "second is not for linear8"},
      {"int4:second=learned4",
       "second is not for learned: the ranks hold levels of what they send"},
      {"learned4:second-round=nearest", "second is not for learned"},
      {"int4:intra=exp8", "intra is not for exp8"},
      {"linear8:algo=twoshot", "linear8 has no algo=twoshot: NCCL itself sums its codes"},
      {"linear8:algo=merged", "linear8 has no algo=merged: NCCL itself sums its codes"},
      {"int8:algo=summed", "int has no algo=summed: each rank has a grid of its own"},
      {"int8:algo=merged", "int has no algo=merged: each rank has a grid of its own"},
      {"exp8:algo=summed", "exp8 has no algo=summed: its codes are merged by the owners of shards"},
      {"exp8:round=shift", "round=shift is for minmax codecs"},
      {"exp8:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"exp4", "unknown codec \"exp4\""},
      {"linear8:round=shift", "round=shift is for minmax codecs"},
      {"linear8:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"linear4", "unknown codec \"linear4\""},
      {"int4:delta=yes", "delta is \"yes\", but must be off, inplace or shadow"},
      {"int4:every=3", "every is for delta=inplace or shadow"},
      {"linear8:own=exact", "own is for AllGather, and linear8 is for sums alone"},
      {"int4:delta=shadow,own=mine", "own is \"mine\", but must be exact or quantized"},
      {"int4:delta=shadow,every=4294967296",
       "every is \"4294967296\", but must be a number of calls, below 2^32"},
      {"bf16:delta=inplace", "delta is for formats with parameters of a rank's own, not for bf16"},
      {"linear8:delta=inplace",
       "delta is for formats with parameters of a rank's own, not for linear8"},
      {"learned4:delta=inplace",
       "delta is not for learned, whose levels are those of what is sent"},
      {"int4:delta=inplace,hadamard=32", "hadamard is not for differences"},
      {"int2:delta=shadow,round=stochastic", "round=stochastic is not for differences in int2"},
      {"int4:delta=inplace,intra=int8", "intra is not for differences"},
      {"int4:delta=inplace,second=int8", "second is not for differences, which are not summed"},
      {"int4:delta=inplace,second-round=stochastic", "second is not for differences"},
      {"learned", "unknown codec \"learned\""},
      {"learned9", "9 bits are not offered, only 2 to 8"},
      {"learned4:scale=bf16", "learned has no scale=bf16, only fp32"},
      {"learned4:round=shift", "round=shift is for minmax codecs"},
      {"learned4:hadamard=32", "hadamard is for int2 to int4 and mxfp4"},
      {"learned4:algo=summed", "learned has no algo=summed: each rank has a grid of its own"},
      {"learned4:intra=learned4", "intra is not for learned: the ranks hold levels of what goes"},
      {"learned4:intra=learned2", "intra is not for learned: the ranks hold levels of what goes"},
      {"int4:intra=learned2", "intra is not for learned: the ranks hold levels of what goes"},
      {"int4:learn=1", "learn is for learned codecs"},
      {"exp8:learn=never", "learn is for learned codecs"},
      {"learned4:learn=", "learn is \"\", but must be never or up to 8 numbers of calls, each"},
      {"learned4:learn=0", "learn is \"0\""},
      {"learned4:learn=1+0", "learn is \"1+0\""},
      {"learned4:learn=1+1", "learn is \"1+1\""},
      {"learned4:learn=2+1", "learn is \"2+1\""},
      {"learned4:learn=1+", "learn is \"1+\""},
      {"learned4:learn=+1", "learn is \"+1\""},
      {"learned4:learn=1++2", "learn is \"1++2\""},
      {"learned4:learn=1,2,", "\"\" is not key=value"},
      {"learned4:learn=1,two", "\"two\" is not key=value"},
      {"learned4:learn=2,1", "learn is \"2,1\""},
      {"learned4:block=64,128", "\"128\" is not key=value"},
      {"learned4:learn=often", "learn is \"often\""},
      {"learned4:learn=4294967297", "learn is \"4294967297\""},
      {"learned4:learn=1+2+3+4+5+6+7+8+9", "learn is \"1+2+3+4+5+6+7+8+9\""},
      {"int4:algo=", "algo is \"\""},
  };
  for (const auto& c : cases) {
    const std::string error = error_of(c.text);
    EXPECT_NE(error.find(c.part), std::string::npos) << c.text << " gave: " << error;
    EXPECT_NE(error.find(fmt::format("scheme \"{}\"", c.text)), std::string::npos) << error;
  }
}

}  // namespace
}  // namespace terse
