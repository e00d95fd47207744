#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/report.h"

namespace terse::report {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: null stands for it.
Json number(double x) { return std::isfinite(x) ? Json(x) : Json(nullptr); }
double number(const Json& j) {
  return j.is_null() ? std::numeric_limits<double>::infinity() : j.get<double>();
}

Json write(const Row& r) {
  Json row = {{"rule", r.rule ? Json(*r.rule) : Json(nullptr)},
              {"collective", r.collective},
              {"scheme", r.scheme},
              {"calls", r.calls},
              {"raw_bytes", r.raw_bytes},
              {"wire_bytes", r.wire_bytes},
              {"ratio", r.ratio()}};
  row["seconds"] = {{"calls", r.times.calls},
                    {"total", r.times.total},
                    {"encode", r.times.encode},
                    {"communicate", r.times.communicate},
                    {"decode", r.times.decode}};
  row["error"] = {{"calls", r.error.calls},
                  {"relative", number(r.error.relative())},
                  {"worst_relative", number(r.error.worst_relative)},
                  {"largest", r.error.largest},
                  {"squares", r.error.squares},
                  {"exact_squares", r.error.exact_squares},
                  {"lost_nonfinite", r.error.lost},
                  {"spread_nonfinite", r.error.spread}};
  return row;
}

Row read_row(const Json& j) {
  Row r;
  if (!j.at("rule").is_null()) r.rule = j.at("rule").get<uint32_t>();
  j.at("collective").get_to(r.collective);
  j.at("scheme").get_to(r.scheme);
  j.at("calls").get_to(r.calls);
  j.at("raw_bytes").get_to(r.raw_bytes);
  j.at("wire_bytes").get_to(r.wire_bytes);
  const Json& seconds = j.at("seconds");
  r.times = {seconds.at("calls").get<uint64_t>(), seconds.at("total").get<double>(),
             seconds.at("encode").get<double>(), seconds.at("communicate").get<double>(),
             seconds.at("decode").get<double>()};
  const Json& error = j.at("error");
  r.error = {.calls = error.at("calls").get<uint64_t>(),
             .squares = error.at("squares").get<double>(),
             .exact_squares = error.at("exact_squares").get<double>(),
             .worst_relative = number(error.at("worst_relative")),
             .largest = error.at("largest").get<double>(),
             .lost = error.at("lost_nonfinite").get<uint64_t>(),
             .spread = error.at("spread_nonfinite").get<uint64_t>()};
  return r;
}

Json write(const Communicator& c) {
  Json j = {{"id", fmt::format("{:016x}", c.id)},
            {"rank", c.rank},
            {"ranks", c.ranks},
            {"released", c.released},
            {"native_bytes", c.native_bytes},
            {"bypasses", c.bypasses},
            {"scratch_bytes", c.scratch_bytes},
            {"verify_bytes", c.verify_bytes},
            {"rows", Json::array()}};
  for (const Row& row : c.rows) j["rows"].push_back(write(row));
  return j;
}

Communicator read_communicator(const Json& j) {
  Communicator c;
  c.id = std::stoull(j.at("id").get<std::string>(), nullptr, 16);
  j.at("rank").get_to(c.rank);
  j.at("ranks").get_to(c.ranks);
  j.at("released").get_to(c.released);
  j.at("native_bytes").get_to(c.native_bytes);
  j.at("bypasses").get_to(c.bypasses);
  j.at("scratch_bytes").get_to(c.scratch_bytes);
  j.at("verify_bytes").get_to(c.verify_bytes);
  for (const Json& row : j.at("rows")) c.rows.push_back(read_row(row));
  if (c.rank < 0 || c.rank >= c.ranks) throw std::out_of_range("a rank beyond the ranks");
  return c;
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
  for (const Communicator& c : r.communicators) j["communicators"].push_back(write(c));
  // A name may be of any bytes.
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Report from_json(const std::string& text) {
  try {
    const Json j = Json::parse(text);
    if (!j.is_object() || j.value("format", "") != kFormat)
      fail(ncclInvalidArgument, "it is no report of terse");
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
    j.at("left_out").get_to(r.left_out);
    for (const Json& c : j.at("communicators")) r.communicators.push_back(read_communicator(c));
    return r;
  } catch (const nlohmann::json::exception& e) {
    fail(ncclInvalidArgument, "{}", e.what());
  } catch (const std::logic_error& e) {  // of a number
    fail(ncclInvalidArgument, "a number that cannot be right: {}", e.what());
  }
}

}  // namespace terse::report
