// print() is the debugging tool, and what it shows of a plan is pinned. After a deliberate change
// run the test with TERSE_BLESS=1 in the environment and review the difference.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "plan/plan.h"

namespace terse::plan {
namespace {

// Block 128: half a byte an element and four a block.
Packing int4() {
  return {128, [](size_t n) { return (n + 1) / 2 + (n + 127) / 128 * 4; }};
}

void expect_golden(const std::string& name, const std::string& text) {
  const std::string path = TERSE_TEST_DATA "/plan/" + name;
  if (std::getenv("TERSE_BLESS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str());
}

TEST(PlanPrint, IsAsReviewed) {
  const Shape shape{.count = 3000,
                    .element_bytes = 2,
                    .ranks = 3,
                    .rank = 1,
                    .chunk_policy = exact_chunks(2000),
                    .packing = int4()};
  expect_golden("plans.txt", print(two_shot_all_reduce(shape)) + print(one_shot_all_reduce(shape)) +
                                 print(all_gather(shape)) + print(reduce_scatter(shape)));
}

// Seen from the root, and from another rank.
TEST(PlanPrint, OfRootedCollectivesIsAsReviewed) {
  Shape shape{.count = 1500,
              .element_bytes = 4,
              .ranks = 4,
              .root = 2,
              .chunk_policy = exact_chunks(3000),
              .packing = int4()};
  std::string text;
  for (const auto build : {all_to_all, direct_broadcast, shared_broadcast, direct_reduce,
                           two_shot_reduce, gather, scatter})
    for (shape.rank = 2; shape.rank < 4; ++shape.rank)
      text += fmt::format("rank {}: {}", shape.rank, print(build(shape)));
  expect_golden("rooted.txt", text);
}

// Of several chunks; seen from the root, and from another rank.
TEST(PlanPrint, OfSumsByNcclIsAsReviewed) {
  const auto code_bytes = [](size_t n) { return (n + 3) / 4 * 4; };
  const Packing linear8{256, [=](size_t n) { return code_bytes(n) + (n + 255) / 256 * 4; },
                        SharedGrid{code_bytes, Element::kUint32}};
  Shape shape{
      .count = 1500, .ranks = 3, .root = 1, .chunk_policy = exact_chunks(3000), .packing = linear8};
  std::string text = print(summed_all_reduce(shape)) + print(summed_reduce_scatter(shape));
  for (shape.rank = 1; shape.rank < 3; ++shape.rank)
    text += fmt::format("rank {}: {}", shape.rank, print(summed_reduce(shape)));
  expect_golden("summed.txt", text);
}

TEST(PlanPrint, OfSumsByOwnersIsAsReviewed) {
  const auto code_bytes = [](size_t n) { return (n + 3) / 4 * 4; };
  const Packing exp8{256, [=](size_t n) { return code_bytes(n) + (n + 255) / 256 * 4; },
                     SharedGrid{code_bytes, Element::kUint32, Sharing::kMerged}};
  Shape shape{
      .count = 3900, .ranks = 3, .root = 1, .chunk_policy = exact_chunks(3000), .packing = exp8};
  std::string text = print(merged_all_reduce(shape));
  for (shape.rank = 1; shape.rank < 3; ++shape.rank)
    text += fmt::format("rank {}: {}", shape.rank, print(merged_reduce(shape)));
  shape.rank = 0;
  shape.count = 1300;
  text += print(merged_reduce_scatter(shape));
  expect_golden("merged.txt", text);
}

TEST(PlanPrint, OfMessagesIsAsReviewed) {
  const Message large{.send = true, .peer = 1, .count = 1500, .packing = int4()};
  const Message native{.send = true, .peer = 2, .count = 300, .packed = false};
  const Message back{.peer = 1, .count = 700, .element_bytes = 2, .packing = int4()};
  std::string text;
  for (const std::vector<Message>& messages :
       {std::vector{large}, std::vector{large, native, back}, std::vector{back, back}})
    text += print(
        point_to_point({.ranks = 3, .chunk_policy = exact_chunks(2000), .messages = messages}));
  expect_golden("messages.txt", text);
}

}  // namespace
}  // namespace terse::plan
