#include "session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <thread>

#include "lifeline.h"
#include "nccl_check.h"
#include "nccl_choice.h"
#include "placement.h"
#include "resources.h"

namespace terse::perf {
namespace {

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

// Each group's first process makes its own.
ncclUniqueId share_unique_id(Rendezvous* rendezvous, const Group& group) {
  std::string blob(sizeof(ncclUniqueId), '\0');
  ncclUniqueId id = {};
  if (group.process == 0) {
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    blob.assign(id.internal, sizeof(id.internal));
  }
  blob = rendezvous->all_gather(blob, kMeetSeconds)[static_cast<std::size_t>(group.processes[0])];
  blob.copy(id.internal, sizeof(id.internal));
  return id;
}

}  // namespace

Run Session::run_of(const Collective& collective, const Scheme* scheme, const InputFiles& files) {
  return {.options = options,
          .collective = collective,
          .device = device,
          .scheme = scheme,
          .files = files,
          .team = team,
          .layout = layout,
          .group = group,
          .counts_network = counts_network(sites, rendezvous.process()),
          .buffer_bytes = 0,
          .devices = devices,
          .ranks = {},
          .progress = [this](const std::string& what) { watchdog.kick(what); },
          .print = say};
}

void Session::on_ranks(Run* run, const std::function<void()>& prepared,
                       const std::function<void(int thread)>& body) {
  const ncclUniqueId id = share_unique_id(&rendezvous, group);
  create_resources(run, id);
  prepared();
  on_threads(
      options.threads,
      [&](int thread) {
        device.select(
            run->ranks[static_cast<std::size_t>(thread * options.ranks_per_thread)].device);
        create_thread_resources(run, id, thread);
        body(thread);
      },
      die);
  watchdog.kick("destroying the communicators");
  destroy_resources(run);
}

int run_session(const std::string& program, const Options& options,
                const std::function<int(Session&)>& body) {
  const Launch launch = read_launch();
  const auto die = [&](const std::string& message) { exit_with(program, launch.process, message); };
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
    const Device& device = device_in_use();
    // Before NCCL's first call.
    std::vector<int> devices =
        place_ranks(device, launch, options.ranks_per_process(), rendezvous.get());
    std::vector<Site> sites = gather_sites(rendezvous.get());
    const Layout layout = layout_of(sites, options.ranks_per_process());
    const Group group = gather_groups(rendezvous.get(), group_color(launch.process));
    const bool first = rendezvous->process() == 0;
    const auto say = [first](const std::string& text) {
      if (!first) return;
      std::fputs(text.c_str(), stdout);
      std::fflush(stdout);
    };
    Session session{
        options,
        launch,
        *rendezvous,
        watchdog,
        die,
        say,
        device,
        std::move(devices),
        std::move(sites),
        layout,
        group,
        Team(*rendezvous, options.threads, options.timeout > 0 ? options.timeout : 1e9)};
    return body(session);
  } catch (const std::exception& error) {
    // Here and not further out: the lifeline's end would tell the others that all is well.
    die(error.what());
  }
  return kExitFailure;
}

int run_program(const std::string& program, const Options& options,
                const std::function<int(Session&)>& body) {
  try {
    if (!options.nccl.empty()) restart_with_nccl(options.nccl, without_nccl(options.command_line));
    use_nccl_of_gpu(options.command_line);
    return run_session(program, options, body);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program.c_str(), error.what());
    return kExitUsage;
  }
}

}  // namespace terse::perf
