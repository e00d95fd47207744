// Native collectives as steps of a plan.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <bit>

#include "native_model.h"
#include "plan/builder.h"
#include "plan/native_traffic.h"
#include "simulator.h"

namespace terse::plan {
namespace {

// AllReduce in which NCCL sums up what is packed, as integers.
Plan integer_sum(const Shape& s) {
  const Chunks chunks(s, s.count, 1, s.count, 1);
  Builder b(Collective::kAllReduce, "integer sum", s);
  std::vector<size_t> done(chunks.count(), kNone);
  for (size_t c = 0; c < chunks.count(); ++c) {
    const Range r = chunks.range(0, c);
    const Place packed = chunks.place(c, 0, 0);
    Step encode{.name = "encode", .lane = Lane::kEncode};
    if (chunks.before(c) != kNone) encode.after = {done[chunks.before(c)]};
    b.push(encode.compute, {.inputs = {{b.raw(Region::kSend, r.first), Format::kRaw}},
                            .target = packed,
                            .count = r.count,
                            .origin = r.first});
    Step sum{.name = "sum", .lane = Lane::kCommunicate, .after = {b.add(std::move(encode))}};
    sum.natives = {{.collective = Collective::kAllReduce,
                    .send = packed,
                    .recv = packed,
                    .count = r.count,
                    .element = Element::kUint32,
                    .operation = Operation::kSum}};
    Step decode{.name = "decode", .lane = Lane::kDecode, .after = {b.add(std::move(sum))}};
    b.push(decode.compute, {.inputs = {{packed}},
                            .target = b.raw(Region::kRecv, r.first),
                            .target_format = Format::kRaw,
                            .averages = true,
                            .count = r.count});
    done[c] = b.add(std::move(decode));
  }
  return b.take(chunks);
}

Shape shape_of(size_t count, int ranks, size_t chunk) {
  return {.count = count,
          .ranks = ranks,
          .chunk_policy = exact_chunks(chunk),
          .packing = test_packing(32)};
}

// The result of one rank after all have run the plan, or what went wrong.
struct Played {
  std::string error;
  std::vector<std::vector<int32_t>> input, output;
};

Played play(const std::vector<Plan>& plans, size_t count, bool in_place, unsigned seed) {
  std::mt19937 random(seed);
  Played p;
  std::vector<std::vector<Memory>> memory;
  p.input.assign(plans.size(), {});
  p.output.assign(plans.size(), std::vector<int32_t>(count, -1));
  for (size_t r = 0; r < plans.size(); ++r) {
    for (size_t i = 0; i < count; ++i) p.input[r].push_back(static_cast<int32_t>(random() % 1000));
    if (in_place) p.output[r] = p.input[r];
    memory.push_back({{in_place ? p.output[r].data() : p.input[r].data(), p.output[r].data()}});
  }
  p.error = simulate(plans, memory, random);
  return p;
}

TEST(Native, MayBeWhatAnAlgorithmIsMadeOf) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 200; ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    Shape shape = shape_of(1 + random() % 3000, ranks, size_t{128} << random() % 8);
    std::vector<Plan> plans;
    for (shape.rank = 0; shape.rank < ranks; ++shape.rank) {
      plans.push_back(integer_sum(shape));
      ASSERT_EQ(validate(plans.back(), shape), "") << print(plans.back());
    }
    EXPECT_EQ(plans[0].wire_bytes, 0u);
    const Played p = play(plans, shape.count, random() % 2, trial);
    ASSERT_EQ(p.error, "") << print(plans[0]);
    for (size_t i = 0; i < shape.count; ++i) {
      int32_t sum = 0;
      for (const auto& input : p.input) sum += input[i];
      for (const auto& output : p.output) ASSERT_EQ(output[i], sum) << i;
    }
  }
}

TEST(Native, SendsWhatItsCollectivesSend) {
  Shape shape = shape_of(1000, 4, 1 << 20);
  EXPECT_EQ(integer_sum(shape).native, (Traffic{2 * 3000, 0}));
  shape.topology = topology_of(std::vector<uint64_t>{1, 1, 2, 2});
  EXPECT_EQ(integer_sum(shape).native, (Traffic{2 * 3000, 3000})) << "a node's share of a ring";
}

