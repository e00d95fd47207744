// A program that has an NCCL in it, whose functions it exports: those that this lacks
// (fake/old_nccl.c) are found in the preload library alone.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <string>

namespace {

constexpr int kInvalidUsage = 5;

// Not the program's own.
template <class Function>
Function preloaded(const char* name) {
  return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

TEST(OwnNccl, RefusesAFunctionThatItLacks) {
  const auto last_error = preloaded<const char* (*)(void*)>("ncclGetLastError");
  ASSERT_NE(last_error, nullptr) << "run this by ctest";
  for (const char* name : {"ncclCommShrink", "ncclCommRegister", "pncclCommGrow", "ncclAlltoAll",
                           "ncclCommFinalize", "ncclGroupSimulateEnd"}) {
    const auto function = preloaded<int (*)(long, long, long, long, long, long, long)>(name);
    ASSERT_NE(function, nullptr) << name;
    EXPECT_EQ(function(0, 0, 0, 0, 0, 0, 0), kInvalidUsage) << name;
    const std::string plain = name[0] == 'p' ? name + 1 : name, said = last_error(nullptr);
    EXPECT_NE(said.find(plain + ": the NCCL in use, 2.10.5 ("), std::string::npos) << said;
  }
}

TEST(OwnNccl, CallsWhatItHas) {
  int version = 0;
  EXPECT_EQ(preloaded<int (*)(int*)>("ncclGetVersion")(&version), 0);
  EXPECT_EQ(version, 21005);
  EXPECT_EQ(preloaded<int (*)()>("ncclGroupStart")(), 0);
  EXPECT_EQ(preloaded<int (*)()>("ncclGroupEnd")(), 0);
}

}  // namespace
