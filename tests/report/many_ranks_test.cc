// What `terse report` makes of 512 ranks: a page of bounded size, on which each of them is.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/file.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

constexpr int kRanks = 512, kRanksOfANode = 8;
constexpr const char* kKinds[] = {"AllReduce", "AllGather", "ReduceScatter"};

// From 1 ms on, a microsecond more for each rank; but one is slow.
double seconds(int rank) { return rank == 317 ? 0.009 : 1e-3 + 1e-6 * rank; }

Row row_of(const char* collective, int rank) {
  Row row;
  row.rule = 1;
  row.collective = collective;
  row.scheme = "int4:block=128,round=nearest";
  row.calls = 1000;
  row.raw = {2'000'000'000, 250'000'000};
  row.wire = {250'000'000, 31'250'000};
  row.times = {1000, 1000 * seconds(rank), 0.1, 1000 * seconds(rank) / 2, 0.1};
  row.race = {10, 0.05, 10 * seconds(rank)};
  for (uint64_t k = 0; k < 1000; ++k) {
    const double error = 0.1 + 1e-5 * static_cast<double>(k % 100) + 1e-6 * rank;
    row.error.relative.add(error);
    row.error.course.add(10 * k, error);
  }
  return row;
}

Report report_of(int rank) {
  Report r{.terse = "0.1.0",
           .host = fmt::format("host-{}", rank / kRanksOfANode),
           .pid = 1000 + rank,
           .library = "libterse_nccl",
           .written = "2026-11-24T12:00:00Z",
           .policy = "int4"};
  Communicator c{.id = 0xabc, .names = {"world", "", 0}, .rank = rank, .ranks = kRanks};
  c.nodes = kRanks / kRanksOfANode;
  c.node = rank / kRanksOfANode;
  for (const char* kind : kKinds) c.rows.push_back(row_of(kind, rank));
  c.sizes.compressed.add(4'000'000);
  r.communicators.push_back(c);
  // Its part of a pipeline, and its node.
  for (const int group : {64, kRanksOfANode}) {
    Communicator part{.id = uint64_t{1000} * group + rank / group,
                      .names = {"", "world", static_cast<uint64_t>(group)},
                      .rank = rank % group,
                      .ranks = group};
    part.rows.push_back(row_of("AllGather", rank));
    r.communicators.push_back(part);
  }
  return r;
}

class ManyRanks : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const std::filesystem::path folder = testing::TempDir() + fmt::format("/many{}", getpid());
    std::filesystem::create_directory(folder);
    for (int rank = 0; rank < kRanks; ++rank)
      write_file(folder / fmt::format("rank{}.json", rank), to_json(report_of(rank)));
    merged_ = merge(read_folder(folder));
    page_ = html(merged_);
    std::filesystem::remove_all(folder);
  }

  static size_t count(const std::string& part) {
    size_t times = 0;
    for (size_t at = page_.find(part); at != page_.npos; at = page_.find(part, at + 1)) ++times;
    return times;
  }

  static inline Merged merged_;
  static inline std::string page_;
};

TEST_F(ManyRanks, AreOneCommunicator) {
  EXPECT_TRUE(merged_.complaints.empty()) << merged_.complaints.front();
  ASSERT_EQ(merged_.communicators.size(), 1u + 8 + 64);
  EXPECT_EQ(merged_.communicators[0].members.size(), 512u);
  EXPECT_EQ(merged_.communicators[0].rows[0].spread(value::total).max_rank, 317);
}

TEST_F(ManyRanks, AreOnAPageOfBoundedSize) {
  EXPECT_LT(page_.size(), 3'000'000u);
  EXPECT_GT(page_.size(), 100'000u);
}

TEST_F(ManyRanks, AreEachACellOfAMap) {
  // Of the time, and of the error; of a communicator of 8 ranks there are bars.
  const size_t of_one = 2 * (3 * 512 + 512);
  EXPECT_EQ(count("<i style=\"--of:"), of_one);
  EXPECT_NE(page_.find("<h4>Ranks 0 to 511, 32 in a line: time of a call, 1 ms to 9 ms, the darker "
                       "the longer</h4>"),
            page_.npos);
  EXPECT_NE(
      page_.find(
          "<i style=\"--of:1.00\" tabindex=\"0\" title=\"rank 317, node 39, host-39: 9 ms a call, "
          "4.5 ms communicating; 250 MB sent; error "),
      page_.npos);
  EXPECT_NE(
      page_.find(
          "<i style=\"--of:0.08\" tabindex=\"0\" title=\"rank 0, node 0, host-0: 1 ms a call"),
      page_.npos);
}

// Of the large communicator: the eight slowest, 317 and from 505 on, and the eight that wait least.
TEST_F(ManyRanks, AreInTheTableWhereTheyStandOut) {
  const size_t begin = page_.find("The slowest ranks, and those that wait least");
  const std::string rows = page_.substr(begin, page_.find("</table>", begin) - begin);
  for (const int rank : {0, 7, 317, 505, 511})
    EXPECT_NE(rows.find(fmt::format("<td>rank {}</td>", rank)), rows.npos) << rank;
  for (const int rank : {8, 100, 504})
    EXPECT_EQ(rows.find(fmt::format("<td>rank {}</td>", rank)), rows.npos) << rank;
  EXPECT_NE(page_.find("Slowest: rank 317. The others wait for rank 0"), page_.npos);
}

TEST_F(ManyRanks, ThePageFitsAPhone) {
  EXPECT_EQ(count("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">"), 1u);
  EXPECT_EQ(count(" width=\"980\""), 0u) << "pictures are as wide as there is room";
  EXPECT_EQ(count("<table>"), count("<div class=\"scroll\"><table>"));
  // A finger cannot hover: what a cell is of is shown where one is tapped.
  EXPECT_EQ(count("<i style=\"--of:") + count("<i class=\"none\""),
            count(" tabindex=\"0\" title=\""));
  EXPECT_EQ(count(".heat i:focus::after { content: attr(title);"), 1u);
}

TEST_F(ManyRanks, CommunicatorsAreToldApart) {
  EXPECT_NE(page_.find("<h2>Communicator &quot;world&quot; <code>0000000000000abc"), page_.npos);
  EXPECT_NE(page_.find("<h2>Communicator #64 from &quot;world&quot; <code>"), page_.npos);
}

}  // namespace
}  // namespace terse::report
