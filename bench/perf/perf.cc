#include "perf.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <ctime>
#include <memory>
#include <sstream>

#include "environment.h"
#include "json.h"
#include "memory.h"
#include "nccl_check.h"
#include "resources.h"
#include "session.h"
#include "table.h"

namespace terse::perf {
namespace {

std::string date_and_time() {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  localtime_r(&now, &parts);
  char text[64];
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &parts);
  return text;
}

std::vector<RankInfo> gather_ranks(Session& session) {
  std::string mine;  // four lines for each rank
  for (const int index : session.devices) {
    const DeviceInfo info = session.device.describe(index);
    mine += fmt::format("{} {} {}\n{}\n{}\n{}\n", session.color(), getpid(), index, host_name(),
                        info.bus_id, info.name);
  }
  std::vector<RankInfo> ranks;
  for (const std::string& blob : session.rendezvous.all_gather(mine, kMeetSeconds)) {
    std::istringstream lines(blob);
    RankInfo rank;
    while (lines >> rank.group >> rank.process_id >> rank.device >> std::ws &&
           std::getline(lines, rank.host) && std::getline(lines, rank.info.bus_id) &&
           std::getline(lines, rank.info.name)) {
      rank.rank = static_cast<int>(ranks.size());
      ranks.push_back(rank);
    }
  }
  return ranks;
}

int nccl_version() {
  int version = 0;
  check_nccl(ncclGetVersion(&version), "ncclGetVersion");
  return version;
}

// What only shows when the processes have met. Throws std::invalid_argument.
void require_runnable(const Collective& collective, const Session& session) {
  const Options& o = session.options;
  if (collective.rooted && o.root >= session.nranks()) {
    throw std::invalid_argument(
        fmt::format("--root {}: there are {} ranks", o.root, session.nranks()));
  }
  if (const int needed = o.cta_policy > 1 ? 22800 : 22700;
      o.cta_policy >= 0 && nccl_version() < needed) {
    throw std::invalid_argument(fmt::format("--cta_policy {} needs NCCL {}, and this is {}",
                                            o.cta_policy, needed, nccl_version()));
  }
  min_busbw();
  collective.require(o, session.nranks());
}

// Everything between the meeting of the processes and their goodbye.
int run_all(const Collective& collective, Session& session) {
  const Options& o = session.options;
  const std::unique_ptr<Scheme> scheme =
      o.scheme.empty() ? nullptr : std::make_unique<Scheme>(load_terse(), o.scheme);
  const InputFiles files =
      o.input.empty() ? InputFiles() : open_input_files(o.input, session.nranks());

  require_runnable(collective, session);

  JsonReport report;
  report.start_time = date_and_time();
  report.environment = run_environment();
  report.nccl_version = nccl_version();
  session.say(table_run_header(collective.program, o, report.nccl_version));
  report.layout = session.layout;
  report.ranks = gather_ranks(session);
  session.say(table_ranks(report.ranks, report.layout));

  Run run = session.run_of(collective, scheme.get(), files);
  run.buffer_bytes = buffer_bytes(run);
  std::vector<Outcome> outcomes(static_cast<std::size_t>(o.threads));
  session.on_ranks(
      &run, [&] { session.say(table_header(o, run.layout)); },
      [&](int thread) {
        Outcome& outcome = outcomes[static_cast<std::size_t>(thread)];
        note_memory(&run, &MemoryUse::calls, thread, [&] { outcome = run_thread(run, thread); });
        if (o.memory_report != 0) outcome.summary.memory = max_memory(run, thread);
      });
  report.rows = std::move(outcomes[0].rows);
  report.summary = outcomes[0].summary;
  report.summary.min_busbw = min_busbw();
  session.say(table_footer(collective.program, session.device.memory, report.summary));
  report.end_time = date_and_time();
  if (session.is_first() && !o.json.empty()) {
    const std::string path = write_new_file(o.json, make_json(o, report));
    session.say("# Wrote JSON output to " + path + "\n");
  }
  return report.summary.failures == 0 && !report.summary.is_too_slow() ? 0 : kExitFailure;
}

}  // namespace

int run_perf(const Collective& collective, int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  const Parsed parsed = parse_options(collective.program, argc, argv);
  if (!parsed.options.has_value()) {
    std::fputs(parsed.text.c_str(), parsed.exit_code == 0 ? stdout : stderr);
    return parsed.exit_code;
  }
  return run_program(collective.program, *parsed.options,
                     [&](Session& session) { return run_all(collective, session); });
}

}  // namespace terse::perf
