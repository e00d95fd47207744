// Calls that were kept, as Chrome's trace events.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/error.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

using Json = nlohmann::json;

constexpr int64_t kNoon = 1'795'000'000'000'000'000;  // in nanoseconds since 1970

// A call of 2 ms from `begin` on, and the native one before it.
TracedCall call_at(int64_t begin) {
  return {.collective = "AllReduce",
          .dtype = "fp32",
          .scheme = "int8",
          .count = 1000,
          .raw_bytes = 4000,
          .wire_bytes = 1040,
          .begin = begin,
          .end = begin + 2'000'000,
          .steps = {{"verify", "communicate 0", begin - 1'000'000, begin - 500},
                    {"encode", "encode", begin, begin + 250'500}},
          .left_out = 3};
}

NamedReport report_of(int rank, std::vector<std::pair<int, std::vector<int64_t>>> ranks) {
  NamedReport named{.file = "rank.json", .report = {}};
  named.report.host = "ho\"st";
  named.report.pid = 100 + rank;
  for (const auto& [r, begins] : ranks) {
    Communicator c{.id = 0xabc, .names = {"dp", "", 0}, .rank = r, .ranks = 3};
    for (const int64_t begin : begins) c.trace.push_back(call_at(begin));
    named.report.communicators.push_back(c);
  }
  return named;
}

std::vector<Json> find(const Json& trace, const std::string& phase, const std::string& name) {
  std::vector<Json> found;
  for (const Json& event : trace.at("traceEvents"))
    if (event.at("ph") == phase && event.at("name") == name) found.push_back(event);
  return found;
}

// Rank 0 in one process; 1 and 2 in another, one of which begins 5 ms later.
Json sample() {
  return Json::parse(trace_events({report_of(0, {{0, {kNoon, kNoon + 3'000'000}}}),
                                   report_of(1, {{1, {kNoon}}, {2, {kNoon + 5'000'000}}})}));
}

TEST(TraceEvents, EachRankIsAProcess) {
  const std::vector<Json> names = find(sample(), "M", "process_name");
  ASSERT_EQ(names.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(names[i]["pid"], i);
  const std::vector<Json> order = find(sample(), "M", "process_sort_index");
  ASSERT_EQ(order.size(), 3u);
  for (size_t i = 0; i < 3; ++i) EXPECT_EQ(order[i]["args"]["sort_index"], i);
  EXPECT_EQ(names[0]["args"]["name"], "rank 0 on ho\"st, process 100");
  EXPECT_EQ(names[2]["args"]["name"], "rank 2 on ho\"st, process 101");
}

// A process is named for its rank of all, also where half of the ranks were released before.
TEST(TraceEvents, TheLargestCommunicatorSaysWhichRankItIs) {
  NamedReport named = report_of(2, {{2, {kNoon}}});
  Communicator half{.id = 0xdef, .names = {"half", "", 0}, .rank = 0, .ranks = 2};
  auto& all = named.report.communicators;
  all.insert(all.begin(), half);
  const Json trace = Json::parse(trace_events({named}));
  const std::vector<Json> names = find(trace, "M", "process_name");
  ASSERT_EQ(names.size(), 1u);
  EXPECT_EQ(names[0]["args"]["name"], "rank 2 on ho\"st, process 102");
  EXPECT_EQ(find(trace, "M", "process_sort_index").at(0)["args"]["sort_index"], 2);
}

// In microseconds since the earliest thing of all ranks, the native call of rank 0 or 1.
TEST(TraceEvents, RanksAreOnOneAxis) {
  const Json trace = sample();
  EXPECT_EQ(trace["otherData"]["zero_ns_since_1970"], kNoon - 1'000'000);
  const std::vector<Json> begins = find(trace, "b", "AllReduce int8"),
                          ends = find(trace, "e", "AllReduce int8");
  ASSERT_EQ(begins.size(), 4u);
  ASSERT_EQ(ends.size(), 4u);
  const std::pair<int, double> want[] = {{0, 1000}, {0, 4000}, {1, 1000}, {2, 6000}};
  std::set<std::string> ids;
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(begins[i]["pid"], want[i].first);
    EXPECT_DOUBLE_EQ(begins[i]["ts"], want[i].second);
    EXPECT_DOUBLE_EQ(ends[i]["ts"], want[i].second + 2000);
    EXPECT_EQ(begins[i]["id"], ends[i]["id"]);
    EXPECT_TRUE(ids.insert(begins[i]["id"]).second) << "two calls of one id";
  }
  const Json& what = begins[0]["args"];
  EXPECT_EQ(what["communicator"], "communicator 0000000000000abc \"dp\"");
  EXPECT_EQ(what["count"], 1000);
  EXPECT_EQ(what["dtype"], "fp32");
  EXPECT_EQ(what["raw_bytes"], 4000);
  EXPECT_EQ(what["wire_bytes"], 1040);
  EXPECT_EQ(what["steps_left_out"], 3);
}

TEST(TraceEvents, StepsAreOnTheirLanes) {
  const Json trace = sample();
  const std::vector<Json> encodes = find(trace, "X", "encode"), native = find(trace, "X", "verify");
  ASSERT_EQ(encodes.size(), 4u);
  ASSERT_EQ(native.size(), 4u);
  EXPECT_DOUBLE_EQ(encodes[0]["ts"], 1000);
  EXPECT_DOUBLE_EQ(encodes[0]["dur"], 250.5);
  EXPECT_DOUBLE_EQ(native[0]["ts"], 0);
  EXPECT_DOUBLE_EQ(native[0]["dur"], 999.5);
  EXPECT_EQ(encodes[0]["tid"], encodes[1]["tid"]);
  EXPECT_NE(encodes[0]["tid"], native[0]["tid"]);
  for (const Json& lane : find(trace, "M", "thread_name"))
    if (lane["pid"] == 0 && lane["tid"] == encodes[0]["tid"]) {
      EXPECT_EQ(lane["args"]["name"], "communicator 0000000000000abc \"dp\", encode");
    }
  EXPECT_EQ(find(trace, "M", "thread_name").size(), 6u);
}

TEST(TraceEvents, NoneIsAnErrorThatSaysWhatToDo) {
  try {
    trace_events({report_of(0, {{0, {}}})});
    FAIL();
  } catch (const terse::Error& e) {
    EXPECT_NE(e.message.find("TERSE_TRACE=N"), std::string::npos) << e.message;
  }
}

}  // namespace
}  // namespace terse::report
