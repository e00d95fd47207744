#include <bit>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "report/report.h"

namespace terse::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxNested = 32;  // values are copied by recursion

template <class... Args>
[[noreturn]] void refuse_number(fmt::format_string<Args...> format, Args&&... args) {
  fail(ncclInvalidArgument, "a number that cannot be right: {}",
       fmt::format(format, std::forward<Args>(args)...));
}

// JSON has no infinity: null stands for it.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }

Json write(const Distribution& d) {
  Json j = {{"zeros", d.zeros},
            {"infinite", d.infinite},
            {"least", d.least},
            {"largest", d.largest},
            {"classes", Json::array()}};
  for (const auto& [place, count] : d.classes) j["classes"].push_back({place, count});
  return j;
}

Distribution read_distribution(const Json& j) {
  Distribution d;
  j.at("zeros").get_to(d.zeros);
  j.at("infinite").get_to(d.infinite);
  j.at("least").get_to(d.least);
  j.at("largest").get_to(d.largest);
  for (const Json& each : j.at("classes"))
    d.classes[each.at(0).get<int>()] = each.at(1).get<uint64_t>();
  return d;
}

Json write(const DownsampledSeries& s) {
  Json points = Json::array();
  for (const DownsampledSeries::Point& p : s.points)
    points.push_back({p.at, p.count, p.sum, p.greatest});
  return {{"each", s.each}, {"points", std::move(points)}};
}

DownsampledSeries read_course(const Json& j) {
  DownsampledSeries s{.each = j.at("each").get<uint64_t>(), .points = {}};
  constexpr uint64_t kMaxOfAPoint = uint64_t{1} << 53;
  if (!std::has_single_bit(s.each) || s.each > kMaxOfAPoint ||
      j.at("points").size() > DownsampledSeries::kMaxPoints)
    refuse_number("a course that is none");
  for (const Json& p : j.at("points"))
    s.points.push_back({p.at(0).get<uint64_t>(), p.at(1).get<uint64_t>(), p.at(2).get<double>(),
                        p.at(3).get<double>()});
  return s;
}

Json write(const Sizes& sizes) {
  Json classes = Json::array();
  for (size_t k = 0; k < sizes.classes.size(); ++k)
    if (const Sizes::Class& c = sizes.classes[k]; c.count != 0)
      classes.push_back({k, c.count, c.bytes});
  return classes;
}

Sizes read_sizes(const Json& j) {
  Sizes sizes;
  for (const Json& each : j) {
    const auto k = each.at(0).get<size_t>();
    if (k >= sizes.classes.size()) refuse_number("a class of sizes {}", k);
    sizes.classes[k] = {each.at(1).get<uint64_t>(), each.at(2).get<uint64_t>()};
  }
  return sizes;
}

Json write(const MessageSizes& s) {
  return {{"compressed", write(s.compressed)},
          {"skipped", write(s.skipped)},
          {"native", write(s.native)}};
}

MessageSizes read_message_sizes(const Json& j) {
  return {read_sizes(j.at("compressed")), read_sizes(j.at("skipped")), read_sizes(j.at("native"))};
}

Json write(const TracedCall& t) {
  Json steps = Json::array();
  for (const TracedStep& s : t.steps) steps.push_back({s.name, s.lane, s.begin, s.end});
  return {{"collective", t.collective}, {"dtype", t.dtype},
          {"scheme", t.scheme},         {"count", t.count},
          {"raw_bytes", t.raw_bytes},   {"wire_bytes", t.wire_bytes},
          {"begin", t.begin},           {"end", t.end},
          {"steps", std::move(steps)},  {"left_out", t.left_out}};
}

