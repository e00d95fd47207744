// Where NCCL is looked for.
#include "nccl/find.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/error.h"
#include "nccl/objects.h"

namespace terse {
namespace {

const std::string kFake = FAKES "/site-packages/nvidia/nccl/lib/libnccl.so.2";

std::string canonical(const std::string& path) { return std::filesystem::canonical(path); }

// Of this process: others may run the same test.
std::filesystem::path own_path(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / (std::to_string(getpid()) + "-" + name);
}

TEST(FindNccl, TheSettingComesFirst) {
  ASSERT_NE(dlopen(FAKES "/site-packages/framework/lib/libbeside_wheel.so", RTLD_NOW), nullptr);
  const FoundNccl found = find_nccl(kFake);
  EXPECT_EQ(canonical(found.path), canonical(kFake));
  EXPECT_FALSE(found.embedded);
  EXPECT_NE(find_symbol(found.handle, "fakeCalls"), nullptr);
}

TEST(FindNccl, ASettingThatLeadsNowhereIsAnError) {
  for (const char* path : {"/no/such/libnccl.so.2", "libm.so.6", PRELOAD}) {
    try {
      find_nccl(path);
      FAIL() << path;
    } catch (const Error& e) {
      EXPECT_EQ(e.result, ncclSystemError);
      EXPECT_NE(e.message.find(path), std::string::npos) << e.message;
    }
  }
}

// Under a preloaded malloc, where the NCCL frees what libc has allocated by it.
TEST(OtherMalloc, IsTheNcclsToo) {
  const std::string path = FAKES "/freeing/libnccl.so.2";
  EXPECT_EQ(canonical(find_nccl(path).path), canonical(path));
}

TEST(FindNccl, ThenTheOneThatIsLoadedUnderWhateverName) {
  const auto copy = own_path("libnccl-of-another-name.so");
  std::filesystem::copy_file(canonical(kFake), copy,
                             std::filesystem::copy_options::overwrite_existing);
  ASSERT_NE(dlopen(copy.c_str(), RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  EXPECT_EQ(canonical(find_nccl("").path), canonical(copy));
  std::filesystem::remove(copy);
}

TEST(FindNccl, ThenAnyLibraryThatHasOneInIt) {
  ASSERT_NE(dlopen(FAKES "/old/libframework.so", RTLD_NOW | RTLD_LOCAL), nullptr) << dlerror();
  const FoundNccl found = find_nccl("");
  EXPECT_EQ(canonical(found.path), canonical(FAKES "/old/libframework.so"));
  EXPECT_TRUE(found.embedded);
}

TEST(FindNccl, ThenTheWheelBesideWhatIsLoaded) {
  ASSERT_NE(dlopen(FAKES "/site-packages/framework/lib/libbeside_wheel.so", RTLD_NOW), nullptr);
  EXPECT_EQ(canonical(find_nccl("").path), canonical(kFake));
}

TEST(FindNccl, ThePreloadLibraryIsNone) {
  ASSERT_NE(dlopen(PRELOAD, RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
  ASSERT_NE(dlopen(FAKES "/site-packages/framework/lib/libbeside_wheel.so", RTLD_NOW), nullptr);
  EXPECT_EQ(canonical(find_nccl("").path), canonical(kFake));
}

TEST(FindNccl, WhatWasTriedIsSaidWhereThereIsNone) {
  try {
    const FoundNccl found = find_nccl("");
    GTEST_SKIP() << "this machine's loader knows " << found.path;
  } catch (const Error& e) {
    for (const char* part : {"a libnccl.so.2 that is loaded", "the program's own symbols",
                             "libnccl.so.2", "TERSE_NCCL"})
      EXPECT_NE(e.message.find(part), std::string::npos) << e.message;
  }
}

TEST(FindNccl, FoldersOfPackages) {
  const std::filesystem::path prefix = own_path("a_python");
  const auto packages = prefix / "lib/python3.12/site-packages";
  std::filesystem::create_directories(packages / "nvidia/nccl/lib");
  std::filesystem::create_directories(prefix / "lib/cmake");
  std::ofstream(packages / "nvidia/nccl/lib/libnccl.so.2") << "x";
  const auto folders = package_folders(prefix);
  EXPECT_EQ(folders, (std::vector<std::string>{prefix / "lib/python3.12/dist-packages", packages}));
  EXPECT_EQ(nccl_of_packages(folders),
            (std::vector<std::string>{packages / "nvidia/nccl/lib/libnccl.so.2"}));
  EXPECT_EQ(package_folders(prefix, "python3.12"), folders);
  EXPECT_TRUE(package_folders(prefix, "python3.1").empty());
  EXPECT_TRUE(package_folders(prefix / "nowhere").empty());
  std::filesystem::remove_all(prefix);
}

}  // namespace
}  // namespace terse
