#include "engine/observe/reporter.h"

#include <dlfcn.h>
#include <fmt/chrono.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/first_made.h"
#include "base/log.h"
#include "base/patient_lock.h"
#include "base/text.h"
#include "engine/observe/reporting_comm.h"
#include "terse/terse.h"

namespace terse {
namespace {

constexpr size_t kMaxReleased = 1000;  // communicators; more are only counted
constexpr size_t kMaxTraces = 100;     // of them, the last ones

// Totals of communicators, for the line at the exit.
struct Totals {
  uint64_t calls = 0, fused = 0, native = 0;
  plan::Traffic raw, wire;
  report::Race race;

  void add(const report::Communicator& c) {
    for (const report::Row& row : c.rows) {
      calls += row.calls;
      fused += row.fused_calls;
      raw += row.raw;
      wire += row.wire;
      race += row.race;
    }
    for (const auto& [reason, times] : c.bypasses) native += times;
  }
};

struct Reporter {
  std::mutex mutex;
  pid_t owner = 0;                             // the process that the rest is of
  Totals gone;                                 // of all that were released
  std::vector<report::Communicator> released;  // where there is to be a report
  uint64_t left_out = 0;
  std::optional<int> rank;                         // on the first communicator that was made
  std::atomic<const Settings*> settings{nullptr};  // null: there was no communicator yet
  Present present{};
  std::chrono::steady_clock::time_point begun{};       // with the first communicator
  std::chrono::steady_clock::time_point next_write{};  // not before, but for the exit
  // Earliest time of the next interim report of a program that goes on, in nanoseconds of the
  // steady clock.
  std::atomic<int64_t> next_interim{0};
};

// Never destroyed: communicators may be released while the program exits.
Reporter& reporter() {
  static Reporter& r = *new Reporter;
  return r;
}

int rank_of(const Reporter& r) { return leading_rank().value_or(r.rank.value_or(0)); }

// A process that was forked begins anew.
void claim(Reporter& r) {
  if (r.owner == getpid()) return;
  r.owner = getpid();
  r.gone = {};
  r.released.clear();
  r.left_out = 0;
  r.rank.reset();
}

// Made before the mutex is taken: dladdr takes the loader's lock, as a library's constructor has
// it.
const std::string& own_library() {
  static constinit std::atomic<const std::string*> place{nullptr};
  return first_made(place, []() -> std::string {
    Dl_info info{};
    if (dladdr(reinterpret_cast<void*>(&own_library), &info) == 0 || info.dli_fname == nullptr)
      return "terse";
    return std::filesystem::path(info.dli_fname).stem().string();
  });
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "unknown";
}

report::Report collect(Reporter& r, const Settings& settings) {
  report::Report all;
  all.terse =
      fmt::format("{}.{}.{}", TERSE_VERSION_MAJOR, TERSE_VERSION_MINOR, TERSE_VERSION_PATCH);
  all.host = host_name();
  all.pid = getpid();
  all.library = own_library();
  all.written = fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::time(nullptr)));
  all.policy = settings.policy.print();
  all.meter = settings.meter;
  all.verify = settings.verify;
  if (settings.observe) {
    const std::chrono::duration<double> run = std::chrono::steady_clock::now() - r.begun;
    all.observed = run.count();
  }
  all.left_out = r.left_out;
  all.communicators = r.released;
  std::ranges::move(r.present.accounts(), std::back_inserter(all.communicators));
  return all;
}

// TERSE_REPORT as the name of this process's file, without its ending.
std::filesystem::path file_name(const std::string& wanted, const report::Report& all, int rank) {
  if (const std::string folder = report_folder(wanted); !folder.empty())
    return std::filesystem::path(folder) /
           fmt::format("rank{}-{}-{}-{}", rank, all.host, all.pid, all.library);
  std::string name;
  for (size_t i = 0; i < wanted.size(); ++i) {
    const char next = wanted[i] == '%' && i + 1 < wanted.size() ? wanted[++i] : '\0';
    switch (next) {
      case 'r':
        name += std::to_string(rank);
        break;
      case 'p':
        name += std::to_string(all.pid);
        break;
      case 'h':
        name += all.host;
        break;
      default:
        name += wanted[i];
    }
  }
  for (const std::string_view ending : {".json", ".prom"})
    if (name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  return name;
}

// The file's name, in a folder that is there; "": none is wanted.
std::string place_for(const std::string& wanted, const report::Report& all, int rank) {
  if (wanted.empty()) return "";
  std::string name = file_name(wanted, all, rank).string();
  const std::filesystem::path folder = std::filesystem::path(name).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder);
  return name;
}

void write(Reporter& r, const Settings& settings) {
  if (!settings.reports()) return;
  const report::Report all = collect(r, settings);
  if (all.communicators.empty()) return;
  if (const std::string name = place_for(settings.report, all, rank_of(r)); !name.empty()) {
    write_file(name + ".json", report::to_json(all));
    write_file(name + ".txt", report::to_text(all));
  }
  if (const std::string name = place_for(settings.metrics, all, rank_of(r)); !name.empty())
    write_file(name + ".prom", report::to_metrics(all));
}