TracedCall read_traced_call(const Json& j) {
  TracedCall t{.collective = j.at("collective").get<std::string>(),
               .dtype = j.at("dtype").get<std::string>(),
               .scheme = j.at("scheme").get<std::string>(),
               .count = j.at("count").get<uint64_t>(),
               .raw_bytes = j.at("raw_bytes").get<uint64_t>(),
               .wire_bytes = j.at("wire_bytes").get<uint64_t>(),
               .begin = j.at("begin").get<int64_t>(),
               .end = j.at("end").get<int64_t>(),
               .steps = {},
               .left_out = j.at("left_out").get<uint64_t>()};
  for (const Json& s : j.at("steps"))
    t.steps.push_back({s.at(0).get<std::string>(), s.at(1).get<std::string>(),
                       s.at(2).get<int64_t>(), s.at(3).get<int64_t>()});
  return t;
}

Json write(const Row& r) {
  Json row = {{"rule", r.rule ? Json(*r.rule) : Json(nullptr)},
              {"collective", r.collective},
              {"scheme", r.scheme},
              {"calls", r.calls},
              {"raw_bytes", r.raw.bytes},
              {"wire_bytes", r.wire.bytes},
              {"ratio", number(r.ratio())},
              {"raw_off_node_bytes", r.raw.off_node},
              {"wire_off_node_bytes", r.wire.off_node},
              {"off_node_ratio", number(r.off_node_ratio())}};
  row["seconds"] = {{"calls", r.times.calls},
                    {"total", r.times.total},
                    {"encode", r.times.encode},
                    {"communicate", r.times.communicate},
                    {"decode", r.times.decode}};
  if (r.leaves_pod()) {
    row["raw_off_pod_bytes"] = r.raw.off_pod;
    row["wire_off_pod_bytes"] = r.wire.off_pod;
    row["off_pod_ratio"] = number(r.off_pod_ratio());
  }
  if (r.fused_calls != 0) {
    row["fused_calls"] = r.fused_calls;
    row["seconds"]["fused"] = r.times.fused;
  }
  if (!r.message.empty()) row["message"] = r.message;
  if (r.times.predicted != 0) row["seconds"]["predicted"] = r.times.predicted;
  if (r.times.predicted_native != 0) row["seconds"]["predicted_native"] = r.times.predicted_native;
  if (r.race.calls != 0)
    row["native"] = {{"calls", r.race.calls},
                     {"seconds", r.race.native},
                     {"compressed_seconds", r.race.compressed},
                     {"speedup", r.race.speedup()}};
  row["error"] = {{"calls", r.error.calls()},
                  {"median_relative", number(r.error.relative.median())},
                  {"p99_relative", number(r.error.relative.percentile(99))},
                  {"worst_relative", number(r.error.relative.greatest())},
                  {"distribution", write(r.error.relative)},
                  {"pooled_relative", number(r.error.pooled_relative())},
                  {"largest", r.error.largest},
                  {"squares", r.error.squares},
                  {"exact_squares", r.error.exact_squares},
                  {"lost_nonfinite", r.error.lost},
                  {"spread_nonfinite", r.error.spread}};
  if (r.error_scale) {
    row["error"]["gaussian_relative"] = r.error_scale->gaussian;
    row["error"]["unbiased"] = r.error_scale->unbiased;
  }
  if (!r.error.course.points.empty()) row["error"]["course"] = write(r.error.course);
  return row;
}

