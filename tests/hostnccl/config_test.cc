// The calls that take a configuration of their own.
#include <cstddef>
#include <numeric>
#include <string>

#include "configured_calls.h"
#include "reference.h"

namespace hostnccl_test {
namespace {

constexpr int kRanks = 3;
constexpr size_t kCount = 40;

// What all ranks have at the end.
std::vector<float> results(const Clique& clique, ConfiguredCall call,
                           const ncclCollConfig_t* config) {
  std::vector<float> in(kRanks * kRanks * kCount), out(in.size(), -1);
  std::iota(in.begin(), in.end(), 0.25f);
  EXPECT_NCCL(clique.each([&](int rank, ncclComm_t comm) {
    const size_t at = rank * kRanks * kCount;
    return call(&in[at], &out[at], kCount, comm, config);
  }));
  return out;
}

TEST(CallConfig, AConfiguredCallDoesWhatThePlainOneDoes) {
  const Clique clique(kRanks);
  const ncclCollConfig_t untouched = call_config();
  for (const CallPair& pair : kCallPairs) {
    const std::vector<float> want = results(clique, pair.plain, nullptr);
    EXPECT_EQ(results(clique, pair.configured, nullptr), want) << pair.name;
    EXPECT_EQ(results(clique, pair.configured, &untouched), want) << pair.name;
  }
}

TEST(CallConfig, IsLaidOutAsNccls) {
  EXPECT_EQ(sizeof(ncclCollConfig_t), 72u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, ext), 16u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, minCTAs), 24u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, maxCTAs), 28u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, nvlsCTAs), 32u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, cgaClusterSize), 36u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, algSelection), 40u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, forceAlgSelection), 48u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, CTAPolicy), 52u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, userProfilerTag), 56u);
  EXPECT_EQ(offsetof(ncclCollConfig_t, launchCompletionEvent), 64u);
  EXPECT_EQ(sizeof(ncclConfigExt_t), 24u);
  EXPECT_EQ(offsetof(ncclConfigExt_t, key), 8u);
  EXPECT_EQ(offsetof(ncclConfigExt_t, val), 16u);
  EXPECT_EQ(call_config().magic, 0xcafebeefu);
  EXPECT_EQ(call_config().forceAlgSelection, 1);
}

// Each by one change of a configuration that is right.
TEST(CallConfig, RefusesWhatNcclRefuses) {
  const Clique clique(1);
  const struct {
    void (*change)(ncclCollConfig_t&);
    ncclResult_t result;
    const char* says;
  } cases[] = {
      {[](ncclCollConfig_t& c) { c.size = 64; }, ncclSuccess, ""},
      {[](ncclCollConfig_t& c) { c.size = 63; }, ncclInvalidArgument, "size is 63, less than 64"},
      {[](ncclCollConfig_t& c) { c.magic = 1; }, ncclInvalidArgument, "magic is 0x1"},
      {[](ncclCollConfig_t& c) { c.version = 29999; }, ncclSuccess, ""},
      {[](ncclCollConfig_t& c) { c.forceAlgSelection = 2; }, ncclInvalidArgument,
       "forceAlgSelection is 2"},
      {[](ncclCollConfig_t& c) { c.CTAPolicy = 3; }, ncclSuccess, ""},
      {[](ncclCollConfig_t& c) { c.CTAPolicy = 4; }, ncclInvalidArgument, "CTAPolicy 4"},
      {[](ncclCollConfig_t& c) { c.CTAPolicy = -1; }, ncclInvalidArgument, "CTAPolicy -1"},
  };
  for (const auto& c : cases) {
    ncclCollConfig_t own = call_config();
    c.change(own);
    const float in = 3;
    float out = 0;
    EXPECT_EQ(ncclAllReduceConfig(&in, &out, 1, ncclFloat32, ncclSum, clique[0], nullptr, &own),
              c.result);
    EXPECT_EQ(out, c.result == ncclSuccess ? 3 : 0);
    if (c.result == ncclSuccess) continue;
    const std::string text = ncclGetLastError(nullptr);
    EXPECT_NE(text.find(c.says), std::string::npos) << text;
    EXPECT_TRUE(text.starts_with("ncclAllReduceConfig: ")) << text;
  }
}

TEST(CallConfig, AGroupGoesOnWithoutWhatIsRefused) {
  const Clique clique(2);
  ncclCollConfig_t wrong = call_config();
  wrong.magic = 0;
  float values[2] = {1, 2};
  ASSERT_NCCL(ncclGroupStart());
  for (int r = 0; r < 2; ++r) {
    EXPECT_EQ(ncclInvalidArgument, ncclAllReduceConfig(&values[r], &values[r], 1, ncclFloat32,
                                                       ncclSum, clique[r], nullptr, &wrong));
    EXPECT_NCCL(ncclAllReduce(&values[r], &values[r], 1, ncclFloat32, ncclSum, clique[r], nullptr));
  }
  ASSERT_NCCL(ncclGroupEnd());
  EXPECT_EQ(values[0], 3);
  EXPECT_EQ(values[1], 3);
}

}  // namespace
}  // namespace hostnccl_test
