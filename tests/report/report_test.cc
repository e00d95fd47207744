// Reports as files, and what brings those of all ranks together.
#include "report/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>

#include "base/error.h"
#include "base/file.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

// A rank's errors: four small ones and a large one, or none but what cannot be measured.
Distribution sample_errors(int rank) {
  Distribution d;
  for (int k = 0; k < 4; ++k) d.add(0.006 + 0.0001 * (rank + k));
  d.add(0.2 + 0.01 * rank);
  return d;
}

Distribution infinite() {
  Distribution d;
  d.add(std::numeric_limits<double>::infinity());
  return d;
}

Row sample_row(int rank) {
  Row row;
  row.rule = 1;
  row.collective = "AllReduce";
  row.scheme = "int8:block=128,round=nearest";
  row.calls = 10;
  row.raw = {15'000'000, 5'000'000};
  row.wire = {3'867'000, 2'578'000};
  row.times = {10, 0.05 + 0.01 * rank, 0.004, 0.03 - 0.002 * rank, 0.0061};
  row.error = {.relative = sample_errors(rank),
               .squares = 0.25 * (1 + rank),
               .exact_squares = 10000.0,
               .largest = 0.125,
               .lost = 3,
               .spread = 127,
               .course = {}};
  row.error_scale = {0.0065, false};
  row.race = {3, 0.06 + 0.01 * rank, 0.015};
  for (uint64_t k = 0; k < 5; ++k)
    row.error.course.add(2 * k, 0.001 * static_cast<double>(k + rank));
  return row;
}

constexpr int64_t kNoon = 1'795'000'000'000'000'000;  // in nanoseconds since 1970

