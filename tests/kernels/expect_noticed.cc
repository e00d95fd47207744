#include "expect_noticed.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <vector>

#include "simt/fault.h"
#include "support.h"

namespace terse::kernels {
namespace {

using simt::Plant;
using simt::Planter;

// Trials until a mistake counts as unnoticed. (Most are noticed by the first. That one lane gets
// another's statistics changes nothing where a third one has the extremes.)
constexpr size_t kEnough = 250;

// A trial that passes a call, and one of its passes: by which thread, and its number among all.
struct Passing {
  const Trial* trial;
  uint32_t passes = 0, pass = 0, thread = 0;
};

std::map<Plant, std::vector<Passing>> calls_of(std::span<const Trial> trials) {
  codec::Random random(5);  // chooses the pass, evenly
  std::map<Plant, std::vector<Passing>> calls;
  for (const Trial& trial : trials) {
    std::map<Plant, Passing> passed;
    const Planter look = [&](const Plant& plant, uint32_t thread) {
      Passing& p = passed.try_emplace(plant, Passing{&trial}).first->second;
      if (random.below(++p.passes) == 0) p.pass = p.passes, p.thread = thread;
      return false;
    };
    EXPECT_TRUE(trial(&look)) << "without any mistake";
    for (const auto& [plant, passing] : passed) calls[plant].push_back(passing);
  }
  return calls;
}

enum class Extent { kAlways, kOneThread, kOnce };

const char* name_of(Extent extent) {
  switch (extent) {
    case Extent::kAlways:
      return "by every thread";
    case Extent::kOneThread:
      return "by one thread";
    case Extent::kOnce:
      return "once";
  }
  return "";
}

bool notices(const Passing& passing, const Plant& plant, Extent extent) {
  uint32_t passes = 0;
  const Planter planter = [&](const Plant& here, uint32_t thread) {
    if (here != plant) return false;
    if (extent == Extent::kOnce) return ++passes == passing.pass;
    return extent == Extent::kAlways || thread == passing.thread;
  };
  try {
    return !(*passing.trial)(&planter);
  } catch (const simt::Fault&) {
    return true;
  }
}

}  // namespace

std::set<simt::Mistake> expect_noticed(std::span<const Trial> trials) {
  std::set<simt::Mistake> made;
  for (auto& [planted, passing] : calls_of(trials)) {
    const Plant& plant = planted;  // clang 14 takes no structured binding into a lambda
    made.insert(plant.mistake);
    const std::span<const Passing> some(passing.data(), std::min(passing.size(), kEnough));
    for (const Extent extent : {Extent::kAlways, Extent::kOneThread, Extent::kOnce})
      EXPECT_TRUE(
          std::ranges::any_of(some, [&](const Passing& p) { return notices(p, plant, extent); }))
          << to_string(plant) << " (" << name_of(extent) << "), and none of " << some.size()
          << " trials noticed it";
  }
  return made;
}

}  // namespace terse::kernels