template <class Body>
void carefully(const Settings& settings, const Body& body) noexcept {
  try {
    body();
  } catch (const std::exception& e) {
    if (settings.report.empty())
      log(LogLevel::kWarn, "no metrics for TERSE_METRICS={}: {}", settings.metrics, e.what());
    else
      log(LogLevel::kWarn, "no report for TERSE_REPORT={}: {}", settings.report, e.what());
  }
}

// Summary of all communicators.
std::string summary(const Reporter& r) {
  Totals all = r.gone;
  for (const report::Communicator& c : r.present.accounts()) all.add(c);
  const auto& [calls, fused, native, raw, wire, race] = all;
  const std::string text = fmt::format("{} compressed{}, {} native", counted(calls, "call"),
                                       fused != 0 ? fmt::format(" ({} fused)", fused) : "", native);
  if (wire.bytes == 0) return text;
  const auto bytes = [](size_t n) { return report::show_bytes(static_cast<double>(n)); };
  const std::string sent = fmt::format(
      "{}; sent {} in place of {}, {:.2f} times less", text, bytes(wire.bytes), bytes(raw.bytes),
      static_cast<double>(raw.bytes) / static_cast<double>(wire.bytes));
  if (race.calls == 0) return sent;
  return fmt::format(
      "{}; {} of the calls ran both ways, in {} in place of {}, {:.2f} times as fast", sent,
      race.calls, report::show_seconds(race.compressed), report::show_seconds(race.native),
      race.speedup());
}

std::string verdict(Reporter& r, const Settings& settings) {
  const std::string& rules = settings.scheme.empty() ? settings.policy_path : settings.scheme;
  return fmt::format("observed \"{}\" in this process: {}", shortened(rules),
                     report::show_verdict(report::verdict_of(collect(r, settings))));
}

// A long trace is most of what is kept of a communicator.
void forget_old_traces(std::vector<report::Communicator>& released) {
  size_t traces = 0;
  for (auto c = released.rbegin(); c != released.rend(); ++c)
    if (!c->trace.empty() && ++traces > kMaxTraces) c->trace = std::vector<report::TracedCall>();
}

// Keeps what a report needs of a communicator that is gone.
void keep(Reporter& r, report::Communicator gone) {
  if (r.released.size() == kMaxReleased) {
    ++r.left_out;
    return;
  }
  r.released.push_back(std::move(gone));
  forget_old_traces(r.released);
}

bool is_wanted(const Settings& settings) {
  return settings.reports() || settings.observe || log_level() >= LogLevel::kInfo;
}

void at_exit() {
  Reporter& r = reporter();
  if (r.owner != getpid()) return;  // a child that had nothing to do with terse
  const Settings& settings = *r.settings.load();
  carefully(settings, [&] {
    const auto lock = patient_lock(r.mutex, std::chrono::seconds(1));
    if (!lock.owns_lock()) return;
    if (r.rank && rank_of(r) == 0) note(0, settings.observe ? verdict(r, settings) : summary(r));
    write(r, settings);
  });
}

}  // namespace

void report_begins(const Settings& settings, int rank, const Present& present) noexcept {
  if (!is_wanted(settings)) return;
  carefully(settings, [&] {
    own_library();
    Reporter& r = reporter();
    const std::lock_guard lock(r.mutex);
    claim(r);
    if (!r.rank) {
      r.rank = rank;
      r.begun = std::chrono::steady_clock::now();
    }
    r.settings = &settings;
    r.present = present;
    // After the settings are made, so that it runs before they go.
    static const int registered = std::atexit(at_exit);
    (void)registered;
  });
}

void report_released(const std::function<report::Communicator()>& account) noexcept {
  Reporter& r = reporter();
  const Settings* const settings = r.settings;
  if (settings == nullptr) return;
  carefully(*settings, [&] {
    const std::lock_guard lock(r.mutex);
    claim(r);
    report::Communicator gone = account();
    r.gone.add(gone);
    if (settings->reports() || settings->observe) keep(r, std::move(gone));
    if (r.present.any()) return;
    // All is written anew. A program that makes one communicator after the other spends a tenth of
    // its time on that at most; the exit writes what is left.
    const auto begun = std::chrono::steady_clock::now();
    if (begun < r.next_write) return;
    write(r, *settings);
    const auto ended = std::chrono::steady_clock::now();
    r.next_write = ended + 9 * (ended - begun);
  });
}

bool report_is_due() noexcept {
  using std::chrono::steady_clock;
  constexpr steady_clock::duration kPeriod = std::chrono::minutes(1);
  Reporter& r = reporter();
  const Settings* const settings = r.settings;
  if (settings == nullptr || !settings->reports()) return false;
  const int64_t now = steady_clock::now().time_since_epoch().count();
  int64_t next = r.next_interim.load(std::memory_order_relaxed);
  if (now < next) return false;
  // Returns true on one thread, which writes; the first call sets the period's beginning.
  return r.next_interim.compare_exchange_strong(next, now + kPeriod.count()) && next != 0;
}

void report_anew() noexcept {
  Reporter& r = reporter();
  const Settings& settings = *r.settings.load();
  carefully(settings, [&] {
    const std::unique_lock lock(r.mutex, std::try_to_lock);
    if (lock.owns_lock()) write(r, settings);
  });
}

}  // namespace terse
