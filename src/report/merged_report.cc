#include "report/merged_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "plan/collective.h"

namespace terse::report {
namespace {

bool same_kind(const Row& a, const Row& b) {
  return std::tie(a.rule, a.collective, a.scheme, a.message) ==
         std::tie(b.rule, b.collective, b.scheme, b.message);
}

// A message is one rank's, and its peer's.
bool is_of_all_ranks(const Row& row) {
  return row.collective != plan::name(plan::Collective::kSend) &&
         row.collective != plan::name(plan::Collective::kRecv);
}

// Returns true for calls in which a rank may have no part.
bool has_root_or_peer(const Row& row) {
  for (size_t i = 0; i < plan::kCollectives; ++i)
    if (const plan::Traits& t = plan::traits(static_cast<plan::Collective>(i));
        row.collective == t.name)
      return t.rooted;
  return false;
}

double per_call(double sum, uint64_t calls) { return quotient(sum, static_cast<double>(calls)); }

double if_known(const Row& r, double error) {
  return r.error.calls() == 0 ? std::numeric_limits<double>::quiet_NaN() : error;
}

double if_so(bool is_so, double x) { return is_so ? x : std::numeric_limits<double>::quiet_NaN(); }

std::string read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  if (!file) fail(ncclSystemError, "it cannot be read");
  return text.str();
}

std::string name(const MergedCommunicator& c) { return show_communicator(c.id, label(c.names)); }

// Brings the ranks of one communicator together.
class Merger {
 public:
  explicit Merger(Merged& merged) : merged_(merged) {}

  void add(const std::string& file, const Report& report, const Communicator& c) {
    MergedCommunicator& all = find(c);
    if (c.ranks != all.ranks)
      return complain("{}: {} has {} here and {} elsewhere", file, name(all),
                      counted(c.ranks, "rank"), all.ranks);
    const auto twice = std::ranges::find(all.members, c.rank, &Member::rank);
    if (twice != all.members.end())
      return complain("{}: rank {} of {} is in {} already", file, c.rank, name(all), twice->file);
    all.members.push_back({c.rank, report.host, report.pid, file, c.released, c.node});
    if (all.names.own.empty()) all.names.own = c.names.own;
    if (all.names.made_from.empty()) all.names.made_from = c.names.made_from;
    if (!all.names.number) all.names.number = c.names.number;
    all.sizes.add(c.sizes);
    all.native.add(c.native);
    for (const auto& [reason, calls] : c.bypasses) all.bypasses[reason] += calls;
    for (const auto& [how, calls] : c.deltas) all.deltas[how] += calls;
    for (const Row& row : c.rows) {
      const auto known = std::ranges::find_if(
          all.rows, [&](const MergedRow& m) { return same_kind(m.kind(), row); });
      MergedRow& to = known == all.rows.end() ? all.rows.emplace_back() : *known;
      to.ranks.push_back({c.rank, row});
    }
  }

  void finish() {
    auto& all = merged_.communicators;
    for (MergedCommunicator& c : all) finish(c);
    std::ranges::stable_sort(all, [](const auto& a, const auto& b) {
      return std::tuple(-a.ranks, a.id) < std::tuple(-b.ranks, b.id);
    });
  }

 private:
  // A communicator that was not agreed on has no name that other ranks know.
  MergedCommunicator& find(const Communicator& c) {
    const auto known = std::ranges::find(merged_.communicators, c.id, &MergedCommunicator::id);
    if (c.id != 0 && known != merged_.communicators.end()) return *known;
    return merged_.communicators.emplace_back(
        MergedCommunicator{.id = c.id, .names = c.names, .ranks = c.ranks, .nodes = c.nodes});
  }

  void finish(MergedCommunicator& c) {
    std::ranges::sort(c.members, {}, &Member::rank);
    for (MergedRow& row : c.rows) {
      std::ranges::sort(row.ranks, {}, &RankRow::rank);
      if (!row.kind().message.empty()) continue;  // a rank may be in place where others are not
      const Spread calls = calls_of(c, row);
      if (is_of_all_ranks(row.kind()) && calls.min != calls.max)
        complain("{}: {} of {}: rank {} counts {} and rank {} {}", name(c), row.kind().collective,
                 row.kind().scheme, calls.min_rank, counted(calls.min, "call"), calls.max_rank,
                 calls.max);
    }
    const std::string missing = c.id == 0 ? "" : missing_ranks(c);
    if (!missing.empty())
      complain("{}: of its {} there is no report of {}", name(c), counted(c.ranks, "rank"),
               missing);
  }

