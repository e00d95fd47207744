// Work in the background.
#include "background.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "flag.h"

namespace hostnccl {
namespace {

// Work may end at any time: also while it is looked at whether it has ended, as it is whenever new
// work begins.
TEST(Background, MayEndWhileItIsLookedAt) {
  const auto stop = std::make_shared<Flag>();
  constexpr int kWorks = 30'000;
  std::atomic<int> ended{0};
  for (int i = 0; i < kWorks; ++i) run_in_background(stop, [&] { ++ended; });
  while (ended < kWorks) std::this_thread::yield();
}

}  // namespace
}  // namespace hostnccl
