#include "placement.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <stdexcept>

namespace terse::perf {
namespace {

// A device of which there are so many.
template <int number>
const Device& devices() {
  static Device device = [] {
    Device table = host_device();
    table.count = [] { return number; };
    return table;
  }();
  return device;
}

Launch local(int process, int processes) {
  Launch launch;
  launch.local_process = process;
  launch.local_processes = processes;
  return launch;
}

class PlaceRanksTest : public testing::Test {
 protected:
  void SetUp() override { unsetenv("NCCL_HOSTID"); }
  void TearDown() override { unsetenv("NCCL_HOSTID"); }

  Rendezvous alone_{Meeting{}};
};

TEST_F(PlaceRanksTest, EachHasADeviceWhereThereAreEnough) {
  EXPECT_EQ(place_ranks(devices<4>(), local(1, 2), 2, &alone_), (std::vector<int>{2, 3}));
  EXPECT_EQ(std::getenv("NCCL_HOSTID"), nullptr);
}

TEST_F(PlaceRanksTest, SharedDevicesAreHostsOfTheirOwn) {
  EXPECT_EQ(place_ranks(devices<1>(), local(1, 2), 1, &alone_), std::vector<int>{0});
  EXPECT_NE(std::getenv("NCCL_HOSTID"), nullptr);
}

TEST_F(PlaceRanksTest, TheUsersHostIdStays) {
  setenv("NCCL_HOSTID", "mine", 1);
  place_ranks(devices<1>(), local(1, 2), 1, &alone_);
  EXPECT_STREQ(std::getenv("NCCL_HOSTID"), "mine");
}

TEST_F(PlaceRanksTest, OneProcessNeedsADeviceForEachRank) {
  EXPECT_THROW(place_ranks(devices<1>(), local(0, 1), 2, &alone_), std::runtime_error);
}

TEST_F(PlaceRanksTest, HostsHaveRoomForAll) {
  EXPECT_EQ(place_ranks(host_device(), local(3, 4), 2, &alone_), (std::vector<int>{0, 1}));
  EXPECT_EQ(std::getenv("NCCL_HOSTID"), nullptr);
}

}  // namespace
}  // namespace terse::perf