  // "1, 4-7, 9": between the members, which are in order; of many gaps the first ones.
  static std::string missing_ranks(const MergedCommunicator& c) {
    constexpr int kMaxGaps = 16;
    std::string missing;
    int gaps = 0;
    const auto add = [&](int first, int end) {
      if (first >= end || ++gaps > kMaxGaps + 1) return;
      const std::string ranks = gaps > kMaxGaps    ? "and more"
                                : end - first == 1 ? fmt::format("{}", first)
                                : end - first == 2 ? fmt::format("{}, {}", first, first + 1)
                                                   : fmt::format("{}-{}", first, end - 1);
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", ranks);
    };
    int next = 0;
    for (const Member& m : c.members) {
      add(next, m.rank);
      next = m.rank + 1;
    }
    add(next, c.ranks);
    return missing;
  }

  // A rank without such a row has made none, as far as it has a report.
  static Spread calls_of(const MergedCommunicator& c, const MergedRow& row) {
    Spread calls = row.spread(value::calls);
    if (has_root_or_peer(row.kind())) return calls;
    const auto none = std::ranges::find_if(c.members, [&](const Member& m) {
      return !std::ranges::binary_search(row.ranks, m.rank, {}, &RankRow::rank);
    });
    if (none != c.members.end()) {
      calls.min = 0;
      calls.min_rank = none->rank;
    }
    return calls;
  }

  template <class... Args>
  void complain(fmt::format_string<Args...> text, Args&&... args) {
    merged_.complaints.push_back(fmt::format(text, std::forward<Args>(args)...));
  }

  Merged& merged_;
};

}  // namespace

namespace value {
double calls(const Row& r) { return static_cast<double>(r.calls); }
double raw(const Row& r) { return static_cast<double>(r.raw.bytes); }
double wire(const Row& r) { return static_cast<double>(r.wire.bytes); }
double ratio(const Row& r) { return r.ratio(); }
double raw_off_node(const Row& r) {
  return if_so(r.leaves_node(), static_cast<double>(r.raw.off_node));
}
double wire_off_node(const Row& r) {
  return if_so(r.leaves_node(), static_cast<double>(r.wire.off_node));
}
double off_node_ratio(const Row& r) { return if_so(r.leaves_node(), r.off_node_ratio()); }
double raw_off_pod(const Row& r) {
  return if_so(r.leaves_pod(), static_cast<double>(r.raw.off_pod));
}
double wire_off_pod(const Row& r) {
  return if_so(r.leaves_pod(), static_cast<double>(r.wire.off_pod));
}
double off_pod_ratio(const Row& r) { return if_so(r.leaves_pod(), r.off_pod_ratio()); }
double total(const Row& r) { return per_call(r.times.total, r.times.calls); }
double encode(const Row& r) { return per_call(r.times.encode, r.times.calls); }
double communicate(const Row& r) { return per_call(r.times.communicate, r.times.calls); }
double decode(const Row& r) { return per_call(r.times.decode, r.times.calls); }
double fused(const Row& r) {
  return r.fused_calls == 0 ? std::nan("") : per_call(r.times.fused, r.times.calls);
}
double waiting(const Row& r) {
  return per_call(r.times.communicate + r.times.fused, r.times.calls);
}
double native_time(const Row& r) { return per_call(r.race.native, r.race.calls); }
double raced_time(const Row& r) { return per_call(r.race.compressed, r.race.calls); }
double speedup(const Row& r) { return r.race.calls == 0 ? std::nan("") : r.race.speedup(); }
double predicted_native(const Row& r) {
  return r.times.predicted_native == 0 ? std::nan("")
                                       : per_call(r.times.predicted_native, r.times.calls);
}
double predicted(const Row& r) {
  return r.times.predicted == 0 ? std::nan("") : per_call(r.times.predicted, r.times.calls);
}
double median_error(const Row& r) { return if_known(r, r.error.relative.median()); }
double p99_error(const Row& r) { return if_known(r, r.error.relative.percentile(99)); }
double worst_error(const Row& r) { return if_known(r, r.error.relative.greatest()); }
double pooled_error(const Row& r) { return if_known(r, r.error.pooled_relative()); }
}  // namespace value

std::string show_ratios(const MergedRow& row) {
  const auto differ = [&](double (*ratio)(const Row&)) {
    const Spread s = row.spread(ratio);
    return s.count != 0 && (s.count != row.ranks.size() || show_ratio(s.min) != show_ratio(s.max));
  };
  if (!differ(value::ratio) && !differ(value::off_node_ratio)) return "";
  const Sum sum = row.sum();
  return fmt::format("all ranks together: ratio {}{}", show_ratio(sum.ratio()),
                     sum.leaves_node() ? ", off node " + show_ratio(sum.off_node_ratio()) : "");
}

std::string show_prediction(const MergedRow& row) {
  const Spread predicted = row.spread(value::predicted), total = row.spread(value::total);
  if (predicted.count == 0 || total.count == 0) return "";
  if (const Spread native = row.spread(value::predicted_native); native.count != 0)
    return fmt::format("predicted {} a call, natively {}", show_seconds(predicted.median),
                       show_seconds(native.median));
  return fmt::format("auto predicted {} a call, {:.2f} times what was measured",
                     show_seconds(predicted.median), predicted.median / total.median);
}

