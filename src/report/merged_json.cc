#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

using Json = nlohmann::ordered_json;

constexpr struct {
  const char* name;
  double (*value)(const Row&);
} kQuantities[] = {{"calls", value::calls},
                   {"raw_bytes", value::raw},
                   {"wire_bytes", value::wire},
                   {"ratio", value::ratio},
                   {"raw_off_node_bytes", value::raw_off_node},
                   {"wire_off_node_bytes", value::wire_off_node},
                   {"off_node_ratio", value::off_node_ratio},
                   {"raw_off_pod_bytes", value::raw_off_pod},
                   {"wire_off_pod_bytes", value::wire_off_pod},
                   {"off_pod_ratio", value::off_pod_ratio},
                   {"seconds_per_call", value::total},
                   {"encode_seconds_per_call", value::encode},
                   {"communicate_seconds_per_call", value::communicate},
                   {"decode_seconds_per_call", value::decode},
                   {"fused_seconds_per_call", value::fused},
                   {"verified_native_seconds_per_call", value::native_time},
                   {"verified_seconds_per_call", value::raced_time},
                   {"speedup", value::speedup},
                   {"predicted_seconds_per_call", value::predicted},
                   {"median_relative_error", value::median_error},
                   {"p99_relative_error", value::p99_error},
                   {"worst_relative_error", value::worst_error},
                   {"pooled_relative_error", value::pooled_error}};

Json number(double x) {
  if (!std::isfinite(x)) return nullptr;
  const auto whole = static_cast<int64_t>(std::min(std::abs(x), 1e18));
  return x >= 1 && x == static_cast<double>(whole) ? Json(whole) : Json(x);
}

// A sum of whole numbers, as one where a double still is exact.
Json whole(double x) { return x < 0x1p53 ? Json(static_cast<uint64_t>(x)) : number(x); }

Json write(const MergedRow& row) {
  const Row& kind = row.kind();
  Json j = {{"rule", kind.rule ? Json(*kind.rule) : Json(nullptr)},
            {"collective", kind.collective},
            {"scheme", kind.scheme}};
  if (!kind.message.empty()) j["message"] = kind.message;
  const Spread total = row.spread(value::total), talk = row.spread(value::waiting);
  j["slowest_rank"] = total.count == 0 ? Json(nullptr) : Json(total.max_rank);
  j["late_rank"] = talk.count == 0 ? Json(nullptr) : Json(talk.min_rank);
  for (const auto& q : kQuantities) {
    const Spread s = row.spread(q.value);
    j["over_ranks"][q.name] =
        s.count == 0
            ? Json(nullptr)
            : Json{{"min", number(s.min)}, {"median", number(s.median)}, {"max", number(s.max)}};
  }
  const Sum sum = row.sum();
  j["all_ranks"] = {{"ratio", number(sum.ratio())},
                    {"off_node_ratio", number(sum.off_node_ratio())}};
  const Distribution errors = row.errors();
  j["error_of_a_call"] = {{"calls", errors.count()},
                          {"median", number(errors.median())},
                          {"p99", number(errors.percentile(99))},
                          {"worst", number(errors.greatest())}};
  const DownsampledSeries course = row.course();
  for (const DownsampledSeries::Point& p : course.points)
    j["error_of_a_call"]["course"].push_back(
        {{"call", p.at}, {"mean", number(p.mean())}, {"worst", number(p.greatest)}});
  const Race race = row.race();
  j["native"] = race.calls == 0 ? Json(nullptr)
                                : Json{{"calls", row.raced()},
                                       {"seconds", race.native},
                                       {"compressed_seconds", race.compressed},
                                       {"speedup", race.speedup()}};
  for (const RankRow& r : row.ranks) {
    Json rank = {{"rank", r.rank}};
    for (const auto& q : kQuantities) rank[q.name] = number(q.value(r.row));
    rank["lost_nonfinite"] = r.row.error.lost;
    rank["spread_nonfinite"] = r.row.error.spread;
    j["by_rank"].push_back(std::move(rank));
  }
  return j;
}

// Writes sizes by the least size of a class.
Json write(const SizesSum& sizes) {
  Json classes = Json::array();
  for (size_t k = 0; k < sizes.classes.size(); ++k)
    if (const SizesSum::Class& c = sizes.classes[k]; c.count != 0)
      classes.push_back(
          {{"from_bytes", uint64_t{1} << k}, {"calls", c.count}, {"bytes", whole(c.bytes)}});
  return classes;
}

Json write(const MergedCommunicator& c) {
  Json j = {{"id", fmt::format("{:016x}", c.id)},
            {"name", c.names.own},
            {"made_from", c.names.made_from},
            {"number", c.names.number ? Json(*c.names.number) : Json(nullptr)},
            {"ranks", c.ranks},
            {"nodes", c.nodes},
            {"members", Json::array()},
            {"native_bytes", whole(c.native.bytes)},
            {"native_off_node_bytes", whole(c.native.off_node)},
            {"native_off_pod_bytes", whole(c.native.off_pod)},
            {"bypasses", c.bypasses},
            {"deltas", c.deltas},
            {"sizes",
             {{"compressed", write(c.sizes.compressed)},
              {"skipped", write(c.sizes.skipped)},
              {"native", write(c.sizes.native)}}},
            {"rows", Json::array()}};
  for (const Member& m : c.members)
    j["members"].push_back({{"rank", m.rank},
                            {"host", m.host},
                            {"node", m.node},
                            {"pid", m.pid},
                            {"file", m.file},
                            {"released", m.released}});
  for (const MergedRow& row : c.rows) j["rows"].push_back(write(row));
  return j;
}

Json write(const Verdict& v) {
  return {{"calls", v.calls},
          {"other_calls", v.others},
          {"raw_bytes", whole(static_cast<double>(v.raw.bytes))},
          {"wire_bytes", whole(static_cast<double>(v.wire.bytes))},
          {"raw_off_node_bytes", whole(static_cast<double>(v.raw.off_node))},
          {"wire_off_node_bytes", whole(static_cast<double>(v.wire.off_node))},
          {"seconds_in_calls", v.in_calls},
          {"seconds", v.seconds},
          {"predicted_seconds", v.predicted},
          {"predicted_native_seconds", v.predicted_native},
          {"predicted_saved_seconds", v.saved()},
          {"median_relative_error", v.error.median()},
          {"worst_relative_error", v.error.greatest()}};
}

}  // namespace

std::string merged_json(const Merged& merged) {
  Json j = {{"format", kMergedFormat},
            {"version", kVersion},
            {"terse", merged.terse},
            {"policy", merged.policy},
            {"meter", merged.meter ? Json(*merged.meter) : Json(nullptr)},
            {"verify", merged.verify},
            {"files", merged.files},
            {"complaints", merged.complaints},
            {"communicators", Json::array()}};
  if (merged.observed) j["observed"] = write(*merged.observed);
  for (const MergedCommunicator& c : merged.communicators) j["communicators"].push_back(write(c));
  return j.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace terse::report
