// Which messages of a preload library's group NCCL has in its own group, and which come after that,
// with what is compressed.
#include <gtest/gtest.h>

#include "idle_caller.h"

namespace terse::test {
namespace {

using plan::Collective;

class NativeMessages : public testing::Test, protected IdleCaller {
 protected:
  void send_natively() {
    const Route way{.way = Native{TERSE_BYPASS_OFF}};
    submit(c.state, request(Collective::kSend, 10), way);
  }

  // Whether NCCL has the messages before its own group ends.
  static bool go_before() {
    test::group_content = {};
    group_call_nccl_for_messages();
    const bool gone = test::group_content.messages;
    group_end();
    EXPECT_TRUE(test::group_content.messages);  // in the end it has them
    return gone;
  }
};

TEST_F(NativeMessages, AloneAreNcclsOwnGroup) {
  group_start();
  send_natively();
  send_natively();
  const size_t before = groups_started;
  EXPECT_TRUE(go_before());
  EXPECT_EQ(groups_started, before);
}

TEST_F(NativeMessages, FollowTheCompressedCallsOfTheirGroup) {
  for (const bool first : {true, false}) {
    group_start();
    if (first) send_natively();
    compress(Collective::kAllReduce, 5'000);
    if (!first) send_natively();
    EXPECT_FALSE(go_before());
  }
}

// A peer may have these two, and something compressed, in its group.
TEST_F(NativeMessages, FollowTheNativeCollectivesOfTheirGroup) {
  group_start();
  terse::group_add_native(nullptr, request(Collective::kAllGather, 10).stream);
  send_natively();
  EXPECT_FALSE(go_before());
}

}  // namespace
}  // namespace terse::test
