// In what order the calls of a group are made.
#include "engine/call/group_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "idle_caller.h"

namespace terse::test {
namespace {

using plan::Collective;

class GroupSchedules : public testing::Test, protected IdleCaller {
 protected:
  template <class Way>
  Job job(Collective collective, const Way& way) {
    return {&c.state, request(collective, 10), {.way = way}};
  }
  Job native(Collective collective) { return job(collective, Native{TERSE_BYPASS_OFF}); }
  Job compressed(Collective collective) { return job(collective, Compressed{scheme}); }

  static std::string names(const Jobs& jobs) {
    std::string text;
    for (const Job* job : jobs)
      text += fmt::format(" {}{}", job->is_native() ? "native " : "",
                          plan::name(job->request.collective));
    return text;
  }

  static std::string print(std::vector<Job> group) {
    const GroupSchedule s = schedule(group, std::pmr::get_default_resource());
    return fmt::format("NCCL:{}; terse:{}", names(s.native), names(s.compressed));
  }
};

TEST_F(GroupSchedules, NativeCallsComeFirst) {
  EXPECT_EQ(print({compressed(Collective::kAllReduce), native(Collective::kAllGather)}),
            "NCCL: native AllGather; terse: AllReduce");
}

TEST_F(GroupSchedules, CallsOfAKindKeepTheirOrder) {
  EXPECT_EQ(print({native(Collective::kReduce), compressed(Collective::kAllReduce),
                   native(Collective::kAllGather), compressed(Collective::kBroadcast)}),
            "NCCL: native Reduce native AllGather; terse: AllReduce Broadcast");
}

// Its peer may have a message beside a compressed call, or alone.
TEST_F(GroupSchedules, NativeMessagesGoWithWhatIsCompressed) {
  EXPECT_EQ(print({native(Collective::kSend), compressed(Collective::kAllReduce),
                   native(Collective::kAllGather), native(Collective::kRecv)}),
            "NCCL: native AllGather; terse: native Send AllReduce native Recv");
}

TEST_F(GroupSchedules, NativeMessagesAreNcclsWhereNothingIsCompressed) {
  EXPECT_EQ(print({native(Collective::kSend), native(Collective::kAllGather)}),
            "NCCL: native Send native AllGather; terse:");
}

}  // namespace
}  // namespace terse::test
