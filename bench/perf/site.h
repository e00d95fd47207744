// Where the processes of a run are: on which nodes, and in which networks.
#pragma once

#include <string>
#include <vector>

#include "rendezvous.h"

namespace terse::perf {

struct Site {
  std::string node;     // as NCCL tells nodes apart: its NCCL_HOSTID, or its host's name and boot
  std::string network;  // whose interfaces it sees: its machine's, or a namespace's of it
  std::string domain;   // as terse tells nodes apart: its TERSE_NODE, or as NCCL does
};

std::string host_name();

Site own_site();

// By process. Collective.
std::vector<Site> gather_sites(Rendezvous* rendezvous);

// What the run's ranks are spread over.
struct Layout {
  int nodes = 1;
  int ranks = 1;

  // Ranks that send to other nodes over one link.
  bool shares_links() const { return nodes > 1 && ranks > nodes; }
};

Layout layout_of(const std::vector<Site>& sites, int ranks_per_process,
                 std::string Site::*node = &Site::node);

// The processes of each node, as terse tells nodes apart, by the order of their first ones.
std::vector<std::vector<int>> processes_of_nodes(const std::vector<Site>& sites);

// Whether this process is the first in its network, and so the one that counts its interfaces'
// bytes.
bool counts_network(const std::vector<Site>& sites, int process);

}  // namespace terse::perf
