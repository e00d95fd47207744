// A machine's network, as sysfs has it, and its GPUs, as procfs has them.
#include "policy/this_machine.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "base/log.h"

namespace terse::test {
namespace {

namespace fs = std::filesystem;

// A folder like /sys.
class ThisMachine : public testing::Test {
 protected:
  ~ThisMachine() override { fs::remove_all(sys_); }

  void add(const std::string& path, const std::string& text) const {
    fs::create_directories((sys_ / path).parent_path());
    std::ofstream(sys_ / path) << text << "\n";
  }
  void add_port(const std::string& device, const std::string& state,
                const std::string& rate) const {
    add("class/infiniband/" + device + "/ports/1/state", state);
    add("class/infiniband/" + device + "/ports/1/rate", rate);
  }
  void add_card(const std::string& name, const std::string& state, const std::string& speed) const {
    add("class/net/" + name + "/device/vendor", "0x15b3");
    add("class/net/" + name + "/operstate", state);
    add("class/net/" + name + "/speed", speed);
  }
  uint64_t gigabits() const { return network_gigabits(sys_); }
  std::string root() const { return sys_; }

 private:
  const fs::path sys_ = fs::path(testing::TempDir()) / fmt::format("sys-{}", getpid());
};

TEST_F(ThisMachine, HasTheSumOfItsPorts) {
  for (const char* device : {"mlx5_0", "mlx5_1", "mlx5_2"})
    add_port(device, "4: ACTIVE", "400 Gb/sec (4X NDR)");
  EXPECT_EQ(gigabits(), 1200u);
}

TEST_F(ThisMachine, CountsNoPortThatIsDown) {
  add_port("mlx5_0", "4: ACTIVE", "200 Gb/sec (4X HDR)");
  add_port("mlx5_1", "1: DOWN", "200 Gb/sec (4X HDR)");
  EXPECT_EQ(gigabits(), 200u);
}

TEST_F(ThisMachine, WithoutPortsHasTheSumOfItsCards) {
  add_card("eth0", "up", "25000");
  add_card("eth1", "up", "25000");
  add_card("eth2", "down", "25000");
  add_card("eth3", "up", "-1");
  add("class/net/docker0/operstate", "up");  // no card
  add("class/net/docker0/speed", "10000");
  EXPECT_EQ(gigabits(), 50u);
  add_port("mlx5_0", "4: ACTIVE", "100 Gb/sec (2X HDR)");
  EXPECT_EQ(gigabits(), 100u) << "which then is for other purposes";
}

TEST_F(ThisMachine, HasTheGpuThatItsDriverNames) {
  EXPECT_EQ(gpu_name(root()), "");
  add("driver/nvidia/gpus/0000:1b:00.0/information",
      "Model: \t\t NVIDIA H100 80GB HBM3\nIRQ:   \t\t 18");
  EXPECT_EQ(gpu_name(root()), "NVIDIA H100 80GB HBM3");
}

TEST_F(ThisMachine, HasNoGpuWithoutAModel) {
  add("driver/nvidia/gpus/0000:1b:00.0/information", "IRQ: 18");
  EXPECT_EQ(gpu_name(root()), "");
}

TEST_F(ThisMachine, MayHaveAnUnknownNetwork) {
  EXPECT_EQ(gigabits(), 0u);
  add_port("mlx5_0", "4: ACTIVE", "fast");
  EXPECT_EQ(gigabits(), 0u);
}

}  // namespace
}  // namespace terse::test
