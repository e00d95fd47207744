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

size_t levels_bytes(ncclComm_t comm) {
  size_t bytes = 0;
  EXPECT_EQ(terseCommGetLevels(comm, nullptr, 0, &bytes), ncclSuccess) << terseGetLastError();
  return bytes;
}

// Until it is over; what is told never goes back.
void ask(ncclComm_t comm, const std::atomic<bool>& over) {
  terseStats_t last{};
  size_t last_bytes = 0;
  while (!over) {
    const terseStats_t now = client_stats(comm);
    EXPECT_GE(now.calls, last.calls);
    EXPECT_GE(now.timed_calls, last.timed_calls);
    last = now;
    const size_t bytes = levels_bytes(comm);
    EXPECT_GE(bytes, last_bytes);
    last_bytes = bytes;
  }
}

TEST(AskedMeanwhile, TellsWhatIsSoFar) {
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
