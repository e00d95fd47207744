#include "environment.h"

#include <gtest/gtest.h>

#include <map>
#include <stdexcept>

namespace terse::perf {
namespace {

std::map<std::string, std::string> variables;

const char* get(const char* name) {
  const auto found = variables.find(name);
  return found == variables.end() ? nullptr : found->second.c_str();
}

Launch read(std::map<std::string, std::string> environment) {
  variables = std::move(environment);
  return read_launch(get);
}

TEST(ReadLaunch, OneProcessByDefault) {
  const Launch launch = read({});
  EXPECT_EQ(launch.process, 0);
  EXPECT_EQ(launch.processes, 1);
}

TEST(ReadLaunch, Torchrun) {
  const Launch launch = read(
      {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "10.0.0.1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(launch.process, 3);
  EXPECT_EQ(launch.processes, 8);
  EXPECT_EQ(launch.address, "10.0.0.1");
  EXPECT_EQ(launch.port, 29500);
}

TEST(ReadLaunch, LeavesTheAgentItsPort) {
  EXPECT_EQ(read({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_PORT", "29500"},
                  {"TORCHELASTIC_USE_AGENT_STORE", "True"}})
                .port,
            29501);
  EXPECT_EQ(read({{"RANK", "0"},
                  {"WORLD_SIZE", "2"},
                  {"MASTER_PORT", "29500"},
                  {"TORCHELASTIC_USE_AGENT_STORE", "False"}})
                .port,
            29500);
}

TEST(ReadLaunch, MpirunAndSrun) {
  EXPECT_EQ(read({{"OMPI_COMM_WORLD_RANK", "1"},
                  {"OMPI_COMM_WORLD_SIZE", "4"},
                  {"PMIX_RANK", "1"},
                  {"SLURM_PROCID", "0"},
                  {"SLURM_NTASKS", "1"}})
                .processes,
            4);
  EXPECT_EQ(read({{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}}).process, 2);
  EXPECT_EQ(read({{"PMIX_RANK", "2"}, {"SLURM_NTASKS", "3"}}).process, 2);
  EXPECT_EQ(read({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}}).process, 5);
}

TEST(ReadLaunch, PlaceOnTheHost) {
  const Launch torchrun =
      read({{"RANK", "5"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_WORLD_SIZE", "4"}});
  EXPECT_EQ(torchrun.local_process, 1);
  EXPECT_EQ(torchrun.local_processes, 4);
  const Launch slurm = read({{"SLURM_PROCID", "5"}, {"SLURM_NTASKS", "6"}, {"SLURM_LOCALID", "2"}});
  EXPECT_EQ(slurm.local_process, 2);
  EXPECT_FALSE(slurm.local_processes.has_value());
  EXPECT_FALSE(read({{"RANK", "5"}, {"WORLD_SIZE", "8"}}).local_process.has_value());
  EXPECT_THROW(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "2"}}),
               std::invalid_argument);
}

TEST(ReadLaunch, RefusesHalfAndSenselessSettings) {
  EXPECT_THROW(read({{"RANK", "1"}}), std::invalid_argument);
  EXPECT_THROW(read({{"RANK", "4"}, {"WORLD_SIZE", "4"}}), std::invalid_argument);
  EXPECT_THROW(read({{"RANK", "-1"}, {"WORLD_SIZE", "4"}}), std::invalid_argument);
  EXPECT_THROW(read({{"RANK", "x"}, {"WORLD_SIZE", "4"}}), std::invalid_argument);
  EXPECT_THROW(read({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}),
               std::invalid_argument);
}

TEST(RestartWithNccl, NeedsALibrary) {
  EXPECT_THROW(restart_with_nccl("/no/such", {}), std::invalid_argument);
  EXPECT_THROW(restart_with_nccl("/tmp", {}), std::invalid_argument);
}

int color(int process, const char* split) {
  variables = {{"NCCL_TESTS_SPLIT", split}};
  return group_color(process, get);
}

TEST(GroupColor, IsThatOfNcclTests) {
  variables = {};
  EXPECT_EQ(group_color(5, get), 0);
  EXPECT_EQ(color(5, "AND 0x3"), 1);
  EXPECT_EQ(color(5, "&0b100"), 4);
  EXPECT_EQ(color(5, "or 2"), 7);
  EXPECT_EQ(color(5, "| 0x7"), 7);
  EXPECT_EQ(color(5, "MOD 2"), 1);
  EXPECT_EQ(color(5, "%3"), 2);
  EXPECT_EQ(color(5, "DIV 4"), 1);
  EXPECT_EQ(color(5, "/2"), 2);
  variables = {{"NCCL_TESTS_SPLIT_MASK", "6"}, {"NCCL_TESTS_SPLIT", "MOD 2"}};
  EXPECT_EQ(group_color(5, get), 4);
  variables = {{"NCCL_TESTS_SPLIT_MASK", "0x10"}};  // hexadecimal in any case
  EXPECT_EQ(group_color(0x15, get), 0x10);
}

TEST(GroupColor, RefusesWhatMakesNoSense) {
  for (const char* split : {"", "XOR 2", "MOD", "MOD 0", "DIV 0", "AND x", "AND 2x"}) {
    EXPECT_THROW(color(1, split), std::invalid_argument) << split;
  }
}

}  // namespace
}  // namespace terse::perf
