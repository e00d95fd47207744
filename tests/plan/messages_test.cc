// Send and Recv: whatever a rank puts in one group, and its peers in another or in none, all
// messages arrive, and nobody waits for ever.
#include <gtest/gtest.h>

#include "plan/plan.h"
#include "simulator.h"

namespace terse::plan {
namespace {

struct Sent {
  int from, to;
  size_t count;
  bool packed;
  std::vector<int32_t> in, out;
};

// A rank's calls in a row, some of them in groups.
struct Program {
  std::vector<Batch> batches;
  std::vector<std::vector<size_t>> sent;  // by batch: which messages
};

std::vector<Sent> random_messages(int ranks, std::mt19937& random) {
  std::vector<Sent> all(1 + random() % 12);
  for (Sent& s : all) {
    s.from = static_cast<int>(random() % ranks);
    s.to = static_cast<int>(random() % ranks);
    s.count = 1 + random() % 700;
    s.packed = s.from != s.to && random() % 4 != 0;
    for (size_t i = 0; i < s.count; ++i) s.in.push_back(static_cast<int32_t>(random() % 1000));
    s.out.assign(s.count, -1);
  }
  return all;
}

// Each rank does its part of the messages in their order, in groups that end anywhere. This always
// ends in NCCL: the first message that has not arrived is under way on both its ranks.
std::vector<Program> programs(const std::vector<Sent>& all, int ranks, std::mt19937& random) {
  std::vector<Program> result(ranks);
  for (int r = 0; r < ranks; ++r) {
    Program& p = result[r];
    const size_t most = 1 + random() % 6;
    for (size_t i = 0; i < all.size(); ++i) {
      const Sent& s = all[i];
      if (s.from != r && s.to != r) continue;
      if (p.batches.empty() || random() % most == 0) {
        p.batches.push_back(
            {.ranks = ranks, .rank = r, .chunk_policy = exact_chunks(256), .messages = {}});
        p.sent.emplace_back();
      }
      for (const bool send : {true, false}) {  // both, to itself
        if ((send ? s.from : s.to) != r) continue;
        p.batches.back().messages.push_back({.send = send,
                                             .peer = send ? s.to : s.from,
                                             .count = s.count,
                                             .packed = s.packed,
                                             .packing = test_packing(32)});
        p.sent.back().push_back(i);
      }
    }
  }
  return result;
}

// One plan for a row of them, each of which starts when the one before has ended.
Plan in_a_row(const std::vector<Plan>& plans) {
  Plan all{.algorithm = "in a row"};
  size_t end = 0;  // the step that is last on the decode lane
  for (const Plan& plan : plans) {
    const size_t first = all.steps.size(), message = all.buffers.size();
    const size_t scratch = all.scratch_bytes, before = end;
    for (Step step : plan.steps) {
      for (size_t& a : step.after) a += first;
      if (first > 0) step.after.push_back(before);
      const auto move = [&](Place& p) {
        if (p.region == Region::kScratch) p.offset += scratch;
      };
      for (Compute& c : step.compute) {
        for (Input& in : c.inputs) move(in.place);
        move(c.target);
        c.message += static_cast<uint32_t>(message);
      }
      for (Transfer& t : step.transfers) {
        move(t.place);
        t.message += static_cast<uint32_t>(message);
      }
      if (step.lane == Lane::kDecode) end = all.steps.size();
      all.steps.push_back(std::move(step));
    }
    all.scratch_bytes += plan.scratch_bytes;
    all.buffers.insert(all.buffers.end(), plan.buffers.begin(), plan.buffers.end());
  }
  return all;
}

std::string describe(const std::vector<Sent>& all) {
  std::string text;
  for (const Sent& s : all)
    text += std::to_string(s.from) + " to " + std::to_string(s.to) + " x" +
            std::to_string(s.count) + (s.packed ? "\n" : " native\n");
  return text;
}

TEST(Messages, ArriveHoweverTheyAreGrouped) {
  std::mt19937 random(11);
  for (int trial = 0; trial < 400; ++trial) {
    const int ranks = 2 + static_cast<int>(random() % 5);
    std::vector<Sent> all = random_messages(ranks, random);
    std::vector<Plan> plans;
    std::vector<std::vector<Memory>> memory(ranks);
    for (const Program& program : programs(all, ranks, random)) {
      std::vector<Plan> row;
      for (size_t b = 0; b < program.batches.size(); ++b) {
        row.push_back(point_to_point(program.batches[b]));
        ASSERT_EQ(validate(row.back(), program.batches[b]), "") << print(row.back());
        for (size_t m = 0; m < program.sent[b].size(); ++m) {
          Sent& s = all[program.sent[b][m]];
          const bool send = program.batches[b].messages[m].send;
          memory[plans.size()].push_back(
              {send ? s.in.data() : nullptr, send ? nullptr : s.out.data()});
        }
      }
      plans.push_back(in_a_row(row));
    }
    const std::vector<Sent> before = all;
    ASSERT_EQ(simulate(plans, memory, random), "") << describe(all);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i].out, before[i].in) << "message " << i << " of\n" << describe(all);
      ASSERT_EQ(all[i].in, before[i].in);
    }
  }
}

