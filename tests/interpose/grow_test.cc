// Communicators that grow (ncclCommGrow), under TERSE_SCHEME="name=grad* -> int4" and an NCCL that
// can (fake/growing_nccl.cc).
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <string>

#include "named.h"

namespace terse::test {
namespace {

constexpr int kBefore = 2, kAfter = 3;

ncclResult_t grow(ncclComm_t whole, const ncclUniqueId* id, int rank, ncclComm_t* grown,
                  ncclConfig_t config) {
  using Grow =
      ncclResult_t (*)(ncclComm_t, int, const ncclUniqueId*, int, ncclComm_t*, ncclConfig_t*);
  static const auto function = reinterpret_cast<Grow>(dlsym(RTLD_DEFAULT, "ncclCommGrow"));
  return function(whole, kAfter, id, rank, grown, &config);
}

// Runs body(rank, grow) on a thread for each rank, where grow(grown, config) is that rank's call.
template <class Body>
void on_growing(bool blocking, const Body& body) {
  ncclUniqueId later;
  ASSERT_EQ(ncclGetUniqueId(&later), ncclSuccess);
  on_threads(kAfter, [&](int rank, const ncclUniqueId& id) {
    ncclComm_t whole = nullptr;
    if (rank < kBefore) whole = made_with(named("all", blocking), rank, kBefore, id);
    body(rank, [&](ncclComm_t* grown, const ncclConfig_t& config) {
      const bool knows = rank == 1 || whole == nullptr;  // rank 1 has told the new one
      return grow(whole, knows ? &later : nullptr, whole != nullptr ? -1 : rank, grown, config);
    });
    if (whole != nullptr) ncclCommDestroy(whole);
  });
}

// One that does not block may be in progress.
void expect_begun(ncclResult_t result, bool blocking) {
  EXPECT_TRUE(result == ncclSuccess || (!blocking && result == ncclInProgress)) << result;
}

TEST(Grow, GoesByItsOwnName) {
  for (const bool blocking : {true, false})
    for (const std::string name : {"grad-more", "more"})
      on_growing(blocking, [&](int, const auto& grow) {
        ncclComm_t grown = nullptr;
        expect_begun(grow(&grown, named(name.c_str(), blocking)), blocking);
        ASSERT_EQ(settled(ncclInProgress, grown), ncclSuccess);
        expect_compressed(name == "grad-more", grown, name);
        ncclCommDestroy(grown);
      });
}

TEST(Grow, ComparesSettingsAtCreation) {
  on_growing(true, [&](int rank, const auto& grow) {
    ncclComm_t grown = nullptr;
    const char* const name = rank < kBefore ? "grad-more" : "grad-other";
    EXPECT_EQ(grow(&grown, named(name, true)), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(nullptr)).find("\"grad-other\""), std::string::npos)
        << ncclGetLastError(nullptr);
    EXPECT_EQ(grown, nullptr);
  });
}

TEST(Grow, ComparesSettingsBeforeTheFirstCallWhereNothingBlocks) {
  on_growing(false, [&](int rank, const auto& grow) {
    ncclComm_t grown = nullptr;
    const char* const name = rank < kBefore ? "grad-more" : "grad-other";
    expect_begun(grow(&grown, named(name, false)), false);
    EXPECT_EQ(settled(ncclInProgress, grown), ncclInvalidUsage);
    EXPECT_NE(std::string(ncclGetLastError(grown)).find("\"grad-other\""), std::string::npos)
        << ncclGetLastError(grown);
    std::vector<float> x(50'000, 1.0f);
    EXPECT_EQ(ncclAllReduce(x.data(), x.data(), x.size(), ncclFloat32, ncclSum, grown, nullptr),
              ncclInvalidUsage);
    EXPECT_EQ(x, std::vector<float>(50'000, 1.0f));
    ncclCommAbort(grown);
  });
}

}  // namespace
}  // namespace terse::test
