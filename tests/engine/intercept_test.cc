// What becomes of the calls that the preload library offers.
#include "engine/call/intercept.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "policy/profile_file.h"
#include "ranks.h"

namespace terse::test {
namespace {

using plan::Collective;

Settings with_scheme(const char* scheme) {
  return read_settings(
      [=](const char* name) { return std::strcmp(name, "TERSE_SCHEME") == 0 ? scheme : nullptr; });
}

const Settings& compressing() {
  static const Settings s = with_scheme("allreduce -> int8; sendrecv -> int8");
  return s;
}

constexpr size_t kCount = 1 << 16;

struct Caller {
  explicit Caller(ncclComm_t comm) : comm(comm) {}
  ~Caller() { release_communicator(comm, true); }

  Request all_reduce() {
    return {.collective = Collective::kAllReduce,
            .send = data.data(),
            .recv = data.data(),
            .count = kCount};
  }
  Request message(Collective collective, int peer) {
    return {.collective = collective,
            .send = data.data(),
            .recv = data.data(),
            .count = kCount,
            .datatype = ncclInt32,
            .root = peer};
  }
  terseStats_t stats() const { return find_communicator(comm)->metrics().counters().stats(); }

  const ncclComm_t comm;
  std::vector<float> data = std::vector<float>(kCount, 1.5f);
};

TEST(Interception, TakesACallThatARuleNames) {
  run_ranks(2, [](int, ncclComm_t comm) {
    Caller caller(comm);
    const Interception answer = intercept(caller.comm, caller.all_reduce(), compressing());
    EXPECT_EQ(answer.result, ncclSuccess);
    EXPECT_EQ(answer.bypass, std::nullopt);
    EXPECT_EQ(caller.data, std::vector<float>(kCount, 3.0f));
    EXPECT_EQ(caller.stats().calls, 1u);
    EXPECT_EQ(caller.stats().bypasses[TERSE_BYPASS_OFF], 0u);
  });
}

// Nothing is done, and the reason is counted.
void expect_native(Caller& caller, const Request& request, int reason) {
  const std::vector<float> before = caller.data;
  const Interception answer = intercept(caller.comm, request, compressing());
  EXPECT_EQ(answer.result, std::nullopt);
  EXPECT_EQ(answer.bypass, reason);
  EXPECT_EQ(caller.data, before);
  EXPECT_EQ(caller.stats().bypasses[reason], 1u);
  EXPECT_EQ(caller.stats().calls, 0u);
}

// Before anything goes by it: `auto` looks the root's node up, and what is traced its plan.
TEST(Interception, LeavesARootOutOfRangeToNccl) {
  static const Settings reducing = [] {
    Settings s = with_scheme("reduce -> auto");
    s.profile = read_profile("v100-8x-10gbit");
    return s;
  }();
  run_ranks(2, [](int, ncclComm_t comm) {
    Caller caller(comm);
    Request reduce = caller.all_reduce();
    reduce.collective = Collective::kReduce;
    for (const int root : {-1, 2, 1'000'000}) {
      reduce.root = root;
      const Interception answer = intercept(caller.comm, reduce, reducing);
      EXPECT_EQ(answer.result, std::nullopt);
      EXPECT_EQ(answer.bypass, std::nullopt);
    }
    EXPECT_EQ(caller.data, std::vector<float>(kCount, 1.5f));
  });
}

// The same: of so many elements no plan can be made. With a scheme that is named, too.
TEST(Interception, LeavesMoreThanAllMemoryToNccl) {
  static const Settings choosing = [] {
    Settings s = with_scheme("allreduce -> auto");
    s.profile = read_profile("a100-8x-nvlink");
    return s;
  }();
  run_ranks(2, [](int, ncclComm_t comm) {
    Caller caller(comm);
    Request sum = caller.all_reduce();
    for (const Settings* settings : {&choosing, &compressing()})
      for (const size_t count : {static_cast<size_t>(-1), (size_t{1} << 45) + 1}) {
        sum.count = count;
        const Interception answer = intercept(caller.comm, sum, *settings);
        EXPECT_EQ(answer.result, std::nullopt) << count;
        EXPECT_EQ(answer.bypass, std::nullopt) << count;
      }
    EXPECT_EQ(find_communicator(comm), nullptr);
    EXPECT_EQ(caller.data, std::vector<float>(kCount, 1.5f));
  });
}

TEST(Interception, CountsTheReasonOfANativeCall) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    Caller caller(comm);
    Request r = caller.all_reduce();
    r.count = 100;
    expect_native(caller, r, TERSE_BYPASS_SMALL);
    EXPECT_EQ(caller.stats().native_bytes, 400u);
    r = caller.all_reduce();
    r.op = ncclMax;
    expect_native(caller, r, TERSE_BYPASS_OP);
    r = caller.all_reduce();
    r.collective = Collective::kBroadcast;
    expect_native(caller, r, TERSE_BYPASS_OFF);
    expect_native(caller, caller.message(Collective::kSend, 1 - rank), TERSE_BYPASS_DTYPE);
  });
}

