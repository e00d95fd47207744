#include "engine/comm/health.h"

#include <gtest/gtest.h>

namespace terse::test {
namespace {

using enum Health;
using enum HealthEvent;

TEST(Health, PoisonsAHealthyCommunicator) { EXPECT_EQ(after(kHealthy, kPoison), kPoisoned); }

TEST(Health, ComesBackFromARevokeThatNcclRefused) {
  EXPECT_EQ(after(after(kHealthy, kRevoke), kRestore), kHealthy);
  EXPECT_EQ(after(after(kPoisoned, kRevoke), kRestore), kPoisoned);
}

TEST(Health, KeepsAPoisonThatCameWhileItWasRevoked) {
  EXPECT_EQ(after(kRevoked, kPoison), kRevokedPoisoned);
  EXPECT_EQ(after(kRevokedPoisoned, kRestore), kPoisoned);
}

TEST(Health, StaysAborted) {
  for (const HealthEvent event : {kPoison, kRevoke, kRestore, kAbort})
    EXPECT_EQ(after(kAborted, event), kAborted);
}

TEST(Health, IsAbortedFromEveryState) {
  for (const Health health : {kHealthy, kPoisoned, kRevoked, kRevokedPoisoned, kAborted})
    EXPECT_EQ(after(health, kAbort), kAborted);
}

TEST(Health, ChangesByNoEventASecondTime) {
  for (const Health health : {kHealthy, kPoisoned, kRevoked, kRevokedPoisoned, kAborted})
    for (const HealthEvent event : {kPoison, kRevoke, kRestore, kAbort})
      EXPECT_EQ(after(after(health, event), event), after(health, event));
}

}  // namespace
}  // namespace terse::test
