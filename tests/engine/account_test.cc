// What a report says of a communicator that another thread is in: of one that is aborted, or at the
// exit.
#include "engine/comm/account.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "idle.h"

namespace terse::test {
namespace {

constexpr uint64_t kCalls = 3000;

// What its own thread writes, the first `kCalls` calls.
void use(Communicator& c) {
  const ShadowKind kind{};
  for (uint64_t i = 1; i <= kCalls; ++i) {
    c.routing().plans().learn(plan::even_topology(c.ranks, 1 + static_cast<int>(i) % c.ranks));
    c.agreed().conclude(i, 0, i);
    c.metrics().counters().add(
        {.calls = 1,
         .is_fused = true,
         .sent = {.raw = {.bytes = 40, .off_node = 4}, .wire = {.bytes = 10}},
         .scratch_bytes = i,
         .window_bytes = i / 2,
         .of_all_ranks = true});
    c.metrics().counters().add_size(Outcome::kCompressed, 1024);
    c.metrics().counters().add_native(TERSE_BYPASS_OP, {.bytes = 100, .off_node = 10});
    c.memory().shadows().pass_by(kind, nullptr);
  }
}

// A thread sanitizer sees what is read unguarded.
TEST(Account, IsOfACommunicatorInUse) {
  IdleCommunicator c{parse_scheme("int8")};
  std::atomic<bool> over{false};
  std::thread user([&] {
    use(c.state);
    over = true;
  });
  uint64_t last = 0;
  while (!over) {
    const report::Communicator account = account_of(c.state, false);
    EXPECT_LT(account.node, account.nodes);
    EXPECT_GE(account.native.bytes, last);
    last = account.native.bytes;
  }
  user.join();
  const report::Communicator account = account_of(c.state, false);
  EXPECT_EQ(account.id, kCalls);
  EXPECT_EQ(account.native.bytes, 100 * kCalls);
  EXPECT_EQ(account.native.off_node, 10 * kCalls);
  EXPECT_EQ(account.scratch_bytes, kCalls);
  EXPECT_EQ(account.window_bytes, kCalls / 2);
  EXPECT_EQ(c.state.metrics().counters().stats().fused_calls, kCalls);
  EXPECT_EQ(account.sizes.compressed.classes[10], (Sizes::Class{kCalls, 1024 * kCalls}));
  EXPECT_EQ(account.deltas.size(), 1u);
}

// What a measured error is to be compared with: of each, the format that errs most, and any that
// rounds to nearest.
TEST(Account, ScalesErrorsByTheFormats) {
  const struct {
    const char* scheme;
    double gaussian;
    bool unbiased;
  } cases[] = {
      {"int8:block=128,round=nearest", 0.0065, false},
      {"int8:block=128,round=stochastic", 0.0092, true},
      {"int4:block=128,round=stochastic", 0.166, true},
      {"int8:round=stochastic,intra=int4", 0.166, true},
      {"int4:round=stochastic,second-round=nearest", 0.166, false},
  };
  for (const auto& [scheme, gaussian, unbiased] : cases) {
    const report::ErrorScale scale = error_scale_of(parse_scheme(scheme));
    EXPECT_NEAR(scale.gaussian, gaussian, 0.02 * gaussian) << scheme;
    EXPECT_EQ(scale.unbiased, unbiased) << scheme;
  }
}

}  // namespace
}  // namespace terse::test
