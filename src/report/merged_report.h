// The reports of all ranks, brought together: what `terse report` shows.
#pragma once

#include <array>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "report/report.h"

namespace terse::report {

constexpr const char* kMergedFormat = "terse-merged-report";

// Rank of a communicator, and where it was.
struct Member {
  int rank = 0;
  std::string host;
  int64_t pid = 0;
  std::string file;
  bool released = false;
  int node = 0;
};

struct RankRow {
  int rank = 0;
  Row row;
};

struct Spread {
  size_t count = 0;  // ranks that have a value; 0: the rest says nothing
  double min = 0, median = 0, max = 0;
  int min_rank = 0, max_rank = 0;
};

// Sums over ranks are doubles, for they may be beyond 64 bits.
struct TrafficSum {
  double bytes = 0, off_node = 0, off_pod = 0;

  void add(const auto& traffic) {
    bytes += static_cast<double>(traffic.bytes);
    off_node += static_cast<double>(traffic.off_node);
    off_pod += static_cast<double>(traffic.off_pod);
  }
  bool operator==(const TrafficSum&) const = default;
};

struct SizesSum {
  struct Class {
    uint64_t count = 0;
    double bytes = 0;
    bool operator==(const Class&) const = default;
  };

  std::array<Class, std::tuple_size_v<decltype(Sizes::classes)>> classes{};

  void add(const auto& sizes) {
    for (size_t k = 0; k < classes.size(); ++k) {
      classes[k].count += sizes.classes[k].count;
      classes[k].bytes += static_cast<double>(sizes.classes[k].bytes);
    }
  }
};

struct MessageSizesSum {
  SizesSum compressed, skipped, native;

  void add(const auto& sizes) {
    compressed.add(sizes.compressed);
    skipped.add(sizes.skipped);
    native.add(sizes.native);
  }
};

// Sum of rows: their calls, bytes and races.
struct Sum {
  double calls = 0;
  TrafficSum raw, wire;
  Race race;

  void add(const auto& row) {
    calls += static_cast<double>(row.calls);
    raw.add(row.raw);
    wire.add(row.wire);
    race += row.race;
  }
  double ratio() const;  // raw to wire; NaN: nothing was sent
  double off_node_ratio() const;
  bool leaves_node() const { return raw.off_node != 0 || wire.off_node != 0; }
};

// The calls of one kind on one communicator.
struct MergedRow {
  std::vector<RankRow> ranks;  // by rank

  const Row& kind() const { return ranks.front().row; }  // rule, collective and scheme: all alike
  Spread spread(double (*value)(const Row&)) const;      // NaN stands for none
  Distribution errors() const;                           // of the calls of all ranks
  DownsampledSeries course() const;                      // the same, one after another
  Sum sum() const;                                       // of all ranks
  Race race() const;       // of all ranks: the seconds of each add up, and so do the calls
  uint64_t raced() const;  // calls, that each rank has counted
};

struct MergedCommunicator {
  uint64_t id = 0;
  Names names;  // of the first rank that has them
  int ranks = 0, nodes = 0;
  std::vector<Member> members;  // by rank
  std::vector<MergedRow> rows;
  TrafficSum native;  // over all ranks, and so are the calls
  std::map<std::string, uint64_t> bypasses, deltas;
  MessageSizesSum sizes;
};

struct Merged {
  std::vector<std::string> files;
  std::string terse, policy;
  std::optional<uint64_t> meter;
  uint64_t verify = 0;
  std::optional<Verdict> observed;                // of all ranks, if calls were only observed
  std::vector<MergedCommunicator> communicators;  // the largest first
  std::vector<std::string> complaints;            // what is missing or does not fit
};

struct NamedReport {
  std::string file;
  Report report;
};

Merged merge(const std::vector<NamedReport>& reports);

struct Folder {
  std::vector<NamedReport> reports;
  std::vector<std::string> unreadable;  // files, and why
};

// Every file *.json of a folder, but for JSON of other formats. Throws terse::Error when it has
// none that is a report.
Folder read_folder(const std::filesystem::path& folder);
Merged merge(const Folder& folder);

// Figures of a row, per call; NaN: nothing is known, or nothing is sent, or leaves the node,
// or the pod.
namespace value {
double calls(const Row& r);
double raw(const Row& r);
double wire(const Row& r);
double ratio(const Row& r);
double raw_off_node(const Row& r);  // bytes that leave the rank's node
double wire_off_node(const Row& r);
double off_node_ratio(const Row& r);
double raw_off_pod(const Row& r);  // bytes that leave the rank's pod
double wire_off_pod(const Row& r);
double off_pod_ratio(const Row& r);
double total(const Row& r);
double encode(const Row& r);
double communicate(const Row& r);
double decode(const Row& r);
double fused(const Row& r);        // NaN, too: no call was fused
double waiting(const Row& r);      // in which a rank waits for others
double native_time(const Row& r);  // of the calls that ran both ways; and compressed; and how
double raced_time(const Row& r);   // many times as fast that is
double speedup(const Row& r);
double predicted_native(const Row& r);  // of observed calls
double predicted(const Row& r);         // by auto, or of observed calls with their scheme
double median_error(const Row& r);      // of a call
double p99_error(const Row& r);
double worst_error(const Row& r);
double pooled_error(const Row& r);
}  // namespace value

// "all ranks together: ratio 3.88, off node 1.94", of the sums of their bytes; "": the ranks' own
// are alike.
std::string show_ratios(const MergedRow& row);

// "auto predicted 1.2 ms a call, 0.98 times what was measured", of the median rank; "": it did not.
std::string show_prediction(const MergedRow& row);

// Messages of all communicators from some size on, to twice that, by what became of them.
struct SizeLine {
  std::string from;                      // "from 64 KiB on"
  std::array<SizesSum::Class, 3> fates;  // compressed, skipped, native
};
std::vector<SizeLine> size_lines(const Merged& merged);

// "rule 2", or "by name" where the caller named the scheme.
std::string show_rule(const Row& row);

std::string table(const Merged& merged);
std::string merged_json(const Merged& merged);
// A page that needs nothing else.
std::string html(const Merged& merged);

// The calls that were kept (TERSE_TRACE), and their steps, as Chrome's trace events, which Perfetto
// reads: a process for each rank. Throws terse::Error when there are none.
std::string trace_events(const std::vector<NamedReport>& reports);

}  // namespace terse::report
