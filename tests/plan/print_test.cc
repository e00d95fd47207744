// print() is the debugging tool, and what it shows of a plan is pinned. After a deliberate change
// run the test with TERSE_BLESS=1 in the environment and review the difference.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "plan/plan.h"

namespace terse::plan {
namespace {

TEST(PlanPrint, IsAsReviewed) {
  // int4, block 128: half a byte an element and four a block.
  const Shape shape{.count = 3000,
                    .element_bytes = 2,
                    .ranks = 3,
                    .rank = 1,
                    .chunk_bytes = 2000,
                    .packing = {128, [](size_t n) { return (n + 1) / 2 + (n + 127) / 128 * 4; }}};
  const std::string text = print(two_shot_all_reduce(shape)) + print(one_shot_all_reduce(shape)) +
                           print(all_gather(shape)) + print(reduce_scatter(shape));
  const std::string path = TERSE_TEST_DATA "/plan/plans.txt";
  if (std::getenv("TERSE_BLESS") != nullptr) std::ofstream(path) << text;
  std::ifstream file(path);
  std::stringstream golden;
  golden << file.rdbuf();
  EXPECT_EQ(text, golden.str());
}

}  // namespace
}  // namespace terse::plan
