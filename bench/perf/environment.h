// Everything these programs read from, or write to, the environment.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace terse::perf {

// This process among those of one run, as its launcher tells it.
struct Launch {
  int process = 0;
  int processes = 1;
  std::optional<int> local_process;    // among those of its host, where the launcher says so
  std::optional<int> local_processes;  // of its host
  std::string launcher;                // the variables that said so; empty when there were none
  std::string address = "127.0.0.1";
  int port = 29441;
};

using GetEnv = const char* (*)(const char* name);

// Understands torchrun (RANK, WORLD_SIZE), Open MPI, PMI, PMIx and Slurm, in this order; address
// and port come from MASTER_ADDR and MASTER_PORT. Throws std::invalid_argument on half a setting
// or one that makes no sense. `get` is std::getenv except in tests.
Launch read_launch(GetEnv get);
Launch read_launch();

// nccl-tests' variables.
// NCCL_TESTS_SPLIT_MASK or NCCL_TESTS_SPLIT: processes of the same number make a group, which runs
// on its own beside the others. Throws std::invalid_argument.
int group_color(int process, GetEnv get);
int group_color(int process);
std::optional<int> first_device();  // NCCL_TESTS_DEVICE: the first rank's of each process
std::optional<double> min_busbw();  // NCCL_TESTS_MIN_BW: below 90 % of it, the run fails

// "NAME=value" of the variables that shape a run: NCCL_*, HOSTNCCL_*, UCX_*, TERSE_*, LD_PRELOAD
// and LD_LIBRARY_PATH.
std::vector<std::string> run_environment();

// Sets NCCL_HOSTID to a name that no other process of the run has, unless it is set.
void set_nccl_host_id(int process);

// NCCL_HOSTID, by which NCCL tells nodes apart; empty where it is not set.
std::string nccl_host_id();

// TERSE_NODE, by which terse tells nodes apart where it is set; else empty.
std::string terse_node();

// Whether restart_with_nccl started this program.
bool nccl_is_chosen();

// Runs this program again, with `library` (a directory that holds libnccl.so.2, or a file) as its
// NCCL. `arguments` is the command line without --nccl. Returns only by throwing.
[[noreturn]] void restart_with_nccl(const std::string& library,
                                    const std::vector<std::string>& arguments);

}  // namespace terse::perf
