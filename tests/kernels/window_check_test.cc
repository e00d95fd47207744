// The check by which ranks find out whether their windows work, before the first fused call.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "fused_ranks.h"
#include "simt/machine.h"

namespace terse::kernels {
namespace {

constexpr size_t kRanks = 3, kAreaBytes = 1024, kAreas = 4;

// Windows of ranks which all run the check, on two thread blocks.
class Check {
 public:
  using Change = std::function<void(WindowCheck&)>;

  explicit Check(uint64_t seed, const Change& change = {}, const simt::Planter* planter = nullptr) {
    simt::Machine machine{.seed = seed};
    for (size_t rank = 0; rank < kRanks; ++rank)
      windows_.emplace_back(kAreaBytes, kAreaBytes, kAreaBytes, std::pmr::get_default_resource());
    for (size_t rank = 0; rank < kRanks; ++rank) {
      add(machine, windows_[rank], rank);
      machine.ranks.push_back({kernel_of(rank, change, planter)});
    }
    machine.windows.push_back({&abort_, sizeof abort_, "abort", sizeof abort_});
    machine.windows.push_back({wrong_, sizeof wrong_, "results", sizeof wrong_});
    simt::run(machine);
  }

  // Returns true if no rank has found anything wrong, and all may go on to calls.
  bool is_right() const {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      if (std::ranges::any_of(wrong_[rank], [](uint32_t wrong) { return wrong != 0; }))
        return false;
      const WindowHeader& header = windows_[rank].header();
      if (header.gives_up != 0 ||
          std::ranges::count(header.unit[0].epoch, WindowCheck::kRounds) != 2)
        return false;
    }
    return true;
  }
  // Returns true if a rank has found another one's words wrong.
  bool is_wrong(size_t rank, size_t of) const { return wrong_[rank][of] != 0; }

 private:
  static void add(simt::Machine& machine, const Window& window, size_t rank) {
    const std::string of = " of rank " + std::to_string(rank);
    WindowHeader& header = window.header();
    const auto region = [&](auto& first, size_t count, const char* what) {
      machine.windows.push_back({&first, count * sizeof first, what + of, count * sizeof first});
    };
    region(header.unit[0], 1, "unit");
    region(header.flag[0][0], 1, "first flags");
    region(header.flag[1][0], 1, "second flags");
    region(header.gives_up, 1, "end");
    region(header.from[0], kRanks, "calls");
    machine.windows.push_back({window.areas[0], kAreas * kAreaBytes, "areas" + of});
  }

  simt::Kernel kernel_of(size_t rank, const Change& change, const simt::Planter* planter) {
    WindowCheck check{.area_bytes = kAreaBytes, .areas = kAreas, .wrong = wrong_[rank]};
    check.exchange.abort = &abort_;
    check.exchange.ranks = kRanks;
    check.exchange.self = static_cast<uint32_t>(rank);
    for (size_t of = 0; of < kRanks; ++of) {
      check.exchange.window[of] = windows_[of].begin;
      check.key[of] = 0x9e3779b97f4a7c15 * (of + 1);
    }
    for (size_t area = 0; area < kAreas; ++area)
      check.area[area] = kWindowHeaderBytes + area * kAreaBytes;
    if (change) change(check);
    return cpu_check_window(check, {.blocks = 2, .threads = kThreads, .planter = planter});
  }

  std::deque<Window> windows_;
  uint32_t abort_ = 0, wrong_[kRanks][kMaxWindows] = {};
};

TEST(WindowCheck, FindsNothingWrongWhereAllArrives) {
  for (uint64_t seed = 0; seed < 20; ++seed) EXPECT_TRUE(Check(seed).is_right());
}

TEST(WindowCheck, NamesTheRankWhoseWordsAreNotThere) {
  for (size_t bad = 0; bad < kRanks; ++bad) {
    const Check check(bad, [bad](WindowCheck& of) {
      if (of.exchange.self == bad) of.key[bad] ^= 1;  // writes other words
    });
    for (size_t rank = 0; rank < kRanks; ++rank)
      for (size_t of = 0; of < kRanks; ++of)
        if (rank != bad) EXPECT_EQ(check.is_wrong(rank, of), of == bad);
  }
}

TEST(WindowCheck, NoMistakeInItGoesUnnoticed) {
  using enum simt::Mistake;
  std::vector<Trial> trials;
  for (uint64_t seed = 0; seed < 5; ++seed)
    trials.emplace_back([seed](const simt::Planter* planter) {
      const simt::Planter here = [planter](const simt::Plant& plant, uint32_t thread) {
        return to_string(plant.site).starts_with("window_check.h:") && (*planter)(plant, thread);
      };
      return Check(seed, {}, &here).is_right();
    });
  EXPECT_EQ(expect_noticed(trials), (std::set{kStoresFurther, kLoadsFurther}));
}

}  // namespace
}  // namespace terse::kernels
