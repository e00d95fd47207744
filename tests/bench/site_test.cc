#include "site.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace terse::perf {
namespace {

// Two machines: on one of them two hosts of two processes in namespaces, on the other one process.
const std::vector<Site> kSites = {
    {"host0", "a net:[1]"}, {"host1", "a net:[2]"}, {"host0", "a net:[1]"},
    {"host1", "a net:[2]"}, {"other", "b net:[1]"},
};

TEST(Site, NodesAreCountedOnce) {
  EXPECT_EQ(layout_of(kSites, 1).nodes, 3);
  EXPECT_EQ(layout_of(kSites, 2).ranks, 10);
  EXPECT_EQ(layout_of({{"host0", "a"}, {"host1", "a"}}, 1).nodes, 2);
}

TEST(Site, TersesNodesHaveTheirProcesses) {
  const std::vector<Site> sites = {
      {"a", "net", "one"}, {"b", "net", "other"}, {"c", "net", "one"}, {"d", "net", "one"}};
  EXPECT_EQ(layout_of(sites, 2, &Site::domain).nodes, 2);
  EXPECT_EQ(layout_of(sites, 2).nodes, 4);
  EXPECT_EQ(processes_of_nodes(sites), (std::vector<std::vector<int>>{{0, 2, 3}, {1}}));
}

TEST(Site, LinksAreSharedWhereNodesHaveSeveralRanks) {
  EXPECT_TRUE((Layout{2, 8}.shares_links()));
  EXPECT_FALSE((Layout{8, 8}.shares_links()));
  EXPECT_FALSE((Layout{1, 8}.shares_links()));
}

TEST(Site, OneProcessCountsTheInterfacesOfANetwork) {
  std::vector<bool> counts;
  for (int process = 0; process < 5; ++process) counts.push_back(counts_network(kSites, process));
  EXPECT_EQ(counts, (std::vector<bool>{true, true, false, false, true}));
}

TEST(Site, TheNodeIsNcclsAndTheNetworkThisMachines) {
  unsetenv("NCCL_HOSTID");
  const Site plain = own_site();
  setenv("NCCL_HOSTID", "mine", 1);
  const Site named = own_site();
  setenv("TERSE_NODE", "rack", 1);
  const Site racked = own_site();
  unsetenv("TERSE_NODE");
  unsetenv("NCCL_HOSTID");
  EXPECT_EQ(named.domain, "mine");
  EXPECT_EQ(racked.node, "mine");
  EXPECT_EQ(racked.domain, "rack");
  EXPECT_EQ(named.node, "mine");
  EXPECT_NE(plain.node, "mine");
  EXPECT_EQ(named.network, plain.network);
  EXPECT_NE(plain.network.find("net:["), std::string::npos);
}

TEST(Site, EachLearnsOfTheOthers) {
  Rendezvous alone{Meeting{}};
  const std::vector<Site> sites = gather_sites(&alone);
  ASSERT_EQ(sites.size(), 1U);
  EXPECT_EQ(sites[0].node, own_site().node);
  EXPECT_EQ(sites[0].network, own_site().network);
  EXPECT_EQ(sites[0].domain, own_site().domain);
}

}  // namespace
}  // namespace terse::perf
