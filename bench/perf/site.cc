#include "site.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "environment.h"

namespace terse::perf {
namespace {

constexpr double kGatherSeconds = 60;

std::string boot() {
  std::string id;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), id);
  return id;
}

std::string network_namespace() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/ns/net", error).string();
}

}  // namespace

std::string host_name() {
  char name[256] = "unknown";
  gethostname(name, sizeof(name) - 1);
  return name;
}

Site own_site() {
  const std::string id = nccl_host_id(), domain = terse_node();
  const std::string node = id.empty() ? host_name() + ' ' + boot() : id;
  return {node, boot() + ' ' + network_namespace(), domain.empty() ? node : domain};
}

std::vector<Site> gather_sites(Rendezvous* rendezvous) {
  const Site own = own_site();
  std::vector<Site> sites;
  for (const std::string& blob :
       rendezvous->all_gather(own.node + '\0' + own.network + '\0' + own.domain, kGatherSeconds)) {
    const std::size_t first = blob.find('\0'), second = blob.find('\0', first + 1);
    sites.push_back({blob.substr(0, first), blob.substr(first + 1, second - first - 1),
                     blob.substr(second + 1)});
  }
  return sites;
}

Layout layout_of(const std::vector<Site>& sites, int ranks_per_process, std::string Site::*node) {
  std::set<std::string> nodes;
  for (const Site& site : sites) nodes.insert(site.*node);
  return {static_cast<int>(nodes.size()), static_cast<int>(sites.size()) * ranks_per_process};
}

std::vector<std::vector<int>> processes_of_nodes(const std::vector<Site>& sites) {
  std::vector<std::vector<int>> nodes;
  for (int process = 0; process < static_cast<int>(sites.size()); ++process) {
    const auto of_this = [&](const std::vector<int>& node) {
      return sites[node.front()].domain == sites[process].domain;
    };
    const auto known = std::ranges::find_if(nodes, of_this);
    (known != nodes.end() ? *known : nodes.emplace_back()).push_back(process);
  }
  return nodes;
}

bool counts_network(const std::vector<Site>& sites, int process) {
  const auto own = sites.begin() + process;
  return std::none_of(sites.begin(), own,
                      [&](const Site& site) { return site.network == own->network; });
}

}  // namespace terse::perf