// Three ranks of which the first groups two large messages and the others pass on one by one. Sent
// one after the other, or cut into steps that hold a chunk of each, the first rank's messages would
// have to wait for each other in a circle.
TEST(Messages, OfAGroupDoNotWaitForEachOther) {
  std::vector<int32_t> to1(1000, 1), to2(1000, 2), passed_on(1000, 3), at1(1000), at2(1000),
      from1(1000);
  const auto alone = [](int rank, bool send, int peer) {
    return point_to_point(
        {.ranks = 3,
         .rank = rank,
         .chunk_policy = exact_chunks(256),
         .messages = {{.send = send, .peer = peer, .count = 1000, .packing = test_packing(32)}}});
  };
  std::mt19937 random(1);
  for (const bool forwards : {true, false}) {
    Batch both{.ranks = 3, .rank = 0, .chunk_policy = exact_chunks(256), .messages = {}};
    for (const int peer : {forwards ? 1 : 2, forwards ? 2 : 1})
      both.messages.push_back(
          {.send = true, .peer = peer, .count = 1000, .packing = test_packing(32)});
    const std::vector<Plan> plans = {point_to_point(both),
                                     in_a_row({alone(1, false, 0), alone(1, true, 2)}),
                                     in_a_row({alone(2, false, 1), alone(2, false, 0)})};
    const Memory first{to1.data(), nullptr}, second{to2.data(), nullptr};
    const std::vector<std::vector<Memory>> memory = {
        {forwards ? first : second, forwards ? second : first},
        {{nullptr, at1.data()}, {passed_on.data(), nullptr}},
        {{nullptr, from1.data()}, {nullptr, at2.data()}}};
    for (int trial = 0; trial < 50; ++trial) ASSERT_EQ(simulate(plans, memory, random), "");
    EXPECT_EQ(at1, to1);
    EXPECT_EQ(at2, to2);
    EXPECT_EQ(from1, passed_on);
  }
}

TEST(Messages, AloneHaveScratchOfAFewChunks) {
  for (const size_t count : {size_t{1} << 20, size_t{3} << 22, (size_t{1} << 25) + 12345}) {
    const Packing packing{128, [](size_t n) { return n + (n + 127) / 128 * 4; }};
    const Shape shape{.count = count, .ranks = 2, .root = 1, .packing = packing};
    for (const auto build : {send, receive}) {
      const Plan plan = build(shape);
      EXPECT_EQ(validate(plan, shape), "");
      EXPECT_LE(plan.scratch_bytes,
                8 * packing.bytes(std::max(size_t{1} << 18, count / 32)) + 8 * 256);
      EXPECT_LE(plan.scratch_bytes, packing.bytes(count) + 64 * 32);
    }
  }
}

TEST(Messages, ValidateFindsWhatIsWrong) {
  const Batch batch{
      .ranks = 3,
      .rank = 0,
      .messages = {{.send = true, .peer = 1, .count = 100, .packing = test_packing(32)},
                   {.send = true, .peer = 0, .count = 10, .packed = false},
                   {.peer = 0, .count = 10, .packed = false},
                   {.peer = 2, .count = 50, .packing = test_packing(32)}}};
  const Plan good = point_to_point(batch);
  ASSERT_EQ(validate(good, batch), "");
  const auto broken = [&](auto change) {
    Plan plan = good;
    change(plan);
    return validate(plan, batch);
  };
  // encode, exchange, decode
  EXPECT_NE(broken([](Plan& p) { p.steps[0].compute[0].message = 3; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[0].peer = 0; }), "") << "packed, to itself";
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[1].message = 2; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[1].send = false; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].transfers[1].bytes += 4; }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[1].after.clear(); }), "");
  EXPECT_NE(broken([](Plan& p) { p.steps[2].after.clear(); }), "");
  EXPECT_NE(broken([](Plan& p) { p.buffers.pop_back(); }), "");
}

}  // namespace
}  // namespace terse::plan
