#include "timing.h"

#include <algorithm>
#include <chrono>

#include "counters.h"

namespace terse::perf {
namespace {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

constexpr int kWaitAfterIteration = 3;  // -z 3

// -I: the time at which each rank's stream passes the borders of the iterations. With -z 3 an
// iteration has a border of its own at each end, so that the barrier between does not count.
class Stamps {
 public:
  Stamps(const Options& o, const Case& test)
      : on_(o.per_iteration != 0),
        paired_(o.blocking == kWaitAfterIteration),
        iterations_(static_cast<std::size_t>(o.iterations)),
        aggregate_(o.aggregate),
        test_(test) {
    if (on_) clocks_ = test.create_clocks(2 * iterations_ + 1);
  }

  void begin(std::size_t i) {
    if (on_) test_.stamp(paired_ ? 2 * i : i, clocks_);
  }
  void end(std::size_t i) {
    if (on_ && paired_) test_.stamp(2 * i + 1, clocks_);
  }
  void finish() {
    if (on_ && !paired_) test_.stamp(iterations_, clocks_);
  }

  // Microseconds of each iteration, the slowest of this thread's ranks.
  std::vector<double> times() const {
    std::vector<double> times(on_ ? iterations_ : 0);
    for (const std::unique_ptr<StreamClock>& clock : clocks_) {
      const std::vector<double> rank = clock->seconds();
      for (std::size_t i = 0; i < times.size(); ++i) {
        const std::size_t at = paired_ ? 2 * i : i;
        times[i] = std::max(times[i], (rank[at + 1] - rank[at]) * 1e6 / aggregate_);
      }
    }
    return times;
  }

 private:
  bool on_;
  bool paired_;
  std::size_t iterations_;
  int aggregate_;
  const Case& test_;
  Clocks clocks_;
};

struct LoopTimes {
  double calls;  // seconds an operation, until the calls have returned
  double done;   // until the streams are through
};

LoopTimes loop(const Run& run, int thread, Case* test, Place place, Stamps* stamps) {
  const Options& o = run.options;
  double waited = 0;  // -z 3: the sum without the barriers
  const Stopwatch watch;
  for (int i = 0; i < o.iterations; ++i) {
    const double start = watch.seconds();
    if (o.aggregate > 1) test->group_start();
    stamps->begin(static_cast<std::size_t>(i));
    for (int a = 0; a < o.aggregate; ++a) {
      test->issue(place, static_cast<std::size_t>(i) * static_cast<std::size_t>(o.aggregate) +
                             static_cast<std::size_t>(a));
      if (o.blocking != 0 && o.aggregate == 1) test->synchronize();
      if (o.blocking == 1) run.team.barrier(thread);
    }
    if (o.aggregate > 1) test->group_end();
    if (o.blocking == kWaitAfterIteration) {
      test->synchronize();
      stamps->end(static_cast<std::size_t>(i));
      waited += watch.seconds() - start;
      run.team.barrier(thread);
    }
  }
  stamps->finish();
  const double operations = static_cast<double>(o.iterations) * o.aggregate;
  const bool barred = o.blocking == kWaitAfterIteration;
  const double calls = (barred ? waited : watch.seconds()) / operations;
  test->synchronize();
  return {calls, (barred ? waited : watch.seconds()) / operations};
}

// Keeps the slower time of each iteration.
void take_slower(const std::vector<double>& times, std::vector<double>* slowest) {
  for (std::size_t i = 0; i < slowest->size(); ++i) {
    (*slowest)[i] = std::max((*slowest)[i], times[i]);
  }
}

// By process, the slowest of its threads' times of each iteration.
std::vector<std::vector<double>> gather_times(const Run& run, int thread,
                                              const std::vector<double>& times) {
  std::vector<std::vector<double>> rows(static_cast<std::size_t>(run.team.processes()),
                                        std::vector<double>(times.size()));
  const std::vector<std::string> blobs = run.team.gather(
      thread, {reinterpret_cast<const char*>(times.data()), times.size() * sizeof(double)});
  std::vector<double> other(times.size());
  for (std::size_t i = 0; i < blobs.size(); ++i) {
    std::memcpy(other.data(), blobs[i].data(), blobs[i].size());
    take_slower(other, &rows[i / static_cast<std::size_t>(run.team.threads())]);
  }
  return rows;
}

// The bytes that a node's interface sends between construction and per_call. Both are collective.
class NetdevCount {
 public:
  NetdevCount(const Run& run, int thread) : run_(run), thread_(thread) {
    if (run.options.netdev.empty()) return;
    if (thread == 0) start_ = read_netdev_bytes(run.options.netdev);
    run.team.barrier(thread);  // nobody sends before everybody has read
  }

  std::optional<double> per_call() const {
    const Options& o = run_.options;
    if (o.netdev.empty()) return std::nullopt;
    run_.team.barrier(thread_);
    // Every process of a host sees its interface, with the bytes of all of them.
    const double sent = thread_ == 0 && run_.counts_network
                            ? static_cast<double>(read_netdev_bytes(o.netdev) - start_)
                            : 0.0;
    const double total = run_.team.combine(thread_, sent, Average::kSum);
    return total / o.iterations / o.aggregate / run_.layout.nodes;
  }

 private:
  const Run& run_;
  int thread_;
  std::uint64_t start_ = 0;
};

}  // namespace

Measurement time_calls(const Run& run, int thread, Case* test, Place place) {
  const Options& o = run.options;
  test->issue(place, 0);
  test->synchronize();
  run.team.barrier(thread);

  const WireBytes before = read_wire_bytes(run.scheme, test->ranks());
  Stamps stamps(o, *test);
  const NetdevCount netdev(run, thread);
  const LoopTimes times = loop(run, thread, test, place, &stamps);
  const double seconds = run.team.combine(thread, times.done, static_cast<Average>(o.average));

  Measurement m;
  m.netdev_bytes = netdev.per_call();
  const WireBytes after = read_wire_bytes(run.scheme, test->ranks());
  const auto all = [&](double WireBytes::*bytes) {  // a call, of all ranks
    const double own = after.*bytes - before.*bytes;
    return run.team.combine(thread, own, Average::kSum) / o.iterations / o.aggregate;
  };
  if (const double raw = all(&WireBytes::raw), wire = all(&WireBytes::wire); wire > 0) {
    m.wire_ratio = raw / wire;
    m.wire_bytes = wire / run.layout.ranks;
  }
  const double raw_off = all(&WireBytes::raw_off_node), off = all(&WireBytes::wire_off_node);
  if (off > 0) {
    m.off_node_ratio = raw_off / off;
    m.off_node_bytes = off / run.layout.nodes;
  }
  m.time = (o.report_cpu_time != 0 ? times.calls : seconds) * 1e6;
  const double moved = static_cast<double>(test->total_bytes()) / seconds / 1e9;
  m.algbw = moved * run.collective.algbw(run.nranks());
  m.busbw = moved * run.collective.busbw(run.nranks());
  if (o.per_iteration != 0) {
    m.process_iterations = gather_times(run, thread, stamps.times());
    m.iterations = m.process_iterations.front();
    for (const std::vector<double>& row : m.process_iterations) take_slower(row, &m.iterations);
    m.stats = summarize({m.iterations.begin() + o.per_iteration_skip, m.iterations.end()});
  }
  return m;
}

}  // namespace terse::perf
