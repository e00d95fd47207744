// Windows of hosts, by themselves: memory of one rank that another writes into, and reaches only
// where it is that rank's.
#include "backend/host_windows.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>

#include "base/error.h"

namespace terse::test {
namespace {

constexpr Windows::Kinds kAll{.halves = true, .turns = true};
constexpr size_t kBytes = 64 << 10;

// Two ranks in this process.
struct Pair {
  std::unique_ptr<Windows> of[2] = {make_host_windows({0, 2, kBytes, kAll}),
                                    make_host_windows({1, 2, kBytes, kAll})};
  WindowHandle handles[2] = {of[0]->handle(), of[1]->handle()};

  void open() {
    for (const auto& windows : of) windows->open(handles);
  }
};

std::string error_of(const std::function<void()>& part) {
  try {
    part();
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t found = 0;
  for (std::string line; std::getline(maps, line);)
    found += line.find("/memfd:terse-window") != std::string::npos;
  return found;
}

TEST(HostWindows, WhatARankWritesIsThereForItsPeer) {
  Pair pair;
  pair.open();
  for (size_t area = 0; area < Windows::kAreas; ++area) {
    std::memcpy(pair.of[0]->area(1, area), "quantized", 10);
    EXPECT_STREQ(pair.of[1]->area(1, area), "quantized");
  }
}

TEST(HostWindows, AreTestedByAPattern) {
  Pair pair;
  pair.open();
  for (const auto& windows : pair.of) windows->write_pattern();
  EXPECT_EQ(error_of([&] { pair.of[0]->check_pattern(); }), "");
  pair.of[1]->area(1, Windows::kSecondTurn)[kBytes - 1] ^= 1;
  EXPECT_EQ(error_of([&] { pair.of[1]->check_pattern(); }),
            "what rank 0 has written into the window is not there");
}

TEST(HostWindows, OpenNoOtherFiles) {
  Pair pair;
  const int file = fileno(stdin);
  std::memcpy(pair.handles[1].bytes.data() + 8, &file, sizeof file);
  EXPECT_EQ(error_of([&] { pair.open(); }), "the window of rank 1 is out of reach");
}

// As where two processes of two containers have one number.
TEST(HostWindows, OpenNoWindowOfAnother) {
  Pair pair, others;
  std::memcpy(pair.handles[1].bytes.data(), others.handles[1].bytes.data(), 16);
  EXPECT_EQ(error_of([&] { pair.open(); }), "the window of rank 1 is another one's");
}

TEST(HostWindows, OfSizesThatDifferAreNotOpened) {
  Pair pair;
  const auto other = make_host_windows({1, 2, 2 * kBytes, kAll});
  pair.handles[1] = other->handle();
  EXPECT_EQ(error_of([&] { pair.of[0]->open(pair.handles); }),
            "the window of rank 1 is out of reach");
}

// A fused call that no peer answers; returns who has left.
int gone_before(Windows& windows) {
  static int gone;
  gone = -1;
  codec::Mismatch report{};
  const FusedCall call{.windows = &windows,
                       .pushing = true,
                       .number = 1,
                       .report = &report,
                       .is_over = [](const FusedCall&) { return false; },
                       .failed = [](const FusedCall&, int rank) { gone = rank; }};
  run(call);
  return gone;
}

TEST(HostWindows, SayWhoHasLeft) {
  Pair pair;
  pair.open();
  pair.of[1].reset();
  EXPECT_EQ(gone_before(*pair.of[0]), 1);
}

class HowItEnds : public testing::TestWithParam<void (*)(int)> {};
INSTANTIATE_TEST_SUITE_P(HostWindows, HowItEnds, testing::Values(&std::exit, &_exit),
                         [](const auto& p) { return p.index == 0 ? "AtExit" : "AtOnce"; });

// And not of a fork's end.
TEST_P(HowItEnds, ThePeersLearnOfIt) {
  leave_windows_at_exit();
  int pipes[2][2];
  ASSERT_EQ(pipe(pipes[0]) + pipe(pipes[1]), 0);
  const pid_t child = fork();
  const auto rank = static_cast<size_t>(child == 0);
  const auto windows = make_host_windows({static_cast<int>(rank), 2, kBytes, kAll}).release();
  WindowHandle handles[2];
  handles[rank] = windows->handle();
  ASSERT_EQ(write(pipes[rank][1], &handles[rank], sizeof(WindowHandle)),
            ssize_t{sizeof(WindowHandle)});
  ASSERT_EQ(read(pipes[1 - rank][0], &handles[1 - rank], sizeof(WindowHandle)),
            ssize_t{sizeof(WindowHandle)});
  windows->open(handles);
  char done = 0;
  ASSERT_EQ(write(pipes[rank][1], &done, 1), 1);
  ASSERT_EQ(read(pipes[1 - rank][0], &done, 1), 1);
  if (child == 0) {
    if (fork() == 0) std::exit(0);  // of which its parent's peers do not learn
    wait(nullptr);
    GetParam()(0);
  }
  EXPECT_EQ(gone_before(*windows), 1);
  waitpid(child, nullptr, 0);
  delete windows;
}

TEST(HostWindows, LeaveNothing) {
  for (int i = 0; i < 100; ++i) {
    Pair pair;
    pair.open();
    EXPECT_EQ(mappings(), 4u);
  }
  EXPECT_EQ(mappings(), 0u);
}

TEST(HostWindows, OfMoreThanSixteenRanksThereAreNone) {
  EXPECT_EQ(error_of([] {
              make_host_windows({0, 17, kBytes, kAll});
            }),
            "17 ranks are more than 16");
}

TEST(HostWindows, WithoutMemoryAreAnError) {
  EXPECT_NE(error_of([] {
              make_host_windows({0, 2, size_t{1} << 46, kAll});
            }).find("is not to be had"),
            std::string::npos);
}

}  // namespace
}  // namespace terse::test
