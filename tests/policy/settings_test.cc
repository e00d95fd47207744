#include "policy/settings.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <thread>

#include "base/error.h"
#include "policy/profile_file.h"

namespace terse {
namespace {

Settings read(const std::map<std::string, std::string>& environment) {
  return read_settings([&](const char* name) -> const char* {
    const auto entry = environment.find(name);
    return entry == environment.end() ? nullptr : entry->second.c_str();
  });
}

TEST(Settings, AnEmptyEnvironmentForwardsEverything) {
  const Settings s = read({});
  EXPECT_FALSE(s.policy.compresses());
  EXPECT_EQ(s.error, "");
}

TEST(Settings, ReadsSizesWithUnits) {
  EXPECT_EQ(read({{"TERSE_MIN_BYTES", "0"}}).min_bytes, 0u);
  EXPECT_EQ(read({{"TERSE_MIN_BYTES", "3K"}}).min_bytes, 3072u);
  EXPECT_EQ(read({{"TERSE_CHUNK_BYTES", "4M"}}).chunk_bytes, size_t{4} << 20);
  EXPECT_EQ(read({{"TERSE_SEED", "9"}}).seed, 9u);
  EXPECT_EQ(read({{"TERSE_TIMEOUT", "5"}}).timeout_seconds, 5u);
  EXPECT_EQ(read({}).meter, std::nullopt);
  EXPECT_EQ(read({{"TERSE_METER", "0"}}).meter, 0u);
  EXPECT_EQ(read({{"TERSE_VERIFY", "100"}}).verify, 100u);
  EXPECT_EQ(read({{"TERSE_REPORT", "/tmp/%r"}}).report, "/tmp/%r");
  EXPECT_EQ(read({{"TERSE_TRACE", "50"}}).trace, 50u);
  EXPECT_EQ(read({{"TERSE_TRACE", "100001"}}).error,
            "TERSE_TRACE=\"100001\": it must be 0 to 100000 calls");
  EXPECT_EQ(read({{"TERSE_NCCL", "/opt/libnccl.so"}}).nccl, "/opt/libnccl.so");
  EXPECT_EQ(read({{"TERSE_CUDA_MODULE", "/opt/module.so"}}).cuda_module, "/opt/module.so");
}

// A program may go elsewhere before its first call.
TEST(Settings, RelativePathsAreMeantFromWhereTheProcessBegan) {
  const std::filesystem::path start = std::filesystem::current_path();
  std::filesystem::current_path("/");
  EXPECT_EQ(read({{"TERSE_REPORT", "reports/%r"}}).report, start / "reports/%r");
  EXPECT_EQ(read({{"TERSE_REPORT", "/reports"}}).report, "/reports");
  EXPECT_EQ(read({{"TERSE_LEVELS", "levels.toml"}}).levels_path, start / "levels.toml");
  EXPECT_EQ(read({{"TERSE_POLICY", "p.toml"}}).policy_path, start / "p.toml");
  EXPECT_EQ(read({{"TERSE_MARK", "mark"}}).mark, start / "mark");
  EXPECT_EQ(read({{"TERSE_NCCL", "lib/libnccl.so.2"}}).nccl, start / "lib/libnccl.so.2");
  EXPECT_EQ(read({{"TERSE_NCCL", "libnccl.so.2"}}).nccl, "libnccl.so.2") << "the linker looks";
  EXPECT_NE(read({{"TERSE_PROFILE", "nowhere.toml"}}).error.find(start / "nowhere.toml"),
            std::string::npos);
  std::filesystem::current_path(start);
}

TEST(Settings, AReportsNameHasKnownSignsAlone) {
  EXPECT_EQ(read({{"TERSE_REPORT", "/a/%h/%r-%p%%.json"}}).report, "/a/%h/%r-%p%%.json");
  for (const auto& [text, sign] : std::map<std::string, std::string>{
           {"/out-%j", "%j"}, {"/%r%%%", "%"}, {"/100%/out", "%/"}, {"/%%%x%r", "%x"}})
    EXPECT_EQ(read({{"TERSE_REPORT", text}}).error,
              fmt::format("TERSE_REPORT=\"{}\": {} is none of %r rank, %p pid, %h host and %% a "
                          "percent sign",
                          text, sign));
}

// Not what is in front of it makes it a name.
TEST(Settings, AReportIsANameByWhatTheUserHasWritten) {
  EXPECT_EQ(report_at("/a%rb", "out"), "/a%%rb/out");
  EXPECT_EQ(report_folder(report_at("/a%rb", "out")), "/a%rb/out");
  EXPECT_EQ(report_folder(report_at("/a%rb", "100%%")), "/a%rb/100%");
  EXPECT_EQ(report_at("/a%rb", "out/%r"), "/a%%rb/out/%r");
  EXPECT_EQ(report_folder(report_at("/a%rb", "out/%r")), "");
  EXPECT_EQ(report_at("/a%rb", "/out/%h"), "/out/%h");
}

TEST(Settings, ReadingALogLevelDoesNotSetIt) {
  const LogLevel before = log_level();
  EXPECT_EQ(read({}).log, std::nullopt);
  EXPECT_EQ(read({{"TERSE_LOG", "off"}}).log, LogLevel::kOff);
  EXPECT_EQ(read({{"TERSE_LOG", "trace"}}).log, LogLevel::kTrace);
  EXPECT_EQ(log_level(), before);
}

// The first that says a number.
TEST(Settings, LaunchersTellAProcessItsNumber) {
  EXPECT_EQ(read({}).process, 0u);
  EXPECT_EQ(read({{"SLURM_PROCID", "3"}}).process, 3u);
  EXPECT_EQ(read({{"RANK", "12"}, {"PMI_RANK", "4"}}).process, 12u);
  EXPECT_EQ(read({{"RANK", "first"}, {"OMPI_COMM_WORLD_RANK", "7"}}).process, 7u);
}

TEST(Settings, ABadOneIsKeptForTheErrorAtCommunicatorCreation) {
  const struct {
    const char* name;
    const char* text;
  } cases[] = {{"TERSE_SCHEME", "int17"},    {"TERSE_MIN_BYTES", "-1"},
               {"TERSE_MIN_BYTES", "K"},     {"TERSE_MIN_BYTES", "1T"},
               {"TERSE_CHUNK_BYTES", "1"},   {"TERSE_CHUNK_BYTES", "4095"},
               {"TERSE_SEED", "0x10"},       {"TERSE_TIMEOUT", "0"},
               {"TERSE_TIMEOUT", "1000000"}, {"TERSE_LOG", "loud"},
               {"TERSE_POLICY", "/nowhere"}, {"TERSE_SCHEME", "int8;"},
               {"TERSE_CHUNK_BYTES", " 1"},  {"TERSE_MIN_BYTES", "18446744073709551615G"}};
  for (const auto& c : cases) {
    const Settings s = read({{c.name, c.text}});
    EXPECT_EQ(s.error.find(fmt::format("{}=\"{}\"", c.name, c.text)), 0u) << s.error;
    EXPECT_THROW(require_valid(s), Error);
  }
}

TEST(Settings, RulesHaveTheFloorThatIsSet) {
  const Settings s = read({{"TERSE_SCHEME", "allgather -> off; int8"}, {"TERSE_MIN_BYTES", "1M"}});
  EXPECT_EQ(s.policy.print(), "allgather -> off; shard=1M.. -> int8:block=128,round=nearest");
  EXPECT_EQ(
      read({{"TERSE_SCHEME", "int17"}}).error,
      "TERSE_SCHEME=\"int17\": column 1: scheme \"int17\": 17 bits are not offered, only 2 to "
      "8");
}

TEST(Settings, APolicyComesFromAFile) {
  const std::string path = TERSE_EXAMPLES "/policy.toml";
  const Settings s = read({{"TERSE_POLICY", path}});
  EXPECT_EQ(s.error, "");
  EXPECT_EQ(s.policy.rules, read_policy_file(path, 64 * 1024).rules);
}

// Who has come first has read all of it.
TEST(Settings, APipeWithoutRulesIsAnError) {
  const std::string path = ::testing::TempDir() + fmt::format("policy_pipe{}", getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  const auto error_with = [&](const char* rules) {
    std::thread writer([&] { std::ofstream(path) << rules; });
    const Settings s = read({{"TERSE_POLICY", path}});
    writer.join();
    return s.error;
  };
  EXPECT_EQ(error_with("[[rule]]\nscheme = \"int8\"\n"), "");
  for (const char* rules : {"", "# later\n"})
    EXPECT_EQ(error_with(rules),
              fmt::format("TERSE_POLICY=\"{}\": it is a pipe without rules: another process may "
                          "have read them",
                          path));
  std::filesystem::remove(path);
}

TEST(Settings, RulesComeFromOnePlace) {
  const Settings s = read({{"TERSE_POLICY", "/nowhere"}, {"TERSE_SCHEME", "off"}});
  EXPECT_EQ(s.error, "TERSE_POLICY and TERSE_SCHEME are both set; rules come from one");
}

TEST(Settings, AProfileIsAFileOrOneThatComesAlong) {
  EXPECT_FALSE(read({}).profile);
  const Settings s = read({{"TERSE_PROFILE", "a100-8x-nvlink"}, {"TERSE_SCHEME", "auto"}});
  EXPECT_EQ(s.error, "");
  EXPECT_EQ(s.profile, read_profile("a100-8x-nvlink"));
  EXPECT_EQ(read({{"TERSE_PROFILE", "/nowhere"}}).error,
            "TERSE_PROFILE=\"/nowhere\": /nowhere cannot be read: No such file or directory");
  EXPECT_EQ(read({{"TERSE_PROFILE", "/nowhere"}, {"TERSE_SCHEME", "auto"}}).error,
            "TERSE_PROFILE=\"/nowhere\": /nowhere cannot be read: No such file or directory");
}

// The machine decides on one, when its ranks have met.
TEST(Settings, AutoIsReadWithoutAProfile) {
  EXPECT_EQ(read({{"TERSE_SCHEME", "int8; allgather -> auto"}}).error, "");
}

TEST(Settings, StrangersAreNamed) {
  const char* environment[] = {"PATH=/bin",
                               "TERSE_SCHEM=int8",
                               "TERSE_SCHEME=int8",
                               "TERSE_COLOUR=red",
                               "TERSE_BLESS=1",
                               "TERSE_MARK=/tmp/mark",
                               "TERSE_TEST_BUILD_DIR=x",
                               "XTERSE_SCHEM=int8",
                               "TERSE_POLICIES=TERSE_POLICY",
                               "TERSE_",
                               nullptr};
  EXPECT_EQ(
      unknown_variables(environment),
      (std::vector<std::string>{"unknown variable TERSE_SCHEM; did you mean TERSE_SCHEME?",
                                "unknown variable TERSE_COLOUR; `terse settings` lists them",
                                "unknown variable TERSE_POLICIES; `terse settings` lists them",
                                "unknown variable TERSE_; `terse settings` lists them"}));
}

TEST(Settings, WhatTerseSetsItselfIsNotListed) {
  const std::string text = describe_settings();
  EXPECT_NE(text.find("TERSE_REPORT "), std::string::npos) << text;
  EXPECT_EQ(text.find("TERSE_MARK"), std::string::npos) << text;
}

}  // namespace
}  // namespace terse
