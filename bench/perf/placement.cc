#include "placement.h"

#include <unistd.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>

namespace terse::perf {
namespace {

struct Position {
  int process;    // among those of its host
  int processes;  // of the host
};

Position place_on_host(const Launch& launch, Rendezvous* rendezvous) {
  char name[256] = "unknown";
  gethostname(name, sizeof(name) - 1);
  const std::vector<std::string> hosts = rendezvous->all_gather(name, 60);
  const auto same_host = [&](auto end) {
    return static_cast<int>(std::count(hosts.begin(), end, std::string(name)));
  };
  const Position by_name = {same_host(hosts.begin() + launch.process), same_host(hosts.end())};
  const int process = launch.local_process.value_or(by_name.process);
  return {process, std::max(launch.local_processes.value_or(by_name.processes), process + 1)};
}

}  // namespace

std::vector<int> place_ranks(const Device& device, const Launch& launch, int ranks_per_process,
                             Rendezvous* rendezvous) {
  const Position place = place_on_host(launch, rendezvous);
  std::vector<int> devices(static_cast<std::size_t>(ranks_per_process));
  const int count = device.count();
  if (count == 0) {
    std::iota(devices.begin(), devices.end(), 0);
    return devices;
  }
  if (const std::optional<int> first = first_device()) {
    if (*first + ranks_per_process > count) {
      throw std::runtime_error("NCCL_TESTS_DEVICE=" + std::to_string(*first) + " with " +
                               std::to_string(ranks_per_process) + " ranks in one process, and " +
                               std::to_string(count) + " devices");
    }
    std::iota(devices.begin(), devices.end(), *first);
    if (place.processes > 1) set_nccl_host_id(launch.process);
    return devices;
  }
  if (ranks_per_process > count) {
    throw std::runtime_error(std::to_string(ranks_per_process) + " ranks in one process and " +
                             std::to_string(count) +
                             " devices: ranks that share a device must be processes");
  }
  for (int i = 0; i < ranks_per_process; ++i) {
    devices[static_cast<std::size_t>(i)] = (place.process * ranks_per_process + i) % count;
  }
  if (place.processes * ranks_per_process > count) set_nccl_host_id(launch.process);
  return devices;
}

}  // namespace terse::perf
