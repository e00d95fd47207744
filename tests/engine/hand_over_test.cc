// Which messages of a preload library's group NCCL has in its own group, and which come after that,
// with what is compressed.
#include <gtest/gtest.h>

#include "engine/call/group.h"
#include "engine/call/route.h"
#include "idle.h"

namespace terse::test {
namespace {

using plan::Collective;

class HandOver : public testing::Test {
 protected:
  Request request(Collective collective, size_t count) {
    return {.collective = collective,
            .send = data_,
            .recv = data_ + 1,
            .count = count,
            .comm = reinterpret_cast<ncclComm_t>(data_),
            .stream = stream_};
  }
  void send_natively() {
    const Request r = request(Collective::kSend, 10);
    submit(c_.state, r, {.scheme = {}, .reduction = {}, .bypass = TERSE_BYPASS_OFF});
  }
  void reduce() {
    const Request r = request(Collective::kAllReduce, 5'000);
    submit(c_.state, r, route(c_.state, r, scheme_));
  }

  // Whether NCCL has the messages before its own group ends.
  static bool go_before() {
    test::group_has = {};
    group_hand_over_messages();
    const bool gone = test::group_has.messages;
    group_end();
    EXPECT_TRUE(test::group_has.messages);  // in the end it has them
    return gone;
  }

  const Scheme scheme_ = parse_scheme("int8:algo=twoshot");
  float data_[2] = {};
  const Stream stream_ = reinterpret_cast<Stream>(data_);
  IdleCommunicator c_{scheme_};
};

TEST_F(HandOver, MessagesAloneAreNcclsOwnGroup) {
  group_start();
  send_natively();
  send_natively();
  const size_t before = groups_started;
  EXPECT_TRUE(go_before());
  EXPECT_EQ(groups_started, before);
}

TEST_F(HandOver, BesideWhatIsCompressedTheyComeAfterIt) {
  for (const bool first : {true, false}) {
    group_start();
    if (first) send_natively();
    reduce();
    if (!first) send_natively();
    EXPECT_FALSE(go_before());
  }
}

// A peer may have these two, and something compressed, in its group.
TEST_F(HandOver, BesideANativeCollectiveTheyComeAfterIt) {
  group_start();
  terse::group_has(nullptr, stream_);
  send_natively();
  EXPECT_FALSE(go_before());
}

}  // namespace
}  // namespace terse::test