// Of 2 ms, that begins with its rank's number in milliseconds; the native call comes before it.
TracedCall sample_call(int rank) {
  const int64_t begin = kNoon + rank * 1'000'000;
  return {.collective = "AllReduce",
          .dtype = "fp32",
          .scheme = "int8",
          .count = 250'000,
          .raw_bytes = 1'500'000,
          .wire_bytes = 386'700,
          .begin = begin,
          .end = begin + 2'000'000,
          .steps = {{"verify", "communicate 0", begin - 4'000'000, begin - 500},
                    {"encode", "encode", begin, begin + 300'000}},
          .left_out = 3};
}

Report sample(int rank, int ranks) {
  Report r;
  r.terse = "0.1.0";
  r.host = rank < 2 ? "alpha" : "beta<&>\"";
  r.pid = 100 + rank;
  r.library = "libterse_nccl";
  r.written = "2026-11-21T12:00:00Z";
  r.policy = "int8:block=128,round=nearest from 65536 B";
  r.meter = 1;
  r.verify = 2;
  if (rank == 1) r.meter.reset();
  Communicator c{.id = 0xfedcba9876543210u, .rank = rank, .ranks = ranks, .released = true};
  if (rank != 0) c.names.own = "dp<0>";
  if (rank == 1) c.names = {"dp<0>", "world", 7};
  c.sizes.compressed.add(1'000'000);
  c.sizes.skipped.add(100);
  c.sizes.native.add(0);
  c.trace = {sample_call(rank)};
  c.nodes = 2;
  c.node = rank / 2;
  c.native = {4096, 1024};
  c.bypasses = {{"the message is small", 3}};
  c.deltas = {{"of differences", 5}};
  if (rank == 1)
    c.levels = {{"allgather", "bfloat16", "learned2", 4096, 10, 2, {0, 0.1f, 0.5f, 1}}};
  c.state_bytes = 77;
  c.scratch_bytes = 1 << 20;
  c.verify_bytes = 1 << 22;
  c.rows.push_back(sample_row(rank));
  Row named = sample_row(rank);
  named.rule.reset();
  named.scheme = "minmax4";
  named.raw.off_node = named.wire.off_node = 0;
  named.times = {};
  named.race = {};
  named.error = {.relative = infinite(), .squares = 1};
  c.rows.push_back(named);
  r.communicators.push_back(c);
  return r;
}

std::vector<NamedReport> samples(int ranks) {
  std::vector<NamedReport> all;
  for (int r = 0; r < ranks; ++r) all.push_back({fmt::format("rank{}.json", r), sample(r, ranks)});
  return all;
}

std::string why_not(const std::string& text) {
  try {
    from_json(text);
  } catch (const terse::Error& e) {
    return e.message;
  }
  return "nothing";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  EXPECT_NE(at, text.npos) << from;
  return text.replace(at, from.size(), to);
}

std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(Report, IsTheSameWhenReadAgain) {
  for (const int rank : {0, 1, 2}) EXPECT_EQ(from_json(to_json(sample(rank, 3))), sample(rank, 3));
}

// Rows say it where there are pods.
TEST(Report, SaysWhatLeavesThePod) {
  std::vector<NamedReport> reports = samples(4);
  EXPECT_EQ(to_text(reports[0].report).find("pod"), std::string::npos);
  for (NamedReport& one : reports) {
    Communicator& c = one.report.communicators[0];
    c.pods = 2;
    c.native.off_pod = 512;
    c.rows[0].raw.off_pod = 8000;
    c.rows[0].wire.off_pod = 2000;
    EXPECT_EQ(from_json(to_json(one.report)), one.report);
    EXPECT_NE(to_text(one.report).find("off the pod"), std::string::npos) << to_text(one.report);
  }
  const Merged merged = merge(reports);
  const std::string text = table(merged);
  EXPECT_NE(text.find("off the pod, natively            8 KB"), text.npos) << text;
  EXPECT_NE(text.find("off the pod, sent                2 KB"), text.npos) << text;
  EXPECT_NE(text.find("2.05 KB off pod"), text.npos) << text;
  const auto json = nlohmann::json::parse(merged_json(merged))["communicators"][0];
  EXPECT_EQ(json["native_off_pod_bytes"], 2048);
  EXPECT_EQ(json["rows"][0]["over_ranks"]["off_pod_ratio"]["median"], 4);
}

// Of the first row auto has chosen the scheme; of the second it has not.
TEST(Report, SetsPredictionsBesideWhatWasMeasured) {
  std::vector<NamedReport> all = samples(3);
  for (NamedReport& each : all)
    each.report.communicators[0].rows[0].times.predicted = 0.03;  // of 10 calls, that took 50 to 70
  const Report& first = all[0].report;
  EXPECT_EQ(from_json(to_json(first)), first);
  EXPECT_NE(to_text(first).find("\n  auto predicted 3 ms a call, 0.60 times what was measured\n"),
            std::string::npos)
      << to_text(first);
  const Merged merged = merge(all);
  const std::string words = "auto predicted 3 ms a call, 0.50 times what was measured";
  for (const std::string& text : {table(merged), html(merged)}) {
    const size_t at = text.find(words);
    ASSERT_NE(at, text.npos) << text;
    EXPECT_EQ(text.find("auto predicted", at + 1), text.npos);
  }
  EXPECT_NE(merged_json(merged).find("\"predicted_seconds_per_call\": 0.003"), std::string::npos);
  EXPECT_EQ(table(merge(samples(3))).find("auto"), std::string::npos);
}

TEST(Report, SaysWhatIsWrongWithAFile) {
  const std::string good = to_json(sample(0, 1));
  EXPECT_NE(why_not(good.substr(0, good.size() / 2)).find("parse error"), std::string::npos);
  EXPECT_NE(why_not("").find("parse error"), std::string::npos);
  EXPECT_EQ(why_not("[1, 2]"), "it is no report of terse");
  EXPECT_EQ(why_not("{\"format\": \"other\"}"), "it is no report of terse");
  EXPECT_EQ(why_not(replaced(good, "\"version\": 2", "\"version\": 3")),
            "it is of version 3 of the format, and this program reads 2");
  EXPECT_NE(why_not(replaced(good, "\"calls\": 10", "\"calls\": \"ten\"")).find("type"),
            std::string::npos);
  EXPECT_NE(why_not(replaced(good, "\"scheme\"", "\"skeme\"")).find("scheme"), std::string::npos);
  EXPECT_NE(why_not(replaced(good, "\"rank\": 0", "\"rank\": 1")).find("beyond"),
            std::string::npos);
}

TEST(Report, SaysWhatIsWrongInItsOwnWords) {
  const std::string good = to_json(sample(0, 1));
  const std::string id = "\"id\": \"";
  for (const char* wrong : {"", "x", "12g", "-1", "0x1", " 1", "11112222333344445"}) {
    std::string text = good;
    const size_t at = text.find(id) + id.size();
    text.replace(at, text.find('"', at) - at, wrong);
    EXPECT_EQ(why_not(text), fmt::format("a number that cannot be right: id \"{}\"", wrong));
  }
  EXPECT_EQ(why_not(replaced(good, "\"calls\": 10", "\"calls\": \"ten\"")),
            "type must be number, but is string");
}

// A name is the program's, and may be of any bytes; a file is of whoever wrote it.
TEST(Report, NamesDoNothingToATerminal) {
  Report r = sample(0, 1);
  r.host = "h\x1b]0;x\x07";
  r.communicators[0].names = {.own = "a\nnative: \x1b[2J"};
  const std::string own = to_text(r);
  EXPECT_NE(own.find(" \"a\\nnative: \\x1b[2J\""), std::string::npos) << own;
  const Report read = from_json(to_json(r));
  EXPECT_EQ(read.host, "h\\x1b]0;x\\x07");
  EXPECT_EQ(read.communicators[0].names.own, "a\\nnative: \\x1b[2J");
  const Merged merged = merge({{"a.json", read}});
  for (const std::string& text : {own, table(merged), html(merged), merged_json(merged)})
    EXPECT_EQ(text.find_first_of("\x1b\x07"), std::string::npos) << text;
}

// Not by the end of the stack, whatever holds the lists.
TEST(Report, RefusesWhatNestsDeeperThanAnyReport) {
  const std::string good = to_json(sample(0, 1));
  const auto nested = [](size_t lists) {
    return std::string(lists, '[') + std::string(lists, ']');
  };
  const auto with = [&](const char* name, size_t lists) {
    return replaced(good, "\"rank\": 0",
                    fmt::format("\"rank\": 0, \"{}\": {}", name, nested(lists)));
  };
  for (const char* name : {"levels", "trace", "sizes", "course", "more"})
    for (const size_t lists : {30, 300'000})
      EXPECT_EQ(why_not(with(name, lists)), "more than 32 lists or objects in each other") << name;
  EXPECT_EQ(why_not(with("more", 29)), "nothing");
  EXPECT_EQ(why_not(nested(300'000)), "it is no report of terse");
}

// What it does not say is not made up.
TEST(Report, ReadsWhatOlderProcessesWrote) {
  const Report old = from_json(contents(TERSE_TEST_DATA "/report/before-native-times.json"));
  ASSERT_EQ(old.communicators.size(), 2u);
  for (const Communicator& c : old.communicators) {
    EXPECT_EQ(c.names, Names{});
    EXPECT_EQ(c.sizes, MessageSizes{});
    EXPECT_TRUE(c.trace.empty());
    ASSERT_EQ(c.rows.size(), 1u);
    EXPECT_EQ(c.rows[0].calls, 4u);
    EXPECT_EQ(c.rows[0].error.calls(), 3u);
    EXPECT_EQ(c.rows[0].race, Race{});
    EXPECT_EQ(c.rows[0].error.course, DownsampledSeries{});
  }
  const Merged merged = merge({{"old.json", old}});
  for (const std::string& text : {table(merged), html(merged), to_text(old)}) {
    EXPECT_EQ(text.find("times as fast"), std::string::npos) << text;
    EXPECT_EQ(text.find("skipped"), std::string::npos) << text;
  }
  EXPECT_NE(merged_json(merged).find("\"native\": null"), std::string::npos);
}

TEST(Report, SaysWhatIsWrongWithTheNewerParts) {
  const std::string good = to_json(sample(0, 1));
  EXPECT_EQ(why_not(replaced(good, "\"each\": 1", "\"each\": 3")),
            "a number that cannot be right: a course that is none");
  EXPECT_EQ(why_not(replaced(good, "\"each\": 1", "\"each\": 9223372036854775808")),
            "a number that cannot be right: a course that is none");
  EXPECT_EQ(why_not(replaced(good, "\"each\": 1", "\"each\": 0")),
            "a number that cannot be right: a course that is none");
  std::string size = good;
  const size_t at = size.find('[', size.find("\"skipped\": [") + 12);
  EXPECT_EQ(size.substr(at + 1).find("6"), size.substr(at + 1).find_first_not_of(" \n"));
  size.replace(size.find('6', at), 1, "64");  // 100 B, of class 6
  EXPECT_NE(why_not(size).find("a number that cannot be right"), std::string::npos);
  EXPECT_NE(why_not(replaced(good, "\"wire_bytes\": 386700", "\"wire\": 1")).find("wire_bytes"),
            std::string::npos);
}

TEST(Report, CallsCommunicatorsByWhatIsKnownOfThem) {
  EXPECT_EQ(label({"dp", "world", 3}), "\"dp\"");
  EXPECT_EQ(label({"", "world", 3}), "#3 from \"world\"");
  EXPECT_EQ(label({"", "world", {}}), "from \"world\"");
  EXPECT_EQ(label({"", "", 3}), "#3");
  EXPECT_EQ(label({}), "");
  EXPECT_EQ(show_communicator(10, label({"", "world", 3})),
            "communicator 000000000000000a #3 from \"world\"");
}

TEST(Report, ShowsNumbersWithThreeDigits) {
  EXPECT_EQ(show_bytes(0), "0 B");
  EXPECT_EQ(show_bytes(999), "999 B");
  EXPECT_EQ(show_bytes(1536), "1.54 KB");
  EXPECT_EQ(show_bytes(999.9e6), "1 GB");
  EXPECT_EQ(show_bytes(1.2e19), "12 EB");
  EXPECT_EQ(show_seconds(0.0000123), "12.3 us");
  EXPECT_EQ(show_seconds(0.0456), "45.6 ms");
  EXPECT_EQ(show_seconds(0.0009996), "1 ms");
  EXPECT_EQ(show_seconds(0.9996), "1 s");
  EXPECT_EQ(show_seconds(12.5), "12.5 s");
  EXPECT_EQ(show_seconds(43210), "43210 s");
  EXPECT_EQ(show_error(0.0065), "0.65 %");
  EXPECT_EQ(show_error(std::numeric_limits<double>::infinity()), "infinite");
}

// The last rank has only received; of the first node one rank sends all that leaves it.
TEST(Merge, ARankThatSendsNothingHasNoRatio) {
  std::vector<NamedReport> reports = samples(4);
  const std::string alike = table(merge(reports));
  EXPECT_EQ(alike.find("all ranks together"), alike.npos);
  const auto says_none = [](const std::string& text) {
    for (const char* wrong : {" nan", ">nan", " 0.00 ", ">0.00x"})
      EXPECT_EQ(text.find(wrong), text.npos) << text;
  };
  const auto row = [&](int rank) -> Row& { return reports[rank].report.communicators[0].rows[0]; };
  row(3).raw = row(3).wire = {};
  row(1).wire.off_node = 0;
  row(0).wire.off_node *= 2;
  EXPECT_TRUE(std::isnan(row(3).ratio()));
  EXPECT_TRUE(std::isnan(row(1).off_node_ratio()));
  for (const int rank : {1, 3}) {
    EXPECT_EQ(from_json(to_json(reports[rank].report)), reports[rank].report);
    says_none(to_text(reports[rank].report));
  }
  const Merged merged = merge(reports);
  const MergedRow& all = merged.communicators[0].rows[0];
  EXPECT_EQ(all.spread(value::ratio).count, 3u);
  EXPECT_NEAR(all.spread(value::ratio).min, 3.879, 1e-3);
  EXPECT_EQ(all.spread(value::off_node_ratio).count, 2u);
  EXPECT_NEAR(all.spread(value::off_node_ratio).min, 0.97, 1e-2);
  const std::string words = "all ranks together: ratio 3.88, off node 1.94";
  for (const std::string& text : {table(merged), html(merged)}) {
    EXPECT_NE(text.find(words), text.npos) << text;
    says_none(text);
  }
  const auto json = nlohmann::json::parse(merged_json(merged))["communicators"][0]["rows"][0];
  EXPECT_NEAR(json["all_ranks"]["ratio"], 3.879, 1e-3);
  EXPECT_NEAR(json["all_ranks"]["off_node_ratio"], 1.9395, 1e-4);
  EXPECT_TRUE(json["by_rank"][3]["ratio"].is_null());
}

TEST(Merge, FindsExtremesMediansAndWhoIsLate) {
  const Merged merged = merge(samples(4));
  EXPECT_TRUE(merged.complaints.empty()) << merged.complaints.front();
  ASSERT_EQ(merged.communicators.size(), 1u);
  const MergedCommunicator& c = merged.communicators[0];
  EXPECT_EQ(c.native, (TrafficSum{4 * 4096, 4 * 1024}));
  EXPECT_EQ(c.nodes, 2);
  EXPECT_EQ(c.members[3].node, 1);
  EXPECT_NEAR(c.rows[0].spread(value::off_node_ratio).max, 1.9395, 1e-4);
  EXPECT_EQ(c.rows[1].spread(value::off_node_ratio).count, 0u) << "nothing leaves";
  EXPECT_EQ(c.bypasses.at("the message is small"), 12u);
  EXPECT_EQ(c.deltas.at("of differences"), 20u);
  ASSERT_EQ(c.rows.size(), 2u);
  const Spread total = c.rows[0].spread(value::total);
  EXPECT_EQ(total.count, 4u);
  EXPECT_DOUBLE_EQ(total.min, 0.005);
  EXPECT_DOUBLE_EQ(total.median, 0.0065);
  EXPECT_DOUBLE_EQ(total.max, 0.008);
  EXPECT_EQ(total.max_rank, 3);
  EXPECT_EQ(c.rows[0].spread(value::communicate).min_rank, 3);
  EXPECT_DOUBLE_EQ(c.rows[0].spread(value::pooled_error).max, 0.01);
  EXPECT_NEAR(c.rows[0].spread(value::median_error).max, 0.0065, 0.0065 * 0.011);
  EXPECT_DOUBLE_EQ(c.rows[0].spread(value::worst_error).max, 0.23);
  EXPECT_DOUBLE_EQ(c.rows[0].spread(value::worst_error).min, 0.2);
  EXPECT_EQ(c.rows[1].spread(value::total).count, 0u);
  EXPECT_TRUE(std::isinf(c.rows[1].spread(value::median_error).max));
}

// As its first row's calls are, all or some.
Report fused(Report report, uint64_t calls) {
  Communicator& c = report.communicators[0];
  Row& row = c.rows[0];
  c.window_bytes = 1 << 18;
  row.fused_calls = calls;
  row.times.total = 0.09 - row.times.total;  // the last rank is the fastest
  row.times.fused = row.times.total * static_cast<double>(calls) / 10;
  if (calls == row.calls) row.times.encode = row.times.communicate = row.times.decode = 0;
  return report;
}

TEST(Report, HasFusedCalls) {
  const Report all = fused(sample(0, 1), 10), some = fused(sample(0, 1), 4);
  for (const Report& report : {all, some}) EXPECT_EQ(from_json(to_json(report)), report);
  EXPECT_NE(to_text(all).find("\n  a call takes 4 ms, fused\n"), std::string::npos) << to_text(all);
  EXPECT_NE(
      to_text(some).find("decode 610 us\n  fused: 4 of the calls, 16 ms of all calls' 40 ms\n"),
      std::string::npos)
      << to_text(some);
  EXPECT_NE(to_metrics(some).find("terse_compressed_fused_calls_total{"), std::string::npos);
  EXPECT_EQ(to_json(sample(0, 1)).find("fused"), std::string::npos);
}

// It waits least in its calls, all of whose time is one step.
TEST(Merge, OfFusedCallsTheFastestRankIsLate) {
  std::vector<NamedReport> reports = samples(4);
  for (NamedReport& each : reports) each.report = fused(each.report, 10);
  const Merged merged = merge(reports);
  const MergedRow& row = merged.communicators[0].rows[0];
  EXPECT_EQ(row.spread(value::communicate).max, 0.0);
  EXPECT_EQ(row.spread(value::waiting).min_rank, 3);
  EXPECT_NE(merged_json(merged).find("\"late_rank\": 3"), std::string::npos);
  const std::string text = table(merged);
  EXPECT_NE(text.find("\n    fused "), std::string::npos) << text;
  const size_t late = text.find(" is late\n");
  EXPECT_EQ(text.substr(late - 6, 6), "rank 3") << text;
  EXPECT_EQ(text.find(" is late\n", late + 1), std::string::npos) << text;
  EXPECT_NE(html(merged).find("<th>fused</th>"), std::string::npos);
  EXPECT_EQ(table(merge(samples(4))).find("fused"), std::string::npos);
}

TEST(Merge, TheErrorsOfAllRanksCountAlike) {
  const Merged merged = merge(samples(4));
  const Distribution errors = merged.communicators[0].rows[0].errors();
  EXPECT_EQ(errors.count(), 20u);
  EXPECT_NEAR(errors.median(), 0.0064, 0.0064 * 0.011);
  EXPECT_NEAR(errors.percentile(80), 0.0066, 0.0066 * 0.011);
  EXPECT_EQ(errors.greatest(), 0.23);
  const std::string json = merged_json(merged);
  EXPECT_NE(json.find(R"("name": "dp<0>",)"), std::string::npos);
  EXPECT_NE(json.find(R"("worst_relative_error": 0.23,)"), std::string::npos);
  EXPECT_NE(json.find(R"("worst": 0.23,
)"),
            std::string::npos);
  EXPECT_EQ(json.find(R"("relative_error")"), std::string::npos) << "of what it would be";
}

TEST(Report, TheTextHasTheErrorOfACall) {
  const std::string text = to_text(sample(0, 1));
  EXPECT_NE(to_text(sample(1, 2)).find("communicator fedcba9876543210 \"dp<0>\", rank 1 of 2"),
            std::string::npos);
  for (const char* part :
       {"rank 0 of 1, node 0 of 2\n", "\nAllReduce, int8:block=128,round=nearest: 10 calls\n",
        "\n  off the node: natively 5 MB, sent 2.58 MB, 1.94 times less\n",
        "\n  natively 20 ms a call, compressed 5 ms: 4.00 times as fast, by 3 calls",
        "\n  error: median 0.622 %, 99th percentile 20 %, worst 20 %\n",
        "\n  one encoding of Gaussian data errs by 0.65 %; biased: errors do not average out\n",
        "worst infinite\n"})
    EXPECT_NE(text.find(part), std::string::npos) << text;
}

size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

TEST(Report, TextFitsATerminal) {
  EXPECT_LE(longest_line(to_text(sample(1, 2))), 100u);
  EXPECT_LE(longest_line(table(merge(samples(4)))), 100u);
}

TEST(Merge, TheTableSaysWhatWasSaved) {
  EXPECT_NE(table(merge(samples(4)))
                .find("\ncompression has saved 200 ms a process, by the calls that ran both ways "
                      "(of 40)\n"),
            std::string::npos)
      << table(merge(samples(4)));
}

// An observed call's bytes are those that it would send, and its time NCCL's own.
TEST(Merge, TheTableOfObservedCallsSaysWhatTheyWouldSend) {
  std::vector<NamedReport> reports = samples(2);
  for (NamedReport& each : reports)
    for (Communicator& c : each.report.communicators)
      for (Row& row : c.rows) row.message = "float32, sum, 1 MB";
  const std::string text = table(merge(reports));
  EXPECT_NE(text.find("\n  would send "), text.npos) << text;
  for (const char* part : {"bytes sent", "  encode", "  decode"})
    EXPECT_EQ(text.find(std::string("\n  ") + part), text.npos) << text;
  EXPECT_NE(to_text(reports[0].report).find(", would send "), text.npos);
}

TEST(Merge, TheTableIsAsItWas) {
  const std::string path = TERSE_TEST_DATA "/report/table.txt", text = table(merge(samples(4)));
  if (std::getenv("TERSE_BLESS") != nullptr) write_file(path, text);
  EXPECT_EQ(text, contents(path));
}

TEST(Merge, ComplainsOfWhatDoesNotFit) {
  std::vector<NamedReport> reports = samples(5);
  reports.erase(reports.begin() + 3);
  reports.erase(reports.begin() + 1);  // 0, 2 and 4 are left
  reports[1].report.terse = "0.2.0";
  reports[1].report.communicators[0].rows[0].calls = 9;
  reports[2].report.policy = "off";
  reports.push_back({"again.json", sample(2, 5)});
  reports.push_back({"fewer.json", sample(1, 2)});
  reports.back().report.left_out = 2;
  const std::vector<std::string> want = {
      "rank2.json: of terse 0.2.0, and rank0.json of terse 0.1.0",
      "rank4.json: its settings are not those of rank0.json",
      "again.json: rank 2 of communicator fedcba9876543210 \"dp<0>\" is in rank2.json already",
      "fewer.json: 2 communicators more not kept",
      "fewer.json: communicator fedcba9876543210 \"dp<0>\" has 2 ranks here and 5 elsewhere",
      "communicator fedcba9876543210 \"dp<0>\": AllReduce of int8:block=128,round=nearest: rank 2 "
      "counts 9 calls and rank 0 10",
      "communicator fedcba9876543210 \"dp<0>\": of its 5 ranks there is no report of 1, 3"};
  const std::vector<std::string> got = merge(reports).complaints;
  ASSERT_EQ(got.size(), want.size()) << fmt::format("{}", fmt::join(got, "\n"));
  for (size_t i = 0; i < want.size(); ++i) EXPECT_EQ(got[i], want[i]);
}

// Of a rank without a report no more is said than that; of rooted calls a rank may have no part.
TEST(Merge, ComplainsOfARankWithoutTheCallsOfTheOthers) {
  std::vector<NamedReport> reports = samples(3);
  reports.pop_back();
  Report &has = reports[0].report, &lacks = reports[1].report;
  lacks.communicators[0].rows.erase(lacks.communicators[0].rows.begin());
  const std::string name = "communicator fedcba9876543210 \"dp<0>\": ";
  const std::string missing = name + "of its 3 ranks there is no report of 2";
  const std::string fewer = name +
                            "AllReduce of int8:block=128,round=nearest: rank 1 counts 0 calls and "
                            "rank 0 10";
  EXPECT_EQ(merge(reports).complaints, (std::vector<std::string>{fewer, missing}));
  for (const char* kind : {"Broadcast", "Gather", "Send"}) {
    has.communicators[0].rows[0].collective = kind;
    EXPECT_EQ(merge(reports).complaints, std::vector<std::string>{missing}) << kind;
  }
}

TEST(Merge, RanksNeedNotHaveAsManyMessages) {
  std::vector<NamedReport> reports = samples(2);
  for (NamedReport& r : reports)
    for (Row& row : r.report.communicators[0].rows) row.collective = "Send";
  reports[1].report.communicators[0].rows[0].calls = 9;
  EXPECT_TRUE(merge(reports).complaints.empty());
  reports[1].report.communicators[0].rows[1].collective = "AllToAll";
  reports[0].report.communicators[0].rows[1].collective = "AllToAll";
  reports[1].report.communicators[0].rows[1].calls = 9;
  EXPECT_EQ(merge(reports).complaints.size(), 1u);
}

TEST(Merge, KeepsCommunicatorsThatWereNotAgreedApart) {
  std::vector<NamedReport> reports = samples(2);
  for (NamedReport& r : reports) r.report.communicators[0].id = 0;
  const Merged merged = merge(reports);
  EXPECT_EQ(merged.communicators.size(), 2u);
  EXPECT_TRUE(merged.complaints.empty());
}

TEST(Merge, ReadsAFolderAndNamesTheFilesThatItCannot) {
  const std::filesystem::path folder = testing::TempDir() + fmt::format("/terse{}", getpid());
  std::filesystem::create_directory(folder);
  EXPECT_THROW(read_folder(folder), terse::Error);
  EXPECT_THROW(read_folder(folder / "nowhere"), terse::Error);
  write_file(folder / "a.json", to_json(sample(0, 1)));
  write_file(folder / "b.json", "{");
  write_file(folder / "c.txt", "no report");
  write_file(folder / "d.json", merged_json(merge(samples(2))));
  for (int i = 0; i < 30; ++i)  // that one comes last, wherever folders have them
    std::filesystem::create_symlink("nowhere", folder / fmt::format("link{}.json", i));
  const Merged merged = merge(read_folder(folder));
  EXPECT_EQ(merged.files, std::vector<std::string>{"a.json"});
  ASSERT_EQ(merged.complaints.size(), 1u);
  EXPECT_EQ(merged.complaints[0].find("b.json: "), 0u);
  std::filesystem::remove_all(folder);
}

TEST(Merge, PassesOverJsonThatIsNoReport) {
  const std::filesystem::path folder = testing::TempDir() + fmt::format("/others{}", getpid());
  std::filesystem::create_directory(folder);
  write_file(folder / "a.json", to_json(sample(0, 1)));
  write_file(folder / "trace.json", trace_events({{"a.json", sample(0, 1)}}));
  write_file(folder / "list.json", "[1, 2]");
  write_file(folder / "number.json", "{\"format\": 3}");
  write_file(folder / "other.json", "{\"format\": \"other\", \"version\": 9}");
  EXPECT_EQ(merge(read_folder(folder)).complaints, std::vector<std::string>{});
  write_file(folder / "later.json",
             replaced(to_json(sample(0, 1)), "\"version\": 2", "\"version\": 3"));
  EXPECT_EQ(merge(read_folder(folder)).complaints,
            std::vector<std::string>{
                "later.json: it is of version 3 of the format, and this program reads 2"});
  std::filesystem::remove(folder / "a.json");
  std::filesystem::remove(folder / "later.json");
  EXPECT_THROW(read_folder(folder), terse::Error);
  std::filesystem::remove_all(folder);
}

TEST(Merge, ThePageShowsWhatLeavesTheNodes) {
  const std::string page = html(merge(samples(4)));
  for (const char* part : {"on 2 nodes: alpha", "<b>1.94x</b><span>fewer between nodes</span>",
                           "<th>off node</th>", "<td>5 MB</td><td>2.58 MB</td><td>1.94x</td>",
                           "<td>of them between nodes</td><td>4.1 KB</td>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

// Of the sums over the ranks: 270 ms for 60 ms, by three calls of each.
TEST(Merge, SaysHowManyTimesAsFastItIs) {
  const Merged merged = merge(samples(4));
  const MergedRow& row = merged.communicators[0].rows[0];
  EXPECT_EQ(row.raced(), 3u);
  EXPECT_DOUBLE_EQ(row.race().native, 0.3);
  EXPECT_DOUBLE_EQ(row.spread(value::native_time).min, 0.02);
  EXPECT_DOUBLE_EQ(row.spread(value::raced_time).max, 0.005);
  EXPECT_DOUBLE_EQ(row.spread(value::speedup).max, 6.0);
  EXPECT_EQ(merged.communicators[0].rows[1].spread(value::speedup).count, 0u) << "not measured";
  const std::string words =
      "natively 25 ms a call, compressed 5 ms: 5.00 times as fast, by 3 calls that ran both ways";
  for (const std::string& text : {table(merged), html(merged)}) {
    const size_t at = text.find(words);
    ASSERT_NE(at, text.npos) << text;
    EXPECT_EQ(text.find("that ran both ways", at + words.size()), text.npos) << "not measured";
  }
  const std::string page = html(merged);
  for (const char* part : {"<b>5.00x</b><span>as fast, where calls ran both ways</span>",
                           "<th>speed-up*</th>", "<td>23.3 ms</td><td>5 ms</td><td>4.67x</td>"})
    EXPECT_NE(page.find(part), page.npos) << part;
  const auto json = nlohmann::json::parse(merged_json(merged))["communicators"][0]["rows"];
  EXPECT_EQ(json[0]["native"]["calls"], 3);
  EXPECT_DOUBLE_EQ(json[0]["native"]["speedup"], 5.0);
  EXPECT_DOUBLE_EQ(json[0]["by_rank"][1]["verified_native_seconds_per_call"], 0.07 / 3);
  EXPECT_TRUE(json[1]["native"].is_null());
}

TEST(Merge, ThePageShowsErrorsOverTime) {
  const Merged merged = merge(samples(4));
  const DownsampledSeries course = merged.communicators[0].rows[0].course();
  ASSERT_EQ(course.points.size(), 5u);
  EXPECT_EQ(course.points[4].at, 8u);
  EXPECT_EQ(course.points[4].count, 4u);
  EXPECT_DOUBLE_EQ(course.points[4].mean(), 0.0055);
  EXPECT_DOUBLE_EQ(course.points[4].greatest, 0.007);
  const std::string page = html(merged);
  EXPECT_NE(page.find("mean error, call by call"), page.npos);
  // From the mean of the first calls, 0.0015, to that of the last; of the greatest, 0.007.
  EXPECT_NE(page.find("<polyline points=\"2.0,69.6 101.0,57.3 200.0,45.0 299.0,32.7 398.0,20.4\""),
            page.npos)
      << page.substr(page.find("<polyline"), 200);
}

TEST(Merge, CountsMessagesBySize) {
  const Merged merged = merge(samples(4));
  const std::vector<SizeLine> lines = size_lines(merged);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0].from, "from 1 B on");
  EXPECT_EQ(lines[0].fates[2], (SizesSum::Class{4, 0}));
  EXPECT_EQ(lines[1].from, "from 64 B on");
  EXPECT_EQ(lines[1].fates[1], (SizesSum::Class{4, 400}));
  EXPECT_EQ(lines[2].from, "from 512 KiB on");
  EXPECT_EQ(lines[2].fates[0], (SizesSum::Class{4, 4'000'000}));
  const std::string page = html(merged);
  EXPECT_NE(page.find("<tr><td>from 512 KiB on</td><td>4</td><td>4 MB</td><td>-</td>"), page.npos);
}

// Of two ranks they are beyond 64 bits.
TEST(Merge, SumsMayBeLarge) {
  constexpr size_t kMany = 12'000'000'000'000'000'000u;
  std::vector<NamedReport> reports = samples(2);
  for (NamedReport& r : reports) {
    Communicator& c = r.report.communicators[0];
    c.rows.pop_back();
    c.rows[0].raw.bytes = kMany;
    c.rows[0].wire.bytes = kMany / 4;
    c.native.bytes = kMany;
    c.sizes.native.classes[63] = {1, kMany};
  }
  const Merged merged = merge(reports);
  EXPECT_DOUBLE_EQ(merged.communicators[0].rows[0].sum().ratio(), 4);
  EXPECT_DOUBLE_EQ(merged.communicators[0].native.bytes, 2.4e19);
  EXPECT_DOUBLE_EQ(size_lines(merged).back().fates[2].bytes, 2.4e19);
  const std::string page = html(merged);
  for (const char* part :
       {"<b>4.00x</b><span>fewer bytes", "<b>24 EB</b><span>native, all ranks",
        "<b>6 EB</b><span>on the wire", "<td>bytes that they sent</td><td>24 EB</td>"})
    EXPECT_NE(page.find(part), page.npos) << part;
  const auto json = nlohmann::json::parse(merged_json(merged))["communicators"][0];
  EXPECT_DOUBLE_EQ(json["native_bytes"], 2.4e19);
  EXPECT_DOUBLE_EQ(json["sizes"]["native"][1]["bytes"], 2.4e19);
  EXPECT_DOUBLE_EQ(json["rows"][0]["all_ranks"]["ratio"], 4);
  const std::string usual = merged_json(merge(samples(4)));
  for (const char* part : {"\"native_bytes\": 16384,", "\"bytes\": 4000000\n", "\"bytes\": 0\n"})
    EXPECT_NE(usual.find(part), usual.npos) << part;
}

// A few words, however many ranks there are.
TEST(Merge, RanksThatAreMissingAreRanges) {
  std::vector<NamedReport> reports = samples(1);
  reports[0].report.communicators[0].ranks = std::numeric_limits<int>::max();
  EXPECT_EQ(
      merge(reports).complaints,
      (std::vector<std::string>{"communicator fedcba9876543210: of its 2147483647 ranks there "
                                "is no report of 1-2147483646"}));
  std::vector<NamedReport> every_third;
  for (const NamedReport& r : samples(100))
    if (r.report.communicators[0].rank % 3 == 0) every_third.push_back(r);
  const std::string complaint = merge(every_third).complaints.back();
  EXPECT_TRUE(
      complaint.ends_with("no report of 1, 2, 4, 5, 7, 8, 10, 11, 13, 14, 16, 17, 19, 20, "
                          "22, 23, 25, 26, 28, 29, 31, 32, 34, 35, 37, 38, 40, 41, 43, 44, "
                          "46, 47, and more"))
      << complaint;
}

TEST(Merge, ThePageEscapesWhatItIsGiven) {
  std::vector<NamedReport> reports = samples(3);
  for (NamedReport& r : reports)
    r.report.communicators[0].rows[0].collective = "<script>alert(1)</script>";
  const std::string page = html(merge(reports));
  EXPECT_NE(page.find("beta&lt;&amp;&gt;&quot;"), std::string::npos);
  EXPECT_EQ(page.find("beta<"), std::string::npos);
  EXPECT_NE(page.find("<h2>Communicator &quot;dp&lt;0&gt;&quot; <code>fedc"), std::string::npos);
  EXPECT_EQ(page.find("<script"), std::string::npos);
  EXPECT_EQ(page.find("http"), std::string::npos);  // nothing from outside
}

}  // namespace
}  // namespace terse::report
