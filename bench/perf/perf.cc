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
#include "site.h"
#include "table.h"
#include "watchdog.h"

namespace terse::perf {
namespace {

constexpr double kMeetSeconds = 60;

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

// A thread may be stuck inside NCCL, so a failing process ends at once; its peers notice by their
// lifelines.
[[noreturn]] void exit_with(const std::string& program, int process, const std::string& message) {
  static std::mutex once;  // never released: the first message is the one
  once.lock();
  std::fputs(
      fmt::format("\n{}: process {} on {}: {}\n", program, process, host_name(), message).c_str(),
      stderr);
  std::_Exit(kExitFailure);
}

// Runs body(thread) on every thread, the first on this one. What one throws ends the process.
void on_threads(int threads, const std::function<void(int)>& body,
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

std::vector<RankInfo> gather_ranks(Rendezvous* rendezvous, const Device& device,
                                   const std::vector<int>& devices) {
  std::string mine;  // four lines for each rank
  for (const int index : devices) {
    const DeviceInfo info = device.describe(index);
    mine +=
        fmt::format("{} {}\n{}\n{}\n{}\n", getpid(), index, host_name(), info.bus_id, info.name);
  }
  std::vector<RankInfo> ranks;
  for (const std::string& blob : rendezvous->all_gather(mine, kMeetSeconds)) {
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

ncclUniqueId share_unique_id(Rendezvous* rendezvous) {
  std::string blob(sizeof(ncclUniqueId), '\0');
  ncclUniqueId id = {};
  if (rendezvous->process() == 0) {
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    blob.assign(id.internal, sizeof(id.internal));
  }
  blob = rendezvous->all_gather(blob, kMeetSeconds).front();
  blob.copy(id.internal, sizeof(id.internal));
  return id;
}

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

void print(const std::string& text) {
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
int run_all(const Context& context, Rendezvous* rendezvous, Watchdog* watchdog) {
  const Options& o = context.options;
  const Device& device = device_in_use();
  // Before NCCL's first call.
  const std::vector<int> devices =
      place_ranks(device, context.launch, o.ranks_per_process(), rendezvous);
  const std::vector<Site> sites = gather_sites(rendezvous);
  const bool first = rendezvous->process() == 0;
  const auto say = [first](const std::string& text) {
    if (first) print(text);
  };
  const std::unique_ptr<Scheme> scheme =
      o.scheme.empty() ? nullptr : std::make_unique<Scheme>(load_terse(), o.scheme);
  const int nranks = rendezvous->processes() * o.ranks_per_process();
  const InputFiles files = o.input.empty() ? InputFiles() : open_input_files(o.input, nranks);

  JsonReport report;
  report.start_time = date_and_time();
  report.environment = run_environment();
  report.nccl_version = nccl_version();
  say(table_run_header(context.collective.program, o, report.nccl_version));
  report.layout = layout_of(sites, o.ranks_per_process());
  report.ranks = gather_ranks(rendezvous, device, devices);
  say(table_ranks(report.ranks, report.layout));

  Team team(*rendezvous, o.threads, o.timeout > 0 ? o.timeout : 1e9);
  Run run = {.options = o,
             .collective = context.collective,
             .device = device,
             .scheme = scheme.get(),
             .files = files,
             .team = team,
             .layout = report.layout,
             .counts_network = counts_network(sites, rendezvous->process()),
             .buffer_bytes = 0,
             .devices = devices,
             .ranks = {},
             .progress = [&](const std::string& what) { watchdog->kick(what); },
             .print = say};
  run.buffer_bytes = buffer_bytes(run);
  const ncclUniqueId id = share_unique_id(rendezvous);
  create_resources(&run, id);
  say(table_header(o, run.layout));
  std::vector<Outcome> outcomes(static_cast<std::size_t>(o.threads));
  on_threads(
      o.threads,
      [&](int thread) {
        device.select(run.ranks[static_cast<std::size_t>(thread * o.ranks_per_thread)].device);
        create_thread_resources(&run, id, thread);
        outcomes[static_cast<std::size_t>(thread)] = run_thread(run, thread);
      },
      context.die);
  watchdog->kick("destroying the communicators");
  destroy_resources(&run);
  say(table_footer(context.collective.program, outcomes[0].summary));

  report.rows = std::move(outcomes[0].rows);
  report.summary = outcomes[0].summary;
  report.end_time = date_and_time();
  if (first && !o.json.empty()) {
    const std::string path = write_new_file(o.json, make_json(o, report));
    print("# Wrote JSON output to " + path + "\n");
  }
  return report.summary.failures == 0 ? 0 : kExitFailure;
}

int run_process(const Collective& collective, const Options& options) {
  const Launch launch = read_launch();
  const auto die = [&](const std::string& message) {
    exit_with(collective.program, launch.process, message);
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
  Lifeline lifeline(launch.process, rendezvous->take_lifelines(), die);
  try {
    return run_all({collective, options, launch, die}, rendezvous.get(), &watchdog);
  } catch (const std::exception& error) {
    // Here and not further out: the lifeline's end would tell the others that all is well.
    die(error.what());
  }
  return kExitFailure;
}

}  // namespace

int run_perf(const Collective& collective, int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const Parsed parsed = parse_options(collective.program, argc, argv);
  if (!parsed.options.has_value()) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  try {
    const Options& options = *parsed.options;
    if (!options.nccl.empty()) restart_with_nccl(options.nccl, without_nccl(options.command_line));
    use_nccl_of_gpu(options.command_line);
    return run_process(collective, options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", collective.program, error.what());
    return kExitUsage;
  }
}

}  // namespace terse::perf
