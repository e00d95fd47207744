// Built-in profile of a machine that has measured none.
#include "policy/nearest_profile.h"

#include <gtest/gtest.h>

#include "model/predict.h"
#include "policy/profile_file.h"

namespace terse {
namespace {

std::string nearest(const char* device, double gigabits, int ranks, int nodes) {
  const auto profile =
      nearest_profile({device, gigabits * 1e9 / 8}, plan::even_topology(ranks, nodes));
  return profile ? profile->name : "";
}

TEST(NearestProfile, IsOfTheGpuAndTheNetwork) {
  EXPECT_EQ(nearest("NVIDIA H100 80GB HBM3", 3200, 64, 8), "h100-8x-3200gbit");
  EXPECT_EQ(nearest("NVIDIA B200", 3200, 64, 8), "b200-8x-3200gbit");
  EXPECT_EQ(nearest("NVIDIA B200", 6400, 64, 8), "b200-8x-6400gbit");
  EXPECT_EQ(nearest("NVIDIA A100-SXM4-80GB", 100, 16, 2), "a100-8x-100gbit");
  EXPECT_EQ(nearest("NVIDIA A10G", 40, 8, 2), "a10-4x-40gbit");
  EXPECT_EQ(nearest("NVIDIA RTX PRO 6000 Blackwell Server Edition", 400, 16, 2),
            "rtx-pro-6000-8x-400gbit");
}

// Native calls are then no slower than predicted.
TEST(NearestProfile, OfAnUnknownNetworkIsTheFastest) {
  EXPECT_EQ(nearest("NVIDIA B200", 0, 64, 8), "b200-8x-6400gbit");
  EXPECT_EQ(nearest("NVIDIA H800", 0, 64, 8), "h800-8x-3200gbit");
}

// Natively the same network is as fast, whichever GPU's profile it is in.
TEST(NearestProfile, HasTheNetworkOfTheMachine) {
  const auto bandwidth = [](const char* device, double gigabits) {
    return nearest_profile({device, gigabits * 1e9 / 8}, plan::even_topology(16, 2))
               ->between->bandwidth *
           8e-9;
  };
  EXPECT_EQ(nearest("NVIDIA H100 80GB HBM3", 400, 16, 2), "h100-8x-3200gbit at 400 Gbit/s");
  EXPECT_DOUBLE_EQ(bandwidth("NVIDIA H100 80GB HBM3", 400), 400);
  EXPECT_DOUBLE_EQ(bandwidth("NVIDIA A100-SXM4-80GB", 1600), 1600);
  EXPECT_DOUBLE_EQ(bandwidth("Tesla V100-SXM2-32GB", 100), 100);
  EXPECT_NEAR(bandwidth("NVIDIA H100 80GB HBM3", 3200), 2944, 1) << "as the profile has it";
}

TEST(NearestProfile, WithinARackOfNvlinkIsThatOfTheRack) {
  EXPECT_EQ(nearest("NVIDIA GB200", 1600, 72, 18), "gb200-4x-nvl72");
  EXPECT_EQ(nearest("NVIDIA GB200", 1600, 144, 36), "gb200-4x-1600gbit");
  EXPECT_EQ(nearest("NVIDIA GB300", 3200, 144, 36), "gb200-4x-3200gbit");
}

TEST(NearestProfile, IsNoneWhereNothingIsKnown) {
  EXPECT_EQ(nearest("", 3200, 64, 8), "") << "hosts";
  EXPECT_EQ(nearest("Fake GPU", 3200, 64, 8), "");
  EXPECT_EQ(nearest("NVIDIA A100-PCIE-40GB", 100, 16, 2), "") << "NVLink is all that is known";
  EXPECT_EQ(nearest("NVIDIA H100 NVL", 100, 16, 2), "") << "pairs on PCIe";
  EXPECT_EQ(nearest("NVIDIA RTX A1000", 100, 16, 2), "") << "no A100";
  EXPECT_FALSE(nearest_profile({"NVIDIA H100 80GB HBM3"}, {})) << "the nodes are not known";
}

TEST(NearestProfile, EachKnownGpuHasOneForANodeAndForSeveral) {
  for (const KnownProfile& known : known_profiles()) {
    const model::Profile profile = parse_profile(known.text, std::string(known.name));
    ASSERT_FALSE(profile.devices.empty()) << known.name;
    for (const std::string& device : profile.devices)
      for (const int nodes : {1, 2})
        if (profile.name.starts_with("v100") && nodes == 1) {
          EXPECT_EQ(nearest(device.c_str(), 0, 8, nodes), "v100-8x-10gbit");
        } else {
          EXPECT_NE(nearest(device.c_str(), 0, 8 * nodes, nodes), "") << device;
        }
    EXPECT_EQ(parse_profile(print_profile(profile), "printed"), profile) << known.name;
  }
}

}  // namespace
}  // namespace terse
