// A report as metrics (TERSE_METRICS), and the verdict on observed calls.
#include <gtest/gtest.h>

#include <string>

#include "report/report.h"

namespace terse::report {
namespace {

Row row_of(uint64_t calls) {
  Row row;
  row.collective = "AllReduce";
  row.scheme = "int8:block=128,round=nearest";
  row.calls = calls;
  row.raw = {4'000'000, 2'000'000};
  row.wire = {1'000'000, 500'000};
  return row;
}

Report report_of(std::vector<Row> rows) {
  Report report;
  report.communicators.push_back({.id = 0xab, .rank = 1, .ranks = 2, .rows = std::move(rows)});
  return report;
}

TEST(Metrics, AreSamplesWithLabels) {
  const std::string text = to_metrics(report_of({row_of(7)}));
  EXPECT_NE(text.find("# HELP terse_compressed_calls_total calls by collective and scheme\n"
                      "# TYPE terse_compressed_calls_total counter\n"
                      "terse_compressed_calls_total{rank=\"1\",communicator=\"00000000000000ab\","
                      "collective=\"AllReduce\",scheme=\"int8:block=128,round=nearest\"} 7\n"),
            std::string::npos)
      << text;
  EXPECT_TRUE(text.ends_with("# EOF\n"));
}

TEST(Metrics, HaveEachFamilyOnceWhateverTheRows) {
  const std::string text = to_metrics(report_of({row_of(1), row_of(2), row_of(3)}));
  size_t found = 0;
  for (size_t at = text.find("# TYPE terse_compressed_wire_bytes_total"); at != text.npos;
       at = text.find("# TYPE terse_compressed_wire_bytes_total", at + 1))
    ++found;
  EXPECT_EQ(found, 1u);
  EXPECT_NE(text.find("round=nearest\"} 1000000\n"), std::string::npos) << text;
}

TEST(Metrics, HaveErrorsAndReasonsWhereThereAreSome) {
  Report report = report_of({row_of(7)});
  EXPECT_EQ(to_metrics(report).find("quantile"), std::string::npos);
  Communicator& c = report.communicators.front();
  c.rows.front().error.relative.add(0.004);
  c.bypasses["the message is small"] = 5;
  c.native = {123, 45};
  const std::string text = to_metrics(report);
  EXPECT_NE(text.find("quantile=\"1\"} 0.004\n"), std::string::npos) << text;
  EXPECT_NE(text.find("reason=\"the message is small\"} 5\n"), std::string::npos) << text;
  EXPECT_NE(
      text.find("terse_native_bytes_total{rank=\"1\",communicator=\"00000000000000ab\"} 123\n"),
      std::string::npos)
      << text;
}

TEST(Metrics, NamesOfProgramsAreEscaped) {
  Report report = report_of({row_of(7)});
  report.communicators.front().names.own = "a\"b\\c\nd";
  EXPECT_NE(to_metrics(report).find(R"(name="a\"b\\c\nd")"), std::string::npos);
}

TEST(Verdict, SaysWhatWouldBe) {
  Report report = report_of({row_of(6)});
  report.observed = 10;
  Communicator& c = report.communicators.front();
  c.bypasses = {{"it is only observed", 6}, {"the message is small", 4}};
  EXPECT_EQ(
      show_verdict(verdict_of(report)),
      "6 of 10 calls would be compressed: 1 MB in place of 4 MB, 4.00 times less, and between "
      "nodes 500 KB in place of 2 MB");
  c.rows.front().times = {.calls = 6, .total = 4};
  c.rows.front().error.relative.add(0.004);
  EXPECT_EQ(
      show_verdict(verdict_of(report)),
      "6 of 10 calls would be compressed: 1 MB in place of 4 MB, 4.00 times less, and between "
      "nodes 500 KB in place of 2 MB; they took 4 s of 10 s, 40 %; encoded once they would err "
      "by 0.4 % (median), at most 0.4 %");
}

// As where ranks are threads.
TEST(Verdict, TimesAreThoseOfAllRanksOfAProcess) {
  Report report = report_of({row_of(6)});
  report.observed = 10;
  report.communicators.front().rows.front().times = {.calls = 6, .total = 4};
  for (int rank = 0; rank < 3; ++rank) report.communicators.push_back(report.communicators.front());
  const Verdict v = verdict_of(report);
  EXPECT_EQ(v.in_calls, 16);
  EXPECT_EQ(v.seconds, 40);
}

TEST(Verdict, PredictsOnlyByAProfile) {
  Report report = report_of({row_of(6)});
  report.observed = 10;
  Times& times = report.communicators.front().rows.front().times;
  times = {.calls = 6, .total = 4, .predicted = 1, .predicted_native = 3};
  EXPECT_NE(show_verdict(verdict_of(report))
                .find("predicted by the profile: 1 s in place of 3 s, 3.00 times as fast, and the "
                      "run 20 % shorter"),
            std::string::npos);
  EXPECT_EQ(verdict_of(report).saved(), 2);
  times.predicted = 3.5;
  EXPECT_NE(show_verdict(verdict_of(report)).find("0.86 times as fast, and the run 5 % longer"),
            std::string::npos);
}

TEST(Verdict, SavesAtMostWhatTheCallsTook) {
  EXPECT_EQ((Verdict{.in_calls = 2, .predicted = 2, .predicted_native = 4}).saved(), 1);
  EXPECT_EQ((Verdict{.in_calls = 5, .predicted = 2, .predicted_native = 4}).saved(), 2);
  EXPECT_EQ((Verdict{.predicted = 2, .predicted_native = 4}).saved(), 0);  // no call was timed
}

TEST(Verdict, OfNothingAndOfSeveralRanks) {
  Report report = report_of({});
  report.communicators.front().bypasses = {{"the message is small", 4}};
  EXPECT_EQ(show_verdict(verdict_of(report)), "none of 4 calls would be compressed");
  Verdict both = verdict_of(report_of({row_of(6)}));
  both += verdict_of(report_of({row_of(3)}));
  EXPECT_EQ(both.calls, 9u);
  EXPECT_EQ(both.raw, (plan::Traffic{8'000'000, 4'000'000}));
}

TEST(Verdict, IsReadAgain) {
  Report report = report_of({row_of(6)});
  report.observed = 10.5;
  report.communicators.front().rows.front().times = {
      .calls = 6, .total = 4, .predicted = 1, .predicted_native = 3};
  EXPECT_EQ(from_json(to_json(report)), report);
  EXPECT_EQ(from_json(to_json(report_of({}))).observed, std::nullopt);
}

}  // namespace
}  // namespace terse::report
