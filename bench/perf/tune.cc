// terse-tune: measures what native and compressed collectives take on the ranks of a job, and
// writes a profile, by which `auto` chooses.
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "case.h"
#include "engine/comm/chooser.h"
#include "fit.h"
#include "nccl_check.h"
#include "nccl_choice.h"
#include "policy/automatic.h"
#include "policy/profile_file.h"
#include "repeats.h"
#include "resources.h"
#include "session.h"
#include "terse_api.h"
#include "tune_options.h"
#include "types.h"

namespace terse::perf {
namespace {

// A measurement is no better than five digits.
double in_five_digits(double seconds) { return std::stod(fmt::format("{:.5g}", seconds)); }

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The part of one thread. All threads of all processes go the same way: what it depends on is the
// first one's.
class Tuner {
 public:
  Tuner(Session& session, const Run& ranks, const TuneOptions& options, int thread)
      : session_(session), ranks_(ranks), o_(options), thread_(thread) {
    for (const std::string& text : o_.schemes) {
      const auto fitted = on_ranks(parse_scheme(text), session.layout.ranks);
      if (fitted && short_name(*fitted) == text) schemes_.push_back(text);
    }
  }

  // Within so many seconds.
  std::vector<model::Curve> measure(double seconds) {
    const auto groups = o_.collectives.size() * o_.types.size();
    std::size_t left = groups;
    for (const std::string& collective : o_.collectives)
      for (const std::string& type : o_.types) {
        const double spare = std::max(0.5, seconds - elapsed());
        group(tuned_kind(collective), tuned_type(type), spare / static_cast<double>(left--));
      }
    return std::move(curves_);
  }

 private:
  static constexpr double kNativePart = 0.2, kOverrun = 0.3;  // of the time, at most

  // A scheme's calls: one of them native.
  struct Way {
    std::unique_ptr<Scheme> scheme;
    std::unique_ptr<Run> run;
    std::unique_ptr<Case> test;
    model::Curve curve;
    std::vector<bool> fused = {};  // by point
    bool has_fused = false;        // since the last point

    bool is_native() const { return scheme == nullptr; }
    // Number of this rank's calls that were fused.
    std::size_t fused_calls() const {
      if (is_native()) return 0;
      terseStats_t stats = {};
      stats.size = sizeof(stats);
      check_terse(scheme->api(), scheme->api().comm_get_stats(test->ranks().front().comm, &stats));
      return stats.fused_calls;
    }
    // Curves of the calls that were done in either way.
    std::vector<model::Curve> curves() const {
      std::vector<model::Curve> all;
      for (const bool is_fused : {false, true}) {
        model::Curve one = curve;
        one.fused = is_fused;
        one.points.clear();
        for (std::size_t i = 0; i < fused.size(); ++i)
          if (fused[i] == is_fused) one.points.push_back(curve.points[i]);
        if (!one.points.empty()) all.push_back(std::move(one));
      }
      return all;
    }
    double expected(std::size_t bytes) const {
      return curve.points.empty() ? 0 : curve.seconds(bytes);
    }
  };
  using Ways = std::vector<Way*>;

  double agreed(double value, Average average) {
    return session_.team.combine(thread_, value, average);
  }
  double elapsed() { return agreed(since(start_), Average::kRank0); }

  // Of a call, after one that warms up, for the way before was another one's. All are of the same
  // memory, in the caches where it fits: what a program sends it has mostly just computed.
  double time_calls(Way& way, int calls) {
    const std::size_t fused_before = way.fused_calls();  // also other ways' on the communicator
    way.test->issue(Place::kOutOfPlace, 0);
    way.test->synchronize();
    session_.team.barrier(thread_);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < calls; ++i) way.test->issue(Place::kOutOfPlace, 0);
    way.test->synchronize();
    const double seconds = since(start) / calls;
    way.has_fused = way.has_fused || way.fused_calls() != fused_before;
    return agreed(seconds, Average::kMean);
  }

