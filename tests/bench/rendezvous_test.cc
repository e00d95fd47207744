#include "rendezvous.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <mutex>
#include <thread>

#include "free_port.h"
#include "lifeline.h"
#include "team.h"
#include "watchdog.h"

namespace terse::perf {
namespace {

using std::chrono::steady_clock;
using test::free_port;

// Runs n "processes" as threads; returns what each threw, "" for nothing.
std::vector<std::string> processes(int n, const std::function<void(int)>& body) {
  std::vector<std::string> errors(static_cast<std::size_t>(n));
  std::vector<std::thread> threads;
  for (int p = 0; p < n; ++p) {
    threads.emplace_back([&, p] {
      try {
        body(p);
      } catch (const std::exception& error) {
        errors[static_cast<std::size_t>(p)] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

TEST(Rendezvous, EverybodyGetsEverybodysBlob) {
  const int port = free_port();
  const auto errors = processes(4, [&](int p) {
    Rendezvous rendezvous({p, 4, "127.0.0.1", port, 10});
    for (int round = 0; round < 3; ++round) {
      const std::string mine(static_cast<std::size_t>(p * 100000 + round),
                             static_cast<char>('a' + p));
      const std::vector<std::string> all = rendezvous.all_gather(mine, 10);
      ASSERT_EQ(all.size(), 4u);
      for (int q = 0; q < 4; ++q) {
        EXPECT_EQ(
            all[static_cast<std::size_t>(q)],
            std::string(static_cast<std::size_t>(q * 100000 + round), static_cast<char>('a' + q)));
      }
    }
  });
  EXPECT_EQ(errors, std::vector<std::string>(4));
}

TEST(Rendezvous, OneProcessNeedsNobody) {
  Rendezvous rendezvous({0, 1, "no such host", 1, 1});
  EXPECT_EQ(rendezvous.all_gather("x", 1), std::vector<std::string>{"x"});
}

TEST(Rendezvous, FirstTimesOutNamingTheMissing) {
  const int port = free_port();
  const auto errors = processes(2, [&](int p) {
    Rendezvous rendezvous({p, 4, "127.0.0.1", port, 3});  // 2 and 3 never come
  });
  EXPECT_NE(errors[0].find("missing of the 4 processes: 2, 3"), std::string::npos) << errors[0];
  EXPECT_NE(errors[1], "");
}

TEST(Rendezvous, OthersTimeOutNamingTheAddress) {
  const int port = free_port();
  const auto errors = processes(1, [&](int) {
    Rendezvous rendezvous({1, 2, "127.0.0.1", port, 0.3});
  });
  EXPECT_NE(errors[0].find("127.0.0.1:" + std::to_string(port)), std::string::npos) << errors[0];
  EXPECT_NE(errors[0].find("MASTER_PORT"), std::string::npos) << errors[0];
}

TEST(Rendezvous, AllGatherTimesOut) {
  const int port = free_port();
  std::atomic<bool> done = false;
  const auto errors = processes(2, [&](int p) {
    Rendezvous rendezvous({p, 2, "127.0.0.1", port, 10});
    if (p == 0) {
      try {
        rendezvous.all_gather("x", 0.2);
      } catch (...) {
        done = true;
        throw;
      }
    }
    while (!done) std::this_thread::yield();  // says nothing, but stays
  });
  EXPECT_NE(errors[0].find("timed out"), std::string::npos) << errors[0];
}

TEST(Rendezvous, StrangersOnThePortAreTurnedAway) {
  const int port = free_port();
  const auto errors = processes(3, [&](int p) {
    if (p == 2) {
      for (int i = 0; i < 50; ++i) {
        if (const auto stranger = try_connect("127.0.0.1", port, after(1))) {
          const char request[] = "GET / HTTP/1.1\r\nHost: somebody\r\n\r\n";
          stranger->send(request, sizeof(request), after(1));
          return;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
      return;
    }
    if (p == 1) std::this_thread::sleep_for(std::chrono::milliseconds(300));
    Rendezvous rendezvous({p, 2, "127.0.0.1", port, 10});
    EXPECT_EQ(rendezvous.all_gather(std::to_string(p), 10), (std::vector<std::string>{"0", "1"}));
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
}

TEST(Rendezvous, TwoOfTheSameNumberAreAnError) {
  const int port = free_port();
  const auto errors = processes(3, [&](int p) {
    Rendezvous rendezvous({p == 2 ? 1 : p, 3, "127.0.0.1", port, 5});
  });
  EXPECT_NE(errors[0].find("two processes came as number 1"), std::string::npos) << errors[0];
}

TEST(Team, CombinesOverThreadsAndProcesses) {
  const int port = free_port();
  const auto errors = processes(2, [&](int p) {
    Rendezvous rendezvous({p, 2, "127.0.0.1", port, 10});
    Team team(rendezvous, 3, 10);
    const auto inner = processes(3, [&](int thread) {
      const double mine = 10 * p + thread;  // 0 1 2 10 11 12
      EXPECT_EQ(team.combine(thread, mine, Average::kRank0), 0);
      EXPECT_EQ(team.combine(thread, mine, Average::kMean), 6);
      EXPECT_EQ(team.combine(thread, mine, Average::kMin), 0);
      EXPECT_EQ(team.combine(thread, mine, Average::kMax), 12);
      EXPECT_EQ(team.combine(thread, mine, Average::kSum), 36);
      EXPECT_EQ(team.gather_values(thread, p * 3 + thread), (std::vector<int>{0, 1, 2, 3, 4, 5}));
    });
    EXPECT_EQ(inner, std::vector<std::string>(3));
  });
  EXPECT_EQ(errors, std::vector<std::string>(2));
}

TEST(Lifeline, IsSilentAfterGoodbyes) {
  const int port = free_port();
  const auto errors = processes(3, [&](int p) {
    Rendezvous rendezvous({p, 3, "127.0.0.1", port, 10});
    Lifeline lifeline(p, rendezvous.take_lifelines(),
                      [](const std::string& message) { ADD_FAILURE() << message; });
    if (p == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  });
  EXPECT_EQ(errors, std::vector<std::string>(3));
}

TEST(Lifeline, ReportsALostProcess) {
  const int port = free_port();
  std::mutex mutex;
  std::vector<std::string> messages;
  processes(3, [&](int p) {
    Rendezvous rendezvous({p, 3, "127.0.0.1", port, 10});
    std::vector<Socket> peers = rendezvous.take_lifelines();
    rendezvous.all_gather("", 10);
    if (p == 2) return;  // its connections close without a word
    std::atomic<bool> heard = p != 0;
    Lifeline lifeline(p, std::move(peers), [&](const std::string& message) {
      const std::lock_guard<std::mutex> lock(mutex);
      messages.push_back(std::to_string(p) + ": " + message);
      heard = true;
    });
    while (!heard) std::this_thread::yield();
  });
  ASSERT_FALSE(messages.empty());
  EXPECT_EQ(messages[0], "0: process 2 has ended early");
}

TEST(Watchdog, BarksOnlyWithoutProgress) {
  std::atomic<int> barks = 0;
  steady_clock::duration longest{};  // between two kicks, of a machine that does much else
  auto before = steady_clock::now();
  {
    Watchdog kicked(1, [&](const std::string&) { ++barks; });
    for (int i = 0; i < 13; ++i) {
      const auto begin = steady_clock::now();
      kicked.kick("step");
      longest = std::max(longest, steady_clock::now() - before);
      before = begin;
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }
  longest = std::max(longest, steady_clock::now() - before);
  EXPECT_TRUE(barks == 0 || longest >= std::chrono::seconds(1)) << barks;
  barks = 0;
  std::string last;
  {
    Watchdog left(1, [&](const std::string& what) {
      last = what;
      ++barks;
    });
    left.kick("the long step");
    const auto limit = steady_clock::now() + std::chrono::seconds(60);
    while (barks == 0 && steady_clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(barks, 1);
  EXPECT_EQ(last, "the long step");
}

}  // namespace
}  // namespace terse::perf