TEST(Native, ModelIsOfEachTypeAndOperation) {
  const auto bytes = [](auto... values) {
    Bytes result;
    const auto add = [&](auto x) {
      for (const char byte : std::bit_cast<std::array<char, sizeof x>>(x)) result.push_back(byte);
    };
    (add(values), ...);
    return result;
  };
  const auto reduced = [&](Element e, Operation o, const Bytes& a, const Bytes& b, size_t count) {
    const Native n{
        .collective = Collective::kAllReduce, .count = count, .element = e, .operation = o};
    return received(n, 1, {a, b});
  };
  using enum Element;
  constexpr auto kSum = Operation::kSum, kMax = Operation::kMax;

  const auto u8 = [](int x) { return static_cast<uint8_t>(x); };
  EXPECT_EQ(reduced(kUint8, kSum, bytes(u8(200), u8(1)), bytes(u8(57), u8(2)), 2),
            bytes(u8(1), u8(3)));
  EXPECT_EQ(reduced(kUint8, kMax, bytes(u8(200), u8(1)), bytes(u8(57), u8(2)), 2),
            bytes(u8(200), u8(2)));
  EXPECT_EQ(reduced(kUint32, kMax, bytes(~0u), bytes(5u), 1), bytes(~0u));
  EXPECT_EQ(reduced(kFloat32, kSum, bytes(0.5f), bytes(0.25f), 1), bytes(0.75f));
  EXPECT_EQ(reduced(kOfCall, kMax, bytes(-7), bytes(-9), 1), bytes(-7));
  EXPECT_EQ(reduced(kOfCall, Operation::kOfCall, bytes(-7), bytes(-9), 1), bytes(-16));
  const Native scatter{.collective = Collective::kReduceScatter, .count = 1, .element = kUint32};
  EXPECT_EQ(received(scatter, 1, {bytes(1u, 2u), bytes(30u, 40u)}), bytes(42u));
  EXPECT_EQ(sent_bytes(scatter, 0, 2), 8u);
}

TEST(Native, SimulatorSeesRanksThatDoNotMeanTheSame) {
  Shape shape = shape_of(100, 2, 1 << 20);
  const auto error_with = [&](auto change) {
    std::vector<Plan> plans;
    for (shape.rank = 0; shape.rank < 2; ++shape.rank) plans.push_back(integer_sum(shape));
    for (Step& step : plans[1].steps)
      if (!step.natives.empty()) change(step.natives);
    return play(plans, shape.count, false, 1).error;
  };
  EXPECT_EQ(error_with([](std::vector<Native>&) {}), "");
  const std::string other = "rank 1 has another native collective than rank 0";
  EXPECT_EQ(error_with([](auto& natives) { natives[0].count = 99; }), other);
  EXPECT_EQ(error_with([](auto& natives) { natives[0].operation = Operation::kMax; }), other);
  EXPECT_EQ(error_with([](auto& natives) { natives.push_back(natives[0]); }),
            "different numbers of native collectives");
  EXPECT_EQ(error_with([](auto& natives) { natives.clear(); }), "deadlock: rank 0 waits at step 1");
}

TEST(Native, ValidateFindsWhatIsWrong) {
  Shape shape = shape_of(1000, 3, 128);  // more chunks than slots
  shape.rank = 1;
  const Plan good = integer_sum(shape);
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan, plan.steps[1].natives[0]);
    return validate(plan, shape);
  };
  ASSERT_EQ(broken([](Plan&, Native&) {}), "");
  const auto expect = [&](const char* what, auto change) {
    const std::string error = broken(change);
    EXPECT_NE(error.find(what), std::string::npos)
        << "\"" << error << "\" is not \"" << what << "\"";
  };
  expect("on a compute lane", [](Plan& p, Native& n) { p.steps[0].natives = {n}; });
  expect("beside transfers", [](Plan& p, Native&) {
    p.steps[1].transfers = {{0, false, {Region::kRecv, 0}, 4}};
  });
  expect("a message among", [](Plan&, Native& n) { n.collective = Collective::kSend; });
  expect("of nothing", [](Plan&, Native& n) { n.count = 0; });
  expect("a root out of range", [](Plan&, Native& n) {
    n.collective = Collective::kBroadcast;
    n.root = 3;
  });
  expect("a place past its region", [](Plan& p, Native& n) { n.count = p.scratch_bytes; });
  expect("reads scratch that nothing wrote", [](Plan&, Native& n) { n.send.offset = 64; });
  expect("may not be written yet", [](Plan& p, Native&) { p.steps[1].after.clear(); });
  expect("still be in use", [](Plan& p, Native& n) {
    p.steps[1].natives.push_back(n);  // twice in one place
  });
  expect("into the send buffer", [](Plan&, Native& n) { n.recv = {Region::kSend, 0}; });
  expect("sends neither from", [](Plan&, Native& n) { n.send = {Region::kRecv, 0}; });
  expect("receives where it may still send", [](Plan&, Native& n) {
    n.send = {Region::kSend, 0};
    n.recv = {Region::kRecv, 0};
  });
  expect("a place past its region", [](Plan&, Native& n) { n.recv = {Region::kExact, 0}; });
  expect("traffic", [](Plan& p, Native&) { ++p.native.bytes; });
  expect("traffic", [](Plan& p, Native& n) {
    p.exact_bytes = 4000;
    n.recv = {Region::kExact, 0};  // is not counted
    for (Step& step : p.steps)
      std::erase_if(step.compute, [](const Compute& c) { return c.target_format == Format::kRaw; });
  });
  // The later steps' dependencies, on either side of a native collective.
  for (size_t i = 0; i < good.steps.size(); ++i)
    for (size_t k = 0; k < good.steps[i].after.size(); ++k)
      EXPECT_NE(broken([&](Plan& p, Native&) {
                  p.steps[i].after.erase(p.steps[i].after.begin() + static_cast<ptrdiff_t>(k));
                }),
                "")
          << i << "\n"
          << print(good);
}