std::vector<SizeLine> size_lines(const Merged& merged) {
  static constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  MessageSizesSum all;
  for (const MergedCommunicator& c : merged.communicators) all.add(c.sizes);
  std::vector<SizeLine> lines;
  for (size_t k = 0; k < all.native.classes.size(); ++k) {
    const SizeLine line{
        .from = fmt::format("from {} {} on", 1 << k % 10, kUnits[k / 10]),
        .fates = {all.compressed.classes[k], all.skipped.classes[k], all.native.classes[k]}};
    if (std::ranges::any_of(line.fates, [](const auto& c) { return c.count != 0; }))
      lines.push_back(line);
  }
  return lines;
}

std::string show_rule(const Row& row) {
  return row.rule ? fmt::format("rule {}", *row.rule) : "by name";
}

double Sum::ratio() const { return quotient(raw.bytes, wire.bytes); }

double Sum::off_node_ratio() const { return quotient(raw.off_node, wire.off_node); }

Spread MergedRow::spread(double (*value)(const Row&)) const {
  std::vector<std::pair<double, int>> all;
  for (const RankRow& r : ranks)
    if (const double x = value(r.row); !std::isnan(x)) all.emplace_back(x, r.rank);
  if (all.empty()) return {};
  std::ranges::stable_sort(all, {}, &std::pair<double, int>::first);
  const size_t n = all.size();
  const double median = n % 2 ? all[n / 2].first : (all[n / 2 - 1].first + all[n / 2].first) / 2;
  const auto most = std::ranges::max_element(all, {}, &std::pair<double, int>::first);
  return {n, all.front().first, median, most->first, all.front().second, most->second};
}

Distribution MergedRow::errors() const {
  Distribution all;
  for (const RankRow& r : ranks) all.add(r.row.error.relative);
  return all;
}

DownsampledSeries MergedRow::course() const {
  DownsampledSeries all;
  for (const RankRow& r : ranks) all.merge(r.row.error.course);
  return all;
}

Sum MergedRow::sum() const {
  Sum all;
  for (const RankRow& r : ranks) all.add(r.row);
  return all;
}

Race MergedRow::race() const { return sum().race; }

uint64_t MergedRow::raced() const {
  uint64_t most = 0;
  for (const RankRow& r : ranks) most = std::max(most, r.row.race.calls);
  return most;
}

Merged merge(const std::vector<NamedReport>& reports) {
  Merged merged;
  Merger merger(merged);
  for (const auto& [file, r] : reports) {
    if (merged.files.empty())
      std::tie(merged.terse, merged.policy, merged.meter, merged.verify) =
          std::tie(r.terse, r.policy, r.meter, r.verify);
    if (r.terse != merged.terse)
      merged.complaints.push_back(fmt::format("{}: of terse {}, and {} of terse {}", file, r.terse,
                                              merged.files.front(), merged.terse));
    if (r.observed) merged.observed = merged.observed.value_or(Verdict{}) += verdict_of(r);
    if (r.policy != merged.policy || r.verify != merged.verify ||
        r.observed.has_value() != reports.front().report.observed.has_value())
      merged.complaints.push_back(
          fmt::format("{}: its settings are not those of {}", file, merged.files.front()));
    if (r.left_out != 0)
      merged.complaints.push_back(
          fmt::format("{}: {} more not kept", file, counted(r.left_out, "communicator")));
    merged.files.push_back(file);
    for (const Communicator& c : r.communicators) merger.add(file, r, c);
  }
  merger.finish();
  return merged;
}

Folder read_folder(const std::filesystem::path& folder) {
  std::error_code error, of_one;  // such as a link that leads nowhere, which is no report
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".json" && entry.is_regular_file(of_one))
      paths.push_back(entry.path());
  if (error) fail(ncclInvalidArgument, "{}: {}", folder.string(), error.message());
  std::ranges::sort(paths);
  Folder all;
  for (const auto& path : paths) {
    const std::string file = path.filename().string();
    try {
      // Skips a merged report, or a trace of one, which may have been written there, too.
      if (std::optional<Report> report = report_in(read_text(path)))
        all.reports.push_back({file, std::move(*report)});
    } catch (const terse::Error& e) {
      all.unreadable.push_back(fmt::format("{}: {}", file, e.message));
    }
  }
  if (all.reports.empty())
    fail(ncclInvalidArgument, "{} has no report of terse{}{}", folder.string(),
         all.unreadable.empty() ? "" : ": ", all.unreadable.empty() ? "" : all.unreadable.front());
  return all;
}

Merged merge(const Folder& folder) {
  Merged merged = merge(folder.reports);
  merged.complaints.insert(merged.complaints.begin(), folder.unreadable.begin(),
                           folder.unreadable.end());
  return merged;
}

}  // namespace terse::report
