// The environment.
#include "env.h"

#include <gtest/gtest.h>

#include <chrono>
#include <clocale>
#include <cstdlib>

namespace hostnccl {
namespace {

using std::chrono::milliseconds;

milliseconds timeout_by(const char* text) {
  setenv("HOSTNCCL_TIMEOUT", text, 1);
  const Settings settings = read_settings();
  unsetenv("HOSTNCCL_TIMEOUT");
  return settings.timeout;
}

TEST(Environment, TimeoutInSeconds) {
  EXPECT_EQ(timeout_by("2"), milliseconds(2000));
  EXPECT_EQ(timeout_by("0.5"), milliseconds(500));
  EXPECT_EQ(timeout_by(" +1.25 s"), milliseconds(1250));
  EXPECT_EQ(timeout_by("1e9"), milliseconds(86'400'000));
  EXPECT_EQ(timeout_by("0.00001"), milliseconds(1));
  for (const char* none : {"", "soon", "0", "-3"}) EXPECT_EQ(timeout_by(none), milliseconds(30000));
}

TEST(Environment, LaunchesThatGoTogether) {
  const auto launches_by = [](const char* text) {
    setenv("HOSTNCCL_LAUNCHES", text, 1);
    const Settings settings = read_settings();
    unsetenv("HOSTNCCL_LAUNCHES");
    return settings.launches;
  };
  EXPECT_EQ(launches_by("1"), 1u);
  EXPECT_EQ(launches_by("3"), 3u);
  for (const char* none : {"", "many", "0", "-1"}) EXPECT_EQ(launches_by(none), 2u);
}

// A program may choose one whose numbers have a comma.
TEST(Environment, TimeoutHasAPointInEveryLocale) {
  bool has_comma = false;
  for (const char* name : {"de_DE.UTF-8", "fr_FR.UTF-8", "it_IT.UTF-8", "nl_NL.UTF-8", "de_DE"}) {
    has_comma = has_comma || (std::setlocale(LC_NUMERIC, name) != nullptr &&
                              std::localeconv()->decimal_point[0] == ',');
  }
  if (has_comma) {
    EXPECT_EQ(timeout_by("0.5"), milliseconds(500));
  }
  std::setlocale(LC_NUMERIC, "C");
  if (!has_comma) GTEST_SKIP() << "no such locale";
}

}  // namespace
}  // namespace hostnccl