// From the send buffer, which may be the receive buffer.
TEST(Native, WhatItSendsMayBeChangedBehindItAlone) {
  const Shape shape = shape_of(100, 2, 1 << 20);
  const Native first{.collective = Collective::kAllReduce,
                     .send = {Region::kSend, 0},
                     .recv = {Region::kScratch, 0},
                     .count = 100};
  const auto plan = [&](std::vector<size_t> after) {
    Plan p{.scratch_bytes = 400, .buffers = {{400, 400}}, .native = {400}};
    p.steps.push_back({.name = "sum", .lane = Lane::kCommunicate});
    p.steps.back().natives = {first};
    p.steps.push_back({"copy", Lane::kDecode, std::move(after), {}, {}});
    return p;
  };
  const Copy from_send{{Region::kRecv, 0}, {Region::kSend, 200}, 100};
  const Copy from_scratch{{Region::kRecv, 0}, {Region::kScratch, 0}, 400};
  const struct {
    Copy copy;
    const char* too_early;
  } kCopies[] = {
      {from_send, "step 1 (copy): changes what may still be read as it was"},
      {from_scratch, "step 1 (copy): reads what may not be written yet"},
  };
  for (const auto& [copy, too_early] : kCopies) {
    Plan p = plan({0});
    p.steps[1].copies = {copy};
    EXPECT_EQ(validate(p, shape), "");
    p.steps[1].after.clear();
    EXPECT_EQ(validate(p, shape), too_early);
  }
  Plan late = plan({0});
  late.steps[1].copies = {from_send};
  late.steps.push_back({.name = "again", .lane = Lane::kCommunicate, .after = {1}});
  late.steps.back().natives = {first};
  late.steps.push_back({.name = "end", .lane = Lane::kDecode, .after = {2}});
  late.native = {800};
  EXPECT_EQ(validate(late, shape), "step 2 (again): reads what may have been changed");
}

// NCCL's own rules: a shard where it belongs.
TEST(Native, IsInPlaceAsNcclHasIt) {
  const auto wrong = [](Collective collective, size_t send, size_t recv) {
    Shape shape = shape_of(8, 3, 1 << 20);
    shape.rank = 1;
    Plan p{.scratch_bytes = 400, .buffers = {{400, 400}}};
    p.steps = {{.name = "write", .lane = Lane::kCommunicate},
               {.name = "native", .lane = Lane::kCommunicate}};
    for (size_t shard = 0; shard < 8; ++shard)
      p.steps[0].transfers.push_back({0, false, {Region::kScratch, 32 * shard}, 32});
    p.steps[1].natives = {{.collective = collective,
                           .send = {Region::kScratch, send},
                           .recv = {Region::kScratch, recv},
                           .count = 8}};
    p.steps.push_back({.name = "end", .lane = Lane::kDecode, .after = {1}});
    p.native = native_traffic(p.steps, shape);
    return validate(p, shape);
  };
  EXPECT_EQ(wrong(Collective::kAllReduce, 0, 0), "");
  EXPECT_EQ(wrong(Collective::kAllGather, 32, 0), "");
  EXPECT_EQ(wrong(Collective::kReduceScatter, 0, 32), "");
  EXPECT_EQ(wrong(Collective::kAllToAll, 0, 96), "") << "apart";
  const std::string in_use = "step 1 (native): writes what may still be in use";
  EXPECT_EQ(wrong(Collective::kAllGather, 64, 0), in_use);
  EXPECT_EQ(wrong(Collective::kReduceScatter, 0, 64), in_use);
  EXPECT_EQ(wrong(Collective::kAllToAll, 0, 0), in_use);
}

TEST(Native, IsPrinted) {
  Plan plan = integer_sum(shape_of(10, 2, 1 << 20));
  plan.steps[1].natives.push_back({.collective = Collective::kBroadcast,
                                   .send = {Region::kSend, 8},
                                   .recv = {Region::kExact, 4},
                                   .count = 3,
                                   .root = 1});
  EXPECT_EQ(print(plan), R"(integer sum: 3 steps, scratch 64 B, wire 0 B, raw 40 B
  native collectives send 40 B
  0 encode on encode
    scratch+0 x10 <- send+0 raw [shard 0 stage 0 origin 0]
  1 sum on communicate 0 after 0
    native AllReduce scratch+0 <- scratch+0 x10 of uint32 sum
    native Broadcast exact+4 <- send+8 x3 root 1
  2 decode on decode after 1
    recv+0 x10 <- scratch+0 final
)");
}

}  // namespace
}  // namespace terse::plan