Row read_row(const Json& j) {
  Row r;
  if (!j.at("rule").is_null()) r.rule = j.at("rule").get<uint32_t>();
  j.at("collective").get_to(r.collective);
  j.at("scheme").get_to(r.scheme);
  r.message = j.value("message", "");
  j.at("calls").get_to(r.calls);
  r.fused_calls = j.value("fused_calls", uint64_t{0});
  j.at("raw_bytes").get_to(r.raw.bytes);
  j.at("wire_bytes").get_to(r.wire.bytes);
  j.at("raw_off_node_bytes").get_to(r.raw.off_node);
  j.at("wire_off_node_bytes").get_to(r.wire.off_node);
  r.raw.off_pod = j.value("raw_off_pod_bytes", size_t{0});
  r.wire.off_pod = j.value("wire_off_pod_bytes", size_t{0});
  const Json& seconds = j.at("seconds");
  r.times = {.calls = seconds.at("calls").get<uint64_t>(),
             .total = seconds.at("total").get<double>(),
             .encode = seconds.at("encode").get<double>(),
             .communicate = seconds.at("communicate").get<double>(),
             .decode = seconds.at("decode").get<double>(),
             .fused = seconds.value("fused", 0.0),
             .predicted = seconds.value("predicted", 0.0),
             .predicted_native = seconds.value("predicted_native", 0.0)};
  if (const auto native = j.find("native"); native != j.end())
    r.race = {native->at("calls").get<uint64_t>(), native->at("seconds").get<double>(),
              native->at("compressed_seconds").get<double>()};
  const Json& error = j.at("error");
  r.error = {.relative = read_distribution(error.at("distribution")),
             .squares = error.at("squares").get<double>(),
             .exact_squares = error.at("exact_squares").get<double>(),
             .largest = error.at("largest").get<double>(),
             .lost = error.at("lost_nonfinite").get<uint64_t>(),
             .spread = error.at("spread_nonfinite").get<uint64_t>(),
             .course = {}};
  if (const auto course = error.find("course"); course != error.end())
    r.error.course = read_course(*course);
  if (error.contains("gaussian_relative"))
    r.error_scale = {error["gaussian_relative"].get<double>(), error.at("unbiased").get<bool>()};
  return r;
}

Json write(const Levels& l) {
  return {
      {"collective", l.collective}, {"count", l.count}, {"dtype", l.dtype}, {"scheme", l.scheme},
      {"calls", l.calls},           {"fits", l.fits},   {"at", l.at}};
}

Levels read_levels(const Json& j) {
  return {.collective = j.at("collective").get<std::string>(),
          .dtype = j.at("dtype").get<std::string>(),
          .scheme = j.at("scheme").get<std::string>(),
          .count = j.at("count").get<uint64_t>(),
          .calls = j.at("calls").get<uint64_t>(),
          .fits = j.at("fits").get<uint64_t>(),
          .at = j.at("at").get<std::vector<float>>()};
}

Json write(const Communicator& c) {
  Json j = {{"id", fmt::format("{:016x}", c.id)},
            {"name", c.names.own},
            {"made_from", c.names.made_from},
            {"number", c.names.number ? Json(*c.names.number) : Json(nullptr)},
            {"rank", c.rank},
            {"ranks", c.ranks},
            {"nodes", c.nodes},
            {"node", c.node},
            {"released", c.released},
            {"native_bytes", c.native.bytes},
            {"native_off_node_bytes", c.native.off_node},
            {"bypasses", c.bypasses},
            {"deltas", c.deltas},
            {"scratch_bytes", c.scratch_bytes},
            {"verify_bytes", c.verify_bytes},
            {"state_bytes", c.state_bytes},
            {"sizes", write(c.sizes)},
            {"rows", Json::array()}};
  if (c.window_bytes != 0) j["window_bytes"] = c.window_bytes;
  if (c.pods != 0) {
    j["pods"] = c.pods;
    j["native_off_pod_bytes"] = c.native.off_pod;
  }
  for (const Row& row : c.rows) j["rows"].push_back(write(row));
  if (!c.levels.empty()) j["levels"] = Json::array();
  for (const Levels& levels : c.levels) j["levels"].push_back(write(levels));
  for (const TracedCall& call : c.trace) j["trace"].push_back(write(call));
  return j;
}

uint64_t read_id(const std::string& text) {
  uint64_t id = 0;
  const char* const end = text.data() + text.size();
  const auto [at, error] = std::from_chars(text.data(), end, id, 16);
  if (error != std::errc() || at != end) refuse_number("id \"{}\"", text);
  return id;
}

