#include "perf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "bench.h"
#include "environment.h"
#include "json.h"
#include "lifeline.h"
#include "nccl_check.h"
#include "nccl_choice.h"
#include "placement.h"
#include "resources.h"
#include "table.h"
#include "watchdog.h"

namespace terse::perf {
namespace {

constexpr double kMeetSeconds = 60;

std::string HostName() {
  char name[256] = "unknown";
  gethostname(name, sizeof(name) - 1);
  return name;
}

std::string DateAndTime() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// A thread may be stuck inside NCCL, so a failing process ends at once; its peers notice by their
// lifelines.
[[noreturn]] void Die(const std::string& program, int process, const std::string& message) {
  static std::mutex once;  // never released: the first message is the one
  once.lock();
  std::fputs(
      fmt::format("\n{}: process {} on {}: {}\n", program, process, HostName(), message).c_str(),
      stderr);
  std::_Exit(kExitFailure);
}

// Runs body(thread) on every thread, the first on this one. What one throws ends the process.
void OnThreads(int threads, const std::function<void(int)>& body,
               const std::function<void(const std::string&)>& die) {
  const auto guarded = [&](int thread) {
    try {
      body(thread);
    } catch (const std::exception& error) {
      die(error.what());
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(guarded, thread);
  guarded(0);
  for (std::thread& other : others) other.join();
}

std::vector<RankInfo> GatherRanks(Rendezvous* rendezvous, const Device& device,
                                  const std::vector<int>& devices) {
  std::string mine;  // four lines for each rank
  for (const int index : devices) {
    const DeviceInfo info = device.describe(index);
    mine += fmt::format("{} {}\n{}\n{}\n{}\n", getpid(), index, HostName(), info.bus_id, info.name);
  }
  std::vector<RankInfo> ranks;
  for (const std::string& blob : rendezvous->AllGather(mine, kMeetSeconds)) {
    std::istringstream lines(blob);
    RankInfo rank;
    while (lines >> rank.process_id >> rank.device >> std::ws && std::getline(lines, rank.host) &&
           std::getline(lines, rank.info.bus_id) && std::getline(lines, rank.info.name)) {
      rank.rank = static_cast<int>(ranks.size());
      ranks.push_back(rank);
    }
  }
  return ranks;
}

ncclUniqueId ShareUniqueId(Rendezvous* rendezvous) {
  std::string blob(sizeof(ncclUniqueId), '\0');
  ncclUniqueId id = {};
  if (rendezvous->process() == 0) {
    CheckNccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    blob.assign(id.internal, sizeof(id.internal));
  }
  blob = rendezvous->AllGather(blob, kMeetSeconds).front();
  blob.copy(id.internal, sizeof(id.internal));
  return id;
}

int NcclVersion() {
  int version = 0;
  CheckNccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

void Print(const std::string& text) {
  std::fputs(text.c_str(), stdout);
  std::fflush(stdout);
}

struct Context {
  const Collective& collective;
  const Options& options;
  const Launch& launch;
  std::function<void(const std::string&)> die;
};

// Everything between the meeting of the processes and their goodbye.
int RunAll(const Context& context, Rendezvous* rendezvous, Watchdog* watchdog) {
  const Options& o = context.options;
  const Device& device = DeviceInUse();
  // Before NCCL's first call.
  const std::vector<int> devices =
      PlaceRanks(device, context.launch, o.RanksPerProcess(), rendezvous);
  const bool first = rendezvous->process() == 0;
  const auto say = [first](const std::string& text) {
    if (first) Print(text);
  };
  const std::unique_ptr<Scheme> scheme =
      o.scheme.empty() ? nullptr : std::make_unique<Scheme>(LoadTerse(), o.scheme);
  const int nranks = rendezvous->processes() * o.RanksPerProcess();
  const InputFiles files = o.input.empty() ? InputFiles() : OpenInputFiles(o.input, nranks);

  JsonReport report;
  report.start_time = DateAndTime();
  report.environment = RunEnvironment();
  report.nccl_version = NcclVersion();
  say(TableRunHeader(context.collective.program, o, report.nccl_version));
  report.ranks = GatherRanks(rendezvous, device, devices);
  say(TableRanks(report.ranks));

  Team team(*rendezvous, o.threads, o.timeout > 0 ? o.timeout : 1e9);
  Run run = {o,
             context.collective,
             device,
             scheme.get(),
             files,
             team,
             0,
             devices,
             {},
             [&](const std::string& what) { watchdog->Kick(what); },
             say};
  run.buffer_bytes = BufferBytes(run);
  const ncclUniqueId id = ShareUniqueId(rendezvous);
  CreateResources(&run, id);
  say(TableHeader(o));
  std::vector<Outcome> outcomes(static_cast<std::size_t>(o.threads));
  OnThreads(
      o.threads,
      [&](int thread) {
        device.select(run.ranks[static_cast<std::size_t>(thread * o.ranks_per_thread)].device);
        CreateThreadResources(&run, id, thread);
        outcomes[static_cast<std::size_t>(thread)] = RunThread(run, thread);
      },
      context.die);
  watchdog->Kick("destroying the communicators");
  DestroyResources(&run);
  say(TableFooter(context.collective.program, outcomes[0].summary));

  report.rows = std::move(outcomes[0].rows);
  report.summary = outcomes[0].summary;
  report.end_time = DateAndTime();
  if (first && !o.json.empty()) {
    const std::string path = WriteNewFile(o.json, MakeJson(o, report));
    Print("# Wrote JSON output to " + path + "\n");
  }
  return report.summary.failures == 0 ? 0 : kExitFailure;
}

int RunProcess(const Collective& collective, const Options& options) {
  const Launch launch = ReadLaunch();
  const auto die = [&](const std::string& message) {
    Die(collective.program, launch.process, message);
  };
  const double patience =
      options.timeout > 0 ? std::min<double>(options.timeout, kMeetSeconds) : kMeetSeconds;
  std::unique_ptr<Rendezvous> rendezvous;
  try {
    rendezvous = std::make_unique<Rendezvous>(
        Meeting{launch.process, launch.processes, launch.address, launch.port, patience});
  } catch (const std::exception& error) {
    die(error.what());
  }
  Watchdog watchdog(options.timeout, [&](const std::string& what) {
    die(fmt::format("Test timeout ({}s) in {}", options.timeout, what));
  });
  Lifeline lifeline(launch.process, rendezvous->TakeLifelines(), die);
  try {
    return RunAll({collective, options, launch, die}, rendezvous.get(), &watchdog);
  } catch (const std::exception& error) {
    // Here and not further out: the lifeline's end would tell the others that all is well.
    die(error.what());
  }
  return kExitFailure;
}

}  // namespace

int Main(const Collective& collective, int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const Parsed parsed = ParseOptions(collective.program, argc, argv);
  if (!parsed.options.has_value()) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  try {
    const Options& options = *parsed.options;
    if (!options.nccl.empty()) RestartWithNccl(options.nccl, WithoutNccl(options.command_line));
    UseNcclOfGpu(options.command_line);
    return RunProcess(collective, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", collective.program, error.what());
    return kExitUsage;
  }
}

}  // namespace terse::perf
