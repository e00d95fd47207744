// Fibers by themselves, foremost for the address sanitizer.
#include "simt/fiber.h"

#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <vector>

namespace terse::simt::internal {
namespace {

// Uses some 40 bytes of stack and more for each level, and suspends at the bottom.
__attribute__((noinline)) uint64_t deep(Fiber& fiber, int levels) {
  volatile uint64_t frame[4] = {1, 2, 3, static_cast<uint64_t>(levels)};
  if (levels == 0) {
    fiber.suspend();
    return 0;
  }
  return deep(fiber, levels - 1) + frame[3];
}

struct Job {
  Fiber* fiber;
  int levels;
  uint64_t result = 0;
  static void work(void* argument) {
    Job& job = *static_cast<Job*>(argument);
    job.result = deep(*job.fiber, job.levels);
  }
};

TEST(Fiber, DeepStacks) {
  std::vector<std::unique_ptr<Fiber>> fibers;
  for (size_t i = 0; i < 8; ++i) fibers.push_back(std::make_unique<Fiber>(i));
  for (int round = 0; round < 20; ++round) {
    std::vector<Job> jobs;
    for (const auto& fiber : fibers) jobs.push_back({fiber.get(), 400});
    for (Job& job : jobs) {
      job.fiber->assign(Job::work, &job);
      job.fiber->resume();
      EXPECT_TRUE(job.fiber->busy());
    }
    for (Job& job : jobs) {
      job.fiber->resume();
      EXPECT_FALSE(job.fiber->busy());
      EXPECT_EQ(job.result, 400u * 401 / 2);
    }
  }
}

TEST(Fiber, ThrowsThroughDeepFrames) {
  struct Thrower {
    Fiber* fiber;
    bool caught = false;
    static uint64_t dig(Fiber& fiber, int levels) {
      const std::vector<int> freed(10);
      volatile uint64_t frame[8] = {};
      if (levels == 0) {
        fiber.suspend();
        throw std::runtime_error("no luck");
      }
      return dig(fiber, levels - 1) + frame[3];
    }
    static void work(void* argument) {
      Thrower& self = *static_cast<Thrower*>(argument);
      try {
        dig(*self.fiber, 100);
      } catch (const std::runtime_error&) {
        self.caught = true;
      }
    }
  };
  Fiber first(0), second(1);
  for (int round = 0; round < 20; ++round) {
    Thrower a{&first}, b{&second};
    first.assign(Thrower::work, &a);
    second.assign(Thrower::work, &b);
    first.resume();
    second.resume();
    first.resume();
    second.resume();
    EXPECT_TRUE(a.caught && b.caught);
    // The caller's own exceptions are unaffected.
    EXPECT_THROW(throw std::logic_error("mine"), std::logic_error);
  }
}

TEST(Fiber, EndsWithoutWork) {
  Fiber never(0);
  Fiber idle(1);
  idle.assign([](void*) {}, nullptr);
  idle.resume();
  EXPECT_FALSE(idle.busy());
}

TEST(StackDeathTest, EndsAtAGuard) {
  const Stack stack;
  volatile std::byte* const bottom = stack.bottom();
  bottom[0] = std::byte{1};
  EXPECT_DEATH(bottom[-1] = std::byte{1}, "");
}

}  // namespace
}  // namespace terse::simt::internal