  // All sizes of a collective and a type, as far as the seconds reach: what is larger follows from
  // the last two, and first that of the native calls, which take the longest and grow most evenly.
  void group(const TunedKind& kind, const TunedType& type, double seconds) {
    const Clock::time_point start = Clock::now();
    std::vector<Way> ways;
    add_way(ways, kind, type, std::string(model::kNative));
    for (const std::string& scheme : schemes_)
      if (is_for(parse_scheme(scheme), kind.in_plans, type.dtype))
        add_way(ways, kind, type, scheme);
    for (std::size_t bytes = o_.perf.min_bytes; bytes <= o_.perf.max_bytes; bytes *= 4) {
      const std::size_t total = set_size(ways, bytes);
      if (total == 0) continue;
      if (thread_ == 0)
        session_.watchdog.kick(fmt::format("{} {} of {} bytes", kind.name, type.name, total));
      // The largest may take a little more: there the bytes count, and nothing follows from less.
      const double spare =
          std::max(seconds - agreed(since(start), Average::kRank0), seconds * kOverrun);
      Ways measured;
      double all = 0;
      for (Way& way : ways) {
        measured.push_back(&way);
        all += way.expected(total);
      }
      const bool may_end = ways.front().curve.points.size() >= 2;
      const double native = ways.front().expected(total);
      if (may_end && 2 * native > spare * kNativePart) {
        std::erase_if(measured, [](const Way* way) { return way->is_native(); });
        all -= native;
      }
      if (may_end && (measured.empty() || 2 * all > spare)) break;
      measure_size(measured, total, may_end ? rounds_within(spare, all) : kRounds, spare / 8);
    }
    if (thread_ == 0)
      session_.say(fmt::format("# {} {}: {} sizes, {} of native calls, {:.1f} s\n", kind.name,
                               type.name, ways.back().curve.points.size(),
                               ways.front().curve.points.size(), since(start)));
    for (const Way& way : ways)
      for (model::Curve& curve : way.curves()) curves_.push_back(std::move(curve));
  }

  // The bytes that calls of nominally so many have: the shares of ranks are rounded down, and may
  // have no elements.
  static std::size_t set_size(std::vector<Way>& ways, std::size_t bytes) {
    for (Way& way : ways) way.test->set_size(bytes);
    return ways.front().test->total_bytes();
  }

  void add_way(std::vector<Way>& ways, const TunedKind& kind, const TunedType& type,
               const std::string& name) {
    Way way{.curve = {
                kind.in_plans, type.dtype, session_.layout.ranks, session_.layout.nodes, name, {}}};
    if (name != model::kNative) way.scheme = std::make_unique<Scheme>(load_terse(), name);
    way.run = std::make_unique<Run>(session_.run_of(kind.collective, way.scheme.get(), no_files_));
    way.run->ranks = ranks_.ranks;
    way.run->buffer_bytes = ranks_.buffer_bytes;
    way.test =
        std::make_unique<Case>(*way.run, thread_, find_data_type(type.perf),
                               kind.collective.reduces() ? find_operation("sum") : kNoOperation);
    if (ways.empty()) way.test->fill_buffers();
    ways.push_back(std::move(way));
  }

  // In turns, so that whatever else the machine does meets all ways alike; but long calls one after
  // the other, as programs make them, for ranks that are through with one begin the next.
  void measure_size(const Ways& ways, std::size_t bytes, int rounds, double seconds) {
    const double each = seconds / static_cast<double>(ways.size()) / rounds;
    std::vector<std::vector<double>> times(ways.size());
    std::vector<int> calls;
    for (Way* way : ways) {
      const double expected = way->expected(bytes);
      const double one = expected > 0 ? expected : time_calls(*way, 1);
      calls.push_back(calls_within(each, one));
    }
    for (int round = 0; round < rounds; ++round)
      for (std::size_t i = 0; i < ways.size(); ++i) {
        if (calls[i] > 1)
          times[i].push_back(time_calls(*ways[i], calls[i]));
        else if (round == 0)
          times[i].push_back(time_calls(*ways[i], rounds));
      }
    for (std::size_t i = 0; i < ways.size(); ++i) {
      std::ranges::sort(times[i]);
      ways[i]->curve.points.push_back({bytes, in_five_digits(times[i][times[i].size() / 2])});
      ways[i]->fused.push_back(std::exchange(ways[i]->has_fused, false));
    }
  }

