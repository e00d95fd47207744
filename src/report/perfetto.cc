#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "report/merged_report.h"

namespace terse::report {
namespace {

using Json = nlohmann::ordered_json;

// A process of the trace: what a rank did on all of its communicators. Its rank is that on the
// largest one, which is most likely of all ranks of the program.
struct Process {
  const Report* report;
  std::vector<const Communicator*> communicators;

  int rank() const {
    return (*std::ranges::max_element(communicators, {}, &Communicator::ranks))->rank;
  }
  std::string name() const {
    return fmt::format("rank {} on {}, process {}", rank(), report->host, report->pid);
  }
};

// A process of the program that drives several ranks of a communicator is as many.
std::vector<Process> processes(const std::vector<NamedReport>& reports) {
  std::vector<Process> all;
  for (const auto& [file, report] : reports) {
    const size_t first = all.size();
    std::map<uint64_t, size_t> ranks;  // seen, by communicator
    for (const Communicator& c : report.communicators) {
      const size_t at = first + (c.id == 0 ? 0 : ranks[c.id]++);
      if (at >= all.size()) all.push_back({&report, {}});
      all[at].communicators.push_back(&c);
    }
  }
  return all;
}

class TraceWriter {
 public:
  explicit TraceWriter(int64_t origin) : origin_(origin) {}

  void add(size_t process, const Process& p) {
    process_ = process;
    name("process_name", 0, p.name());
    write({{"ph", "M"}, {"name", "process_sort_index"}, {"args", {{"sort_index", p.rank()}}}}, 0);
    lanes_.clear();
    for (const Communicator* c : p.communicators) add(*c);
  }

  std::string take() const {
    return "{\"displayTimeUnit\": \"ns\", \"otherData\": " +
           Json{{"zero_ns_since_1970", origin_},
                {"clocks", "ranks are as near as CLOCK_REALTIME is on their hosts"}}
               .dump() +
           ",\n\"traceEvents\": [\n" + events_ + "\n]}\n";
  }

 private:
  static std::string text(const Json& j) {
    return j.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

  void write(Json event, size_t thread) {
    event["pid"] = process_;
    event["tid"] = thread;
    if (!events_.empty()) events_ += ",\n";
    events_ += text(event);
  }
  void name(const char* what, size_t thread, const std::string& is) {
    write({{"ph", "M"}, {"name", what}, {"args", {{"name", is}}}}, thread);
  }
  double at(int64_t time) const { return 1e-3 * static_cast<double>(time - origin_); }

  // The thread of a communicator's lane; calls, which may overlap, have none.
  size_t thread(const Communicator& c, const std::string& lane) {
    const auto [known, is_new] = lanes_.emplace(std::pair(&c, lane), lanes_.size() + 1);
    if (is_new)
      name("thread_name", known->second,
           fmt::format("{}, {}", show_communicator(c.id, label(c.names)), lane));
    return known->second;
  }

  void add(const Communicator& c) {
    for (const TracedCall& call : c.trace) {
      const std::string which = fmt::format("{}.{}", process_, ++calls_);
      const auto mark = [&](const char* phase, int64_t time) {
        return Json{{"ph", phase},
                    {"cat", "call"},
                    {"id", which},
                    {"name", fmt::format("{} {}", call.collective, call.scheme)},
                    {"ts", at(time)}};
      };
      Json begin = mark("b", call.begin);
      begin["args"] = {{"communicator", show_communicator(c.id, label(c.names))},
                       {"rank", c.rank},
                       {"count", call.count},
                       {"dtype", call.dtype},
                       {"scheme", call.scheme},
                       {"raw_bytes", call.raw_bytes},
                       {"wire_bytes", call.wire_bytes},
                       {"steps_left_out", call.left_out}};
      write(std::move(begin), 0);
      write(mark("e", call.end), 0);
      for (const TracedStep& step : call.steps)
        write({{"ph", "X"},
               {"cat", "step"},
               {"name", step.name},
               {"ts", at(step.begin)},
               {"dur", 1e-3 * static_cast<double>(step.end - step.begin)},
               {"args", {{"call", fmt::format("{} x{}", call.collective, call.count)}}}},
              thread(c, step.lane));
    }
  }

  const int64_t origin_;
  size_t process_ = 0, calls_ = 0;
  std::map<std::pair<const Communicator*, std::string>, size_t> lanes_;
  std::string events_;
};

}  // namespace

std::string trace_events(const std::vector<NamedReport>& reports) {
  int64_t origin = std::numeric_limits<int64_t>::max();
  for (const NamedReport& r : reports)
    for (const Communicator& c : r.report.communicators)
      for (const TracedCall& call : c.trace) {
        origin = std::min(origin, call.begin);
        for (const TracedStep& step : call.steps) origin = std::min(origin, step.begin);
      }
  if (origin == std::numeric_limits<int64_t>::max())
    fail(ncclInvalidArgument,
         "there are no calls to trace: TERSE_TRACE=N keeps the last N of each communicator");
  TraceWriter writer(origin);
  const std::vector<Process> all = processes(reports);
  for (size_t i = 0; i < all.size(); ++i) writer.add(i, all[i]);
  return writer.take();
}

}  // namespace terse::report