// Which has its own words for it.
TEST(Interception, LeavesInvalidArgumentsToNccl) {
  run_ranks(1, [](int, ncclComm_t comm) {
    Caller caller(comm);
    Request untyped = caller.all_reduce();
    untyped.datatype = static_cast<ncclDataType_t>(99);
    const std::pair<ncclComm_t, Request> cases[] = {{comm, untyped},
                                                    {nullptr, caller.all_reduce()}};
    for (const auto& [on, wrong] : cases) {
      const Interception answer = intercept(on, wrong, compressing());
      EXPECT_EQ(answer.result, std::nullopt);
      EXPECT_EQ(answer.bypass, std::nullopt);
    }
    EXPECT_EQ(find_communicator(comm), nullptr);
  });
}

TEST(Interception, MakesNoCommunicatorWhereNothingIsCompressed) {
  run_ranks(2, [](int, ncclComm_t comm) {
    static const Settings off = with_scheme("off");
    Caller caller(comm);
    const Interception answer = intercept(caller.comm, caller.all_reduce(), off);
    EXPECT_EQ(answer.result, std::nullopt);
    EXPECT_EQ(answer.bypass, TERSE_BYPASS_OFF);
    EXPECT_EQ(find_communicator(comm), nullptr);
  });
}

TEST(Interception, ThrowsWhereASettingCannotBeRead) {
  run_ranks(1, [](int, ncclComm_t comm) {
    static const Settings wrong = with_scheme("int99");
    Caller caller(comm);
    try {
      intercept(caller.comm, caller.all_reduce(), wrong);
      ADD_FAILURE() << "no error";
    } catch (const Error& e) {
      EXPECT_EQ(e.result, ncclInvalidArgument);
      EXPECT_NE(e.message.find("TERSE_SCHEME=\"int99\""), std::string::npos) << e.message;
    }
  });
}

// Messages of a group keep their order, so those that stay native are taken too.
TEST(Interception, TakesAGroupsMessagesTogether) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    Caller caller(comm);
    std::vector<float> received(kCount);
    caller.data.assign(kCount, 1.0f + static_cast<float>(rank));
    group_start();
    const Interception sent =
        intercept(caller.comm, caller.message(Collective::kSend, 1 - rank), compressing());
    Request r = caller.message(Collective::kRecv, 1 - rank);
    r.recv = received.data();
    const Interception got = intercept(caller.comm, r, compressing());
    for (const Interception& answer : {sent, got}) {
      EXPECT_EQ(answer.result, ncclSuccess);
      EXPECT_EQ(answer.bypass, TERSE_BYPASS_DTYPE);
    }
    EXPECT_EQ(received, std::vector<float>(kCount));
    group_end();
    EXPECT_EQ(received, std::vector<float>(kCount, 2.0f - static_cast<float>(rank)));
    EXPECT_EQ(caller.stats().bypasses[TERSE_BYPASS_DTYPE], 2u);
  });
}

}  // namespace
}  // namespace terse::test