  Session& session_;
  const Run& ranks_;
  const TuneOptions& o_;
  const int thread_;
  const InputFiles no_files_;
  std::vector<std::string> schemes_;
  const Clock::time_point start_ = Clock::now();
  std::vector<model::Curve> curves_;
};

std::string today() {
  const std::time_t now = std::time(nullptr);
  return fmt::format("{:%Y-%m-%d}", *std::localtime(&now));
}

// To the file, or to standard output where none is named.
void put(const TuneOptions& o, const std::string& text) {
  if (!o.output.empty()) return write_file(o.output, text);
  if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
    fail(ncclSystemError, "cannot write standard output: {}", std::strerror(errno));
}

int write(const TuneOptions& o, const Layout& layout, std::vector<model::Curve> curves) {
  if (curves.empty()) {
    std::fprintf(stderr, "%s: no message of %zu to %zu bytes has elements for each of %d ranks\n",
                 kTuneProgram, o.perf.min_bytes, o.perf.max_bytes, layout.ranks);
    return kExitFailure;
  }
  model::Profile profile;
  profile.name = o.name.empty() ? fmt::format("{} ranks on {} node{}", layout.ranks, layout.nodes,
                                              layout.nodes == 1 ? "" : "s")
                                : o.name;
  profile.source = fmt::format("terse tune on {}, {}", host_name(), today());
  profile.gpu = !nccl_works_on_host();
  profile.measured = std::move(curves);
  fit(&profile);
  if (!profile.within && !profile.between)
    std::fprintf(stderr,
                 "%s: without two sizes of float32 allreduce no links and codecs could be fitted; "
                 "under auto, calls of other kinds, types or layouts than measured will be "
                 "errors\n",
                 kTuneProgram);
  try {
    put(o, print_profile(profile));
    return 0;
  } catch (const terse::Error& error) {
    std::fprintf(stderr, "%s: %s\n", kTuneProgram, error.what());
    return kExitFailure;
  }
}

// What the preload library compresses would be measured as native.
void require_native() {
  const auto policy =
      reinterpret_cast<decltype(&tersePreloadPolicy)>(dlsym(RTLD_DEFAULT, "tersePreloadPolicy"));
  if (policy != nullptr && std::strcmp(policy(), "off") != 0)
    throw std::runtime_error(
        "libterse_nccl.so is preloaded, and would compress what is to be measured as native: start "
        "it without that, as by `env -u LD_PRELOAD terse tune`");
}

// On the session's group, whose layout it has.
std::vector<model::Curve> measure(Session& session, const TuneOptions& o, double seconds) {
  const InputFiles no_files;
  const std::unique_ptr<Scheme> releases = std::make_unique<Scheme>(load_terse(), "int8");
  Run ranks = session.run_of(find_collective("all_reduce"), releases.get(), no_files);
  ranks.buffer_bytes = o.perf.max_bytes;
  std::vector<model::Curve> curves;
  session.on_ranks(
      &ranks, [] {},
      [&](int thread) {
        std::vector<model::Curve> own = Tuner(session, ranks, o, thread).measure(seconds);
        if (thread == 0) curves = std::move(own);
      });
  return curves;
}

// Each node's ranks from now on are a group of their own, and all of these measure at once. Not
// where some nodes have more ranks than others, for all go the same way.
bool go_within_nodes(Session& session) {
  const std::vector<std::vector<int>> nodes = processes_of_nodes(session.sites);
  const auto is_like_first = [&](const auto& node) { return node.size() == nodes[0].size(); };
  if (!std::ranges::all_of(nodes, is_like_first)) {
    if (session.is_first())
      std::fprintf(stderr,
                   "%s: some nodes have more ranks than others: links within nodes are not "
                   "measured, and taken for as slow as those between\n",
                   kTuneProgram);
    return false;
  }
  const int process = session.rendezvous.process();
  const auto own = std::ranges::find_if(
      nodes, [&](const auto& node) { return std::ranges::count(node, process) != 0; });
  session.group = gather_groups(&session.rendezvous, static_cast<int>(own - nodes.begin()));
  const int ranks = session.nranks();
  session.layout = {1, ranks};
  session.say(fmt::format("# within each node, of {} ranks:\n", ranks));
  return true;
}

int tune(Session& session, const TuneOptions& o) {
  require_native();
  session.layout = layout_of(session.sites, session.options.ranks_per_process(), &Site::domain);
  if (session.layout.ranks < 2)
    throw std::runtime_error(
        "there is one rank, and nothing to send: start a process for each GPU, by torchrun, mpirun "
        "or srun, or ask for several ranks with -t");
  // Known before it takes its time.
  if (session.is_first() && !o.output.empty()) require_writable(o.output);
  constexpr double kPartWithinNodes = 0.35;
  const Layout layout = session.layout;
  std::vector<model::Curve> curves =
      measure(session, o, layout.shares_links() ? (1 - kPartWithinNodes) * o.seconds : o.seconds);
  if (layout.shares_links() && go_within_nodes(session))
    for (model::Curve& curve : measure(session, o, kPartWithinNodes * o.seconds))
      curves.push_back(std::move(curve));
  return session.is_first() ? write(o, layout, std::move(curves)) : 0;
}

}  // namespace
}  // namespace terse::perf

int main(int argc, char** argv) {
  using namespace terse::perf;
  TuneOptions options;
  if (const auto code = parse_tune(argc, argv, &options)) return *code;
  // With a profile a call that is predicted to be slow would be NCCL's own.
  setenv("TERSE_PROFILE", "none", 1);
  return run_program(kTuneProgram, options.perf,
                     [&](Session& session) { return tune(session, options); });
}
