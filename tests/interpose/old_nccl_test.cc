// What a program is told when its NCCL lacks a function, and whose last error it sees. The NCCL is
// fake/old_nccl.c, named by TERSE_NCCL.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <thread>

namespace {

constexpr int kInvalidArgument = 4, kInvalidUsage = 5;

template <class Function>
Function preloaded(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

std::string last_error() { return preloaded<const char* (*)(void*)>("ncclGetLastError")(nullptr); }

TEST(OldNccl, AFunctionThatItLacksIsInvalidUsageAndSaysSo) {
  for (const char* name : {"ncclCommGrow", "ncclCommRegister", "pncclCommGrow", "ncclCommShrink",
                           "ncclAllReduceConfig"}) {
    EXPECT_EQ(preloaded<int (*)(long, long, long, long, long, long, long, long)>(name)(0, 0, 0, 0,
                                                                                       0, 0, 0, 0),
              kInvalidUsage)
        << name;
    const std::string plain = name[0] == 'p' ? name + 1 : name;
    EXPECT_NE(last_error().find(plain + ": the NCCL in use, 2.10.5 ("), std::string::npos)
        << last_error();
  }
}

struct Team {
  int ranks, rank, stride;
};

TEST(OldNccl, WhatCannotFailGivesNothing) {
  EXPECT_STREQ(preloaded<const char* (*)(int)>("ncclGetErrorString")(1),
               "unknown: there is no NCCL that could say it");  // for it is printed
  const Team team = preloaded<Team (*)(void*)>("ncclTeamWorld")(nullptr);
  EXPECT_EQ(team.ranks | team.rank | team.stride, 0);
  EXPECT_NE(last_error().find("ncclTeamWorld"), std::string::npos);
  preloaded<void (*)()>("ncclParamDumpAll")();
  EXPECT_NE(last_error().find("ncclParamDumpAll"), std::string::npos);
}

// A client that looks for a feature gets the answer of its NCCL.
TEST(OldNccl, ALookUpOnTheHandleFindsNothing) {
  void* handle = dlopen(std::getenv("TERSE_NCCL"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(handle, nullptr) << dlerror();
  for (const char* name : {"ncclCommGrow", "pncclCommGrow", "pncclAllReduce"}) {
    EXPECT_EQ(dlsym(handle, name), nullptr);
    EXPECT_NE(std::string(dlerror()).find(name), std::string::npos);
  }
  EXPECT_NE(dlsym(handle, "ncclAllReduce"), nullptr);
  EXPECT_EQ(dlerror(), nullptr);
}

// TERSE_NCCL serves all, also who has opened another one.
TEST(OldNccl, ASecondNcclIsReplaced) {
  void* second = dlopen(std::getenv("SECOND_NCCL"), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(second, nullptr) << dlerror();
  for (const char* name : {"ncclAllReduce", "ncclSend", "ncclCommGrow"})
    EXPECT_EQ(dlsym(second, name), preloaded<void*>(name)) << name;
  EXPECT_EQ(dlsym(second, "pncclAllReduce"), nullptr) << "which is the second's alone";
  int version = 0;
  EXPECT_EQ(reinterpret_cast<int (*)(int*)>(dlsym(second, "ncclGetVersion"))(&version), 0);
  EXPECT_EQ(version, 21005);
  EXPECT_NE(dlsym(second, "fakeCalls"), nullptr);
}

TEST(OldNccl, TheLastErrorIsThatOfWhoeverFailedLastOnAnyThread) {
  const auto shrink = preloaded<int (*)(long, long, long, long, long, long)>("ncclCommShrink");
  const auto broadcast = preloaded<int (*)(const char*)>("ncclBroadcast");
  EXPECT_EQ(broadcast("NCCL's first"), kInvalidArgument);
  EXPECT_EQ(last_error(), "NCCL's first");
  std::thread([&] { EXPECT_EQ(shrink(0, 0, 0, 0, 0, 0), kInvalidUsage); }).join();
  EXPECT_NE(last_error().find("ncclCommShrink"), std::string::npos) << last_error();
  std::thread([&] { EXPECT_EQ(broadcast("NCCL's second"), kInvalidArgument); }).join();
  EXPECT_EQ(last_error(), "NCCL's second");
  EXPECT_EQ(last_error(), "NCCL's second");
}

}  // namespace
