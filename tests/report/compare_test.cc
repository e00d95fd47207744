// Two jobs' reports beside each other.
#include <gtest/gtest.h>

#include "report/compare_jobs.h"

namespace terse::report {
namespace {

// A job of two ranks on two nodes, whose AllReduces go by a scheme.
// Observed calls are native, too, and reports count them among those.
Merged job(const char* scheme, uint64_t wire, double seconds, double error, bool observed = false) {
  std::vector<NamedReport> reports;
  for (int rank = 0; rank < 2; ++rank) {
    Row row;
    row.rule = 1;
    row.collective = "AllReduce";
    row.scheme = scheme;
    row.calls = 10;
    row.raw = {4'000'000, 4'000'000};
    row.wire = {wire, wire};
    row.times = {.calls = 10, .total = 10 * seconds};
    if (error != 0) row.error.relative.add(error);
    Communicator c{.id = 7, .rank = rank, .ranks = 2, .released = true};
    c.nodes = 2;
    c.node = rank;
    c.native = {1000, 1000};
    c.bypasses = {{"the message is small", 3}};
    if (observed) {
      c.native = {4'001'000, 4'001'000};
      c.bypasses["it is only observed"] = 10;
    }
    c.rows.push_back(row);
    Report r;
    r.terse = "0.1.0";
    r.policy = scheme;
    if (observed) r.observed = 1.0;
    r.host = "host";
    r.communicators.push_back(c);
    reports.push_back({std::to_string(rank) + ".json", r});
  }
  return merge(reports);
}

TEST(Compare, SetsCallsBytesTimesAndErrorsBesideEachOther) {
  const std::string text =
      compare(job("int8", 1'000'000, 4e-3, 0.0065), job("int4", 500'000, 2e-3, 0));
  EXPECT_EQ(text,
            "A  2 ranks, terse 0.1.0, policy int8\n"
            "B  2 ranks, terse 0.1.0, policy int4\n"
            "\n"
            "                                   A             B\n"
            "AllReduce\n"
            "  calls of all ranks              20            20\n"
            "  sent                          2 MB          1 MB  2.00 times less\n"
            "  of it off the nodes           2 MB          1 MB  2.00 times less\n"
            "  a call takes                  4 ms          2 ms  2.00 times as fast\n"
            "  error, median               0.65 %             -\n"
            "  A int8\n"
            "  B int4\n"
            "native calls\n"
            "  calls of all ranks               6             6\n"
            "  sent                          2 KB          2 KB  1.00 times less\n"
            "  of it off the nodes           2 KB          2 KB  1.00 times less\n");
}

// What it would send says nothing of what it sent.
TEST(Compare, AnObservedJobHasSentWhatNcclSends) {
  const std::string text =
      compare(job("int8", 1'000'000, 4e-3, 0, true), job("int8", 1'000'000, 2e-3, 0));
  EXPECT_NE(text.find("  sent                          8 MB          2 MB  4.00 times less\n"),
            text.npos)
      << text;
  EXPECT_NE(text.find("native calls\n"
                      "  calls of all ranks               6             6\n"
                      "  sent                          2 KB          2 KB  1.00 times less\n"),
            text.npos)
      << text;
}

TEST(Compare, ACollectiveThatOneJobLacksIsNativeThere) {
  Merged without = job("int8", 1'000'000, 4e-3, 0);
  without.communicators.front().rows.clear();
  const std::string text = compare(without, job("int8", 1'000'000, 4e-3, 0));
  EXPECT_NE(text.find("  calls of all ranks               -            20\n"), text.npos) << text;
  EXPECT_NE(text.find("  A native\n  B int8\n"), text.npos) << text;
}

}  // namespace
}  // namespace terse::report
