#include "table.h"

#include <gtest/gtest.h>

#include "json.h"

namespace terse::perf {
namespace {

Row sample_row() {
  Row row = {1048576, 262144, "float", "sum", -1, {}, {}};
  row.out_of_place.time = 412.345;
  row.out_of_place.algbw = 2.5412;
  row.out_of_place.busbw = 3.8119;
  row.out_of_place.wrong = 0;
  row.in_place.time = 1234567.8;
  row.in_place.algbw = 1000.456;
  row.in_place.busbw = 0.001;
  return row;
}

TEST(Table, HeaderIsThatOfNcclTests) {
  EXPECT_EQ(table_header(Options(), Layout()),
            "#\n"
            "#                                                              out-of-place"
            "                       in-place          \n"
            "#       size         count      type   redop    root     time   algbw   busbw  #wrong"
            "     time   algbw   busbw  #wrong \n"
            "#        (B)    (elements)                               (us)  (GB/s)  (GB/s)        "
            "     (us)  (GB/s)  (GB/s)         \n");
}

TEST(Table, RowIsThatOfNcclTests) {
  const Options o;
  const Row row = sample_row();
  EXPECT_EQ(table_row_start(row) + table_measurement(o, row.out_of_place) +
                table_measurement(o, row.in_place) + table_row_end(o, Layout(), row, "now"),
            "     1048576        262144     float     sum      -1   412.35    2.54    3.81       0"
            "  1234568  1000.5    0.00     N/A\n");
}

TEST(Table, FooterIsThatOfNcclTests) {
  EXPECT_EQ(table_footer("all_reduce_perf", "GPU", {0, 1.25}),
            "# Out of bounds values : 0 OK\n"
            "# Avg bus bandwidth    : 1.25 \n"
            "#\n"
            "# Collective test concluded: all_reduce_perf\n"
            "#\n\n");
  EXPECT_NE(table_footer("x", "GPU", {3, 1}).find("# Out of bounds values : 3 FAILED\n"),
            std::string::npos);
}

TEST(Table, FooterComparesWithTheLeastBandwidth) {
  const auto line = [](double least) {
    const std::string text = table_footer("x", "GPU", {0, 9, least});
    return text.substr(text.find("# Avg"), text.find("#\n") - text.find("# Avg"));
  };
  EXPECT_EQ(line(10), "# Avg bus bandwidth    : 9 OK\n");  // 90 % are enough
  EXPECT_EQ(line(10.1), "# Avg bus bandwidth    : 9 FAILED\n");
}

TEST(Table, FooterHasTheMemory) {
  const MemoryUse memory = {1536, 64 << 20, 3ll << 30};
  EXPECT_NE(table_footer("x", "GPU", {0, 1, {}, memory})
                .find("# GPU memory usage     : Initialization 1.50 KB | User-Allocated 64.0 MB | "
                      "Collective 3.00 GB | Total  3.06 GB\n#\n"),
            std::string::npos);
}

TEST(Table, OurColumnsFollowTheStandardOnes) {
  Options o;
  o.scheme = "int4";
  Row row = sample_row();
  row.out_of_place.wire_ratio = 7.11;
  row.out_of_place.error = 0.1234;
  EXPECT_EQ(table_row_end(o, Layout(), row, ""), "      7.11      N/A   1.23e-01        N/A\n");
  const std::string header = table_header(o, Layout());
  EXPECT_NE(header.find("#wrong       out       in        out         in\n"), std::string::npos)
      << header;
}

TEST(Table, NodesThatShareALinkAddWhatLeavesThem) {
  Options o;
  o.scheme = "int4";
  Row row = sample_row();
  row.out_of_place.wire_ratio = 7.53;
  row.out_of_place.off_node_ratio = row.in_place.off_node_ratio = 13.18;
  EXPECT_EQ(table_row_end(o, {2, 8}, row, ""),
            "      7.53      N/A    13.18    13.18        N/A        N/A\n");
  EXPECT_NE(table_header(o, {2, 8}).find("off-node ratio"), std::string::npos);
  for (const Layout layout : {Layout{1, 8}, Layout{8, 8}})
    EXPECT_EQ(table_header(o, layout).find("off-node ratio"), std::string::npos);
}

TEST(Table, RanksHaveTheirGroup) {
  RankInfo rank = {
      .rank = 3, .group = 1, .process_id = 42, .host = "node", .device = 0, .info = {}};
  rank.info = {"0000:00:00", "host memory"};
  EXPECT_NE(table_ranks({rank}, Layout())
                .find("#  Rank  3 Group  1 Pid     42 on       node device  0 [0000:00:00] host "
                      "memory\n"),
            std::string::npos);
}

TEST(Table, SeveralNodesAreCounted) {
  EXPECT_NE(table_ranks({}, {2, 8}).find("# Nodes: 2\n"), std::string::npos);
  EXPECT_EQ(table_ranks({}, {1, 8}).find("# Nodes"), std::string::npos);
}

TEST(Table, EveryLineOfARowIsAsLongAsItsHeader) {
  Options o;
  o.scheme = "int4";
  o.netdev = "eth0";
  o.per_iteration = 1;
  Row row = sample_row();
  row.out_of_place.stats = row.in_place.stats = summarize({1, 2, 3});
  const Layout layout = {2, 8};
  const std::string line = table_row_start(row) + table_measurement(o, row.out_of_place) +
                           table_measurement(o, row.in_place) + table_row_end(o, layout, row, "");
  const std::string header = table_header(o, layout);
  const std::size_t last = header.rfind('\n', header.size() - 2);
  EXPECT_EQ(line.size(), header.size() - last - 1);
}

TEST(FitNumber, KeepsTheWidth) {
  EXPECT_EQ(fit_number(1.234, 7), "   1.23");
  EXPECT_EQ(fit_number(12345.67, 7), "12345.7");
  EXPECT_EQ(fit_number(1234567.8, 7), "1234568");
  EXPECT_EQ(fit_number(123456789, 7), "1.2e+08");
  EXPECT_EQ(fit_number(123456789, 6), " 1e+08");
}

TEST(Summarize, PercentilesAreNearestRank) {
  std::vector<double> times;
  for (int i = 100; i >= 1; --i) times.push_back(i);
  const IterationStats stats = summarize(times);
  EXPECT_EQ(stats.min, 1);
  EXPECT_EQ(stats.max, 100);
  EXPECT_EQ(stats.p95, 95);
  EXPECT_EQ(stats.p99, 99);
  EXPECT_DOUBLE_EQ(stats.mean, 50.5);
}

TEST(Json, HasNodesAndWhatLeavesThem) {
  JsonReport report;
  report.layout = {2, 8};
  report.rows = {sample_row()};
  report.rows[0].in_place.off_node_ratio = 13.25;
  report.rows[0].in_place.off_node_bytes = 1024;
  const std::string text = make_json(Options(), report);
  for (const char* part : {R"("nodes":2)", R"("off_node_ratio":13.25)",
                           R"("off_node_bytes_per_call":1024)", R"("off_node_ratio":null)"})
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
}

TEST(Json, QuotesWhatNeedsIt) { EXPECT_EQ(quote_json("a\"b\\c\nd"), "\"a\\\"b\\\\c\\u000ad\""); }

}  // namespace
}  // namespace terse::perf
