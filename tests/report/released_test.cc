// What a process keeps of communicators that are released. Each test's process is a child, which
// reports as it exits.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/log.h"
#include "engine/observe/reporter.h"

namespace terse {
namespace {

namespace fs = std::filesystem;

constexpr Present kNone{.any = [] { return false; },
                        .accounts = [] { return std::vector<report::Communicator>{}; }};
constexpr Present kOthers{.any = [] { return true; }, .accounts = kNone.accounts};

// Of one call.
report::Communicator account(uint64_t id, bool traced) {
  report::Communicator c;
  c.id = id;
  c.ranks = 1;
  c.rows.push_back({.rule = {}, .collective = "AllReduce", .scheme = "int8", .calls = 1});
  if (traced)
    c.trace.push_back({.collective = "AllReduce",
                       .dtype = "float32",
                       .scheme = "int8",
                       .count = 1,
                       .steps = {{"encode", "encode", 1, 2}}});
  return c;
}

class Released : public testing::Test {
 protected:
  void TearDown() override {
    fs::remove(file_ + "0.json");
    fs::remove(file_ + "0.txt");
  }

  static Settings settings_of(const std::string& report) {
    Settings s;
    s.report = report;
    return s;
  }
  report::Report read() const {
    std::stringstream text;
    text << std::ifstream(file_ + "0.json").rdbuf();
    return report::from_json(text.str());
  }

  const std::string file_ =
      testing::TempDir() + "terse-released-" + std::to_string(getpid()) + "-rank";
  const Settings none_ = settings_of(""), wanted_ = settings_of(file_ + "%r");
};

// A report that is wanted later has nothing of what went before.
TEST_F(Released, OnlySumsAreKeptWithoutAReport) {
  const auto child = [&] {
    set_log_level(LogLevel::kInfo);
    report_begins(none_, 0, kNone);
    for (int i = 1; i <= 3; ++i) report_released([&] { return account(i, true); });
    report_begins(wanted_, 0, kNone);
    report_released([] { return account(4, true); });
    std::exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "4 calls compressed, 0 native");
  const report::Report report = read();
  ASSERT_EQ(report.communicators.size(), 1u);
  EXPECT_EQ(report.communicators[0].id, 4u);
}

TEST_F(Released, NoAccountIsAskedForWithoutAReportOrALine) {
  const auto child = [&] {
    set_log_level(LogLevel::kWarn);
    report_begins(none_, 0, kNone);
    report_released([]() -> report::Communicator { std::exit(1); });
    std::exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
}

// Every second one has none.
TEST_F(Released, TheLastTracesAreKept) {
  constexpr uint64_t kAll = 500, kKept = 100;
  const auto child = [&] {
    report_begins(wanted_, 0, kOthers);
    for (uint64_t i = 1; i <= kAll; ++i) report_released([&] { return account(i, i % 2 == 0); });
    std::exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "");
  const report::Report report = read();
  ASSERT_EQ(report.communicators.size(), kAll);
  for (const report::Communicator& c : report.communicators)
    EXPECT_EQ(c.trace.size(), c.id % 2 == 0 && c.id > kAll - 2 * kKept ? 1u : 0u) << c.id;
}

TEST_F(Released, ThoseThatAreNotKeptAreCounted) {
  const auto child = [&] {
    report_begins(wanted_, 0, kOthers);
    for (uint64_t i = 1; i <= 1500; ++i) report_released([&] { return account(i, false); });
    std::exit(0);
  };
  EXPECT_EXIT(child(), testing::ExitedWithCode(0), "1500 calls compressed, 0 native");
  const report::Report report = read();
  EXPECT_EQ(report.communicators.size(), 1000u);
  EXPECT_EQ(report.left_out, 500u);
}

}  // namespace
}  // namespace terse