Communicator read_communicator(const Json& j) {
  Communicator c;
  c.id = read_id(j.at("id").get<std::string>());
  j.at("name").get_to(c.names.own);
  j.at("rank").get_to(c.rank);
  j.at("ranks").get_to(c.ranks);
  j.at("nodes").get_to(c.nodes);
  j.at("node").get_to(c.node);
  j.at("released").get_to(c.released);
  j.at("native_bytes").get_to(c.native.bytes);
  j.at("native_off_node_bytes").get_to(c.native.off_node);
  j.at("bypasses").get_to(c.bypasses);
  j.at("deltas").get_to(c.deltas);
  j.at("scratch_bytes").get_to(c.scratch_bytes);
  j.at("verify_bytes").get_to(c.verify_bytes);
  j.at("state_bytes").get_to(c.state_bytes);
  for (const Json& row : j.at("rows")) c.rows.push_back(read_row(row));
  for (const Json& levels : j.value("levels", Json::array()))
    c.levels.push_back(read_levels(levels));
  // Reads fields that not all files have.
  c.window_bytes = j.value("window_bytes", uint64_t{0});
  c.pods = j.value("pods", 0);
  c.native.off_pod = j.value("native_off_pod_bytes", size_t{0});
  c.names.made_from = j.value("made_from", "");
  if (const auto number = j.find("number"); number != j.end() && !number->is_null())
    c.names.number = number->get<uint64_t>();
  if (const auto sizes = j.find("sizes"); sizes != j.end()) c.sizes = read_message_sizes(*sizes);
  for (const Json& call : j.value("trace", Json::array()))
    c.trace.push_back(read_traced_call(call));
  if (c.rank < 0 || c.rank >= c.ranks) refuse_number("a rank beyond the ranks");
  return c;
}

// Without the library's own name for it, "[json.exception.type_error.302] ".
std::string_view words_of(const nlohmann::json::exception& e) {
  const std::string_view words = e.what();
  return words.substr(words.find("] ") + 2);
}

}  // namespace

std::string to_json(const Report& r) {
  Json j = {{"format", kFormat},
            {"version", kVersion},
            {"terse", r.terse},
            {"host", r.host},
            {"pid", r.pid},
            {"library", r.library},
            {"written", r.written},
            {"policy", r.policy},
            {"meter", r.meter ? Json(*r.meter) : Json(nullptr)},
            {"verify", r.verify},
            {"left_out", r.left_out},
            {"communicators", Json::array()}};
  if (r.observed) j["observed"] = {{"seconds", *r.observed}};
  for (const Communicator& c : r.communicators) j["communicators"].push_back(write(c));
  // A name may be of any bytes.
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::optional<Report> report_in(const std::string& text) {
  try {
    // Makes names printable, which may be of any bytes.
    bool too_deep = false;
    const Json j = Json::parse(text, [&](int depth, Json::parse_event_t, Json& parsed) {
      too_deep |= depth >= kMaxNested;
      if (parsed.is_string()) parsed = printable(parsed.get_ref<const std::string&>());
      return depth < kMaxNested;
    });
    const auto format = j.find("format");
    if (format == j.end() || !format->is_string() || format->get<std::string>() != kFormat)
      return {};
    if (too_deep)
      fail(ncclInvalidArgument, "more than {} lists or objects in each other", kMaxNested);
    const int version = j.at("version").get<int>();
    if (version != kVersion)
      fail(ncclInvalidArgument, "it is of version {} of the format, and this program reads {}",
           version, kVersion);
    Report r;
    j.at("terse").get_to(r.terse);
    j.at("host").get_to(r.host);
    j.at("pid").get_to(r.pid);
    j.at("library").get_to(r.library);
    j.at("written").get_to(r.written);
    j.at("policy").get_to(r.policy);
    if (!j.at("meter").is_null()) r.meter = j.at("meter").get<uint64_t>();
    j.at("verify").get_to(r.verify);
    if (const auto observed = j.find("observed"); observed != j.end())
      r.observed = observed->at("seconds").get<double>();
    j.at("left_out").get_to(r.left_out);
    for (const Json& c : j.at("communicators")) r.communicators.push_back(read_communicator(c));
    return r;
  } catch (const nlohmann::json::exception& e) {
    fail(ncclInvalidArgument, "{}", words_of(e));
  }
}

Report from_json(const std::string& text) {
  std::optional<Report> report = report_in(text);
  if (!report) fail(ncclInvalidArgument, "it is no report of terse");
  return std::move(*report);
}

}  // namespace terse::report
