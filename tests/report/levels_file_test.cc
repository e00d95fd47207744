// The file of levels that a run leaves to the next one, and which process writes it. Each test's
// process is a child, for a process has one such file.
#include "engine/observe/levels_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "engine/observe/reporting_comm.h"
#include "policy/scheme.h"

namespace terse {
namespace {

using Floats = std::vector<float>;

Levels learned(uint64_t fits, const Floats& at, const char* scheme = "learned2:block=1024") {
  return {.collective = plan::Collective::kAllReduce,
          .count = 1000,
          .dtype = codec::Dtype::kFloat32,
          .spec = parse_scheme(scheme).spec,
          .calls = 10 * fits,
          .fits = fits,
          .at = at};
}

const Floats kFirst = {0, 0.125f, 0.5f, 1}, kSecond = {0, 0.25f, 0.5f, 1};
const Levels kOfFour = {.at = {0, 0.375f, 0.5f, 1}};  // for all calls
const Levels kOfEight = {.at = {0, 0.125f, 0.25f, 0.375f, 0.5f, 0.625f, 0.75f, 1}};

class LevelsFile : public testing::Test {
 protected:
  void SetUp() override { settings_.levels_path = path_; }
  void TearDown() override { std::filesystem::remove(path_); }

  // What is in the file when a process is over that began with some levels; empty: no file.
  std::vector<Levels> left_by(const std::vector<Levels>& begun_with,
                              const std::function<void()>& body) {
    settings_.levels = begun_with;
    const auto child = [&] {
      reporting_begins();
      body();
      std::exit(0);
    };
    EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
    return read_levels(path_);
  }

  void save(const std::vector<Levels>& fitted, const std::vector<Levels>& continued = {}) const {
    save_levels(settings_, fitted, continued);
  }

  const std::string path_ =
      testing::TempDir() + "terse-levels-file-" + std::to_string(getpid()) + ".toml";
  Settings settings_;
};

// The next run takes the first ones that fit.
TEST_F(LevelsFile, WhatIsLearnedComesBeforeWhatElseFits) {
  const Levels other = learned(1, kFirst, "learned2:block=64"), all = learned(2, kSecond);
  const std::vector<Levels> left = left_by({kOfEight, kOfFour}, [&] {
    leads(7, 0);
    save({learned(1, kFirst)});
    save({learned(1, kFirst), other});
    save({all, other});
  });
  EXPECT_EQ(left, (std::vector<Levels>{kOfEight, all, other, kOfFour}));
}

// Of two communicators whose calls are the same.
TEST_F(LevelsFile, WhatOneHasLearnedIsNotReplacedByWhatAnotherHasGoneOnWith) {
  const Levels older = learned(1, kFirst), newer = learned(2, kSecond);
  Levels goes_on = older, is_there = older;
  goes_on.calls += 5;
  const std::vector<Levels> of_both = left_by({older}, [&] {
    leads(7, 0);
    save({newer}, {});
    save({}, {goes_on});
  });
  EXPECT_EQ(of_both, std::vector<Levels>{newer});
  const std::vector<Levels> of_one = left_by({older}, [&] {
    leads(7, 0);
    save({}, {goes_on});
    save({}, {is_there});
  });
  EXPECT_EQ(of_one, std::vector<Levels>{goes_on});
}

// As others may have put it there.
TEST_F(LevelsFile, WhatIsLearnedDoesNotStayBehindWhatElseFits) {
  const std::vector<Levels> left = left_by({kOfFour, kOfEight, learned(1, kFirst)}, [&] {
    leads(7, 0);
    save({learned(2, kSecond)});
  });
  EXPECT_EQ(left, (std::vector<Levels>{learned(2, kSecond), kOfFour, kOfEight}));
}

// Of several ranks in one process the least one counts, whichever comes first.
TEST_F(LevelsFile, IsOfTheLeastRankOfTheFirstCommunicator) {
  struct Case {
    std::vector<std::pair<uint64_t, int>> agreed;  // communicators, and ranks on them
    bool saves;
  };
  const Case cases[] = {{{}, false},
                        {{{7, 0}}, true},
                        {{{7, 1}}, false},
                        {{{7, 1}, {7, 0}}, true},
                        {{{7, 2}, {9, 0}}, false},
                        {{{7, 0}, {9, 3}}, true}};
  for (const Case& c : cases) {
    std::filesystem::remove(path_);
    const std::vector<Levels> left = left_by({}, [&] {
      for (const auto& [identity, rank] : c.agreed) leads(identity, rank);
      save({learned(1, kFirst)});
    });
    EXPECT_EQ(left.size(), c.saves ? 1u : 0u) << c.agreed.size();
  }
}

// What leads in a process does not in one that it forks.
TEST_F(LevelsFile, IsNotOfAForkedProcessForWhatItsParentHas) {
  reporting_begins();
  leads(7, 0);
  EXPECT_EQ(leading_rank(), 0);
  const std::vector<Levels> left = left_by({}, [&] { save({learned(1, kFirst)}); });
  EXPECT_EQ(left, std::vector<Levels>());
}

}  // namespace
}  // namespace terse
