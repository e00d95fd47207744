// Statistics and levels of a communicator that another thread asks for while calls go on.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "client_stats.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"

namespace terse::test {
namespace {

constexpr int kRanks = 2;
constexpr size_t kCalls = 1500, kKinds = 300;
constexpr size_t kNoLevels = 1;  // bytes: a NUL

size_t levels_bytes(ncclComm_t comm) {
  size_t bytes = 0;
  EXPECT_EQ(terseCommGetLevels(comm, nullptr, 0, &bytes), ncclSuccess) << terseGetLastError();
  return bytes;
}

void expect_no_less(size_t now, size_t& last) {
  EXPECT_GE(now, last);
  last = now;
}

// Until it is over. Times and levels are not told where a call has them for long.
void ask(ncclComm_t comm, const std::atomic<bool>& over) {
  size_t calls = 0, timed = 0, bytes = kNoLevels;
  while (!over) {
    const terseStats_t stats = client_stats(comm);
    expect_no_less(stats.calls, calls);
    if (stats.timed_calls != 0) expect_no_less(stats.timed_calls, timed);
    if (const size_t now = levels_bytes(comm); now != kNoLevels) expect_no_less(now, bytes);
  }
}

TEST(ConcurrentStats, GrowWhileCallsGoOn) {
  run_ranks(kRanks, [&](int, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("learned3"));
    const HostStream stream(false);
    std::vector<float> in(1000 + kKinds, 1.0f), out(in.size());
    const auto call = [&](size_t count) {
      ASSERT_EQ(terseAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, scheme.get(),
                               comm, stream.get()),
                ncclSuccess)
          << terseGetLastError();
    };
    call(1000);
    std::atomic<bool> over = false;
    std::thread asking([&] { ask(comm, over); });
    for (size_t i = 1; i < kCalls; ++i) call(1000 + i % kKinds);
    stream.synchronize();
    over = true;
    asking.join();
    EXPECT_EQ(client_stats(comm).calls, kCalls);
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
