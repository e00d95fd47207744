#include "tune_options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <utility>

#include "base/error.h"
#include "engine/comm/chooser.h"
#include "policy/automatic.h"
#include "result.h"
#include "size.h"

namespace terse::perf {
namespace {

const TunedKind kKinds[] = {
    {"allreduce", find_collective("all_reduce"), plan::Collective::kAllReduce},
    {"allgather", find_collective("all_gather"), plan::Collective::kAllGather},
    {"reducescatter", find_collective("reduce_scatter"), plan::Collective::kReduceScatter}};

constexpr TunedType kTypes[] = {{"float32", "float", codec::Dtype::kFloat32},
                                {"bfloat16", "bfloat16", codec::Dtype::kBfloat16},
                                {"float16", "half", codec::Dtype::kFloat16}};

template <class Entry, std::size_t n>
CLI::IsMember one_of(const Entry (&table)[n]) {
  std::vector<std::string> names;
  for (const Entry& entry : table) names.emplace_back(entry.name);
  return CLI::IsMember(names);
}

std::size_t read_size(const std::string& text, const char* option) {
  try {
    return parse_size(text);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(option, error.what());
  }
}

// What is named more than once is measured once.
void leave_out_repeats(std::vector<std::string>* names) {
  std::vector<std::string> kept;
  for (const std::string& name : *names)
    if (std::ranges::find(kept, name) == kept.end()) kept.push_back(name);
  *names = std::move(kept);
}

// A format by its name alone, with the rounding that is asked for.
std::string whole_scheme(const std::string& format, const std::string& round) {
  if (format.find(':') != std::string::npos)
    throw CLI::ValidationError("--schemes", format + ": formats without options, such as int8");
  const terse::Scheme scheme = parse_scheme(format + ":round=" + round);
  if (scheme.automatic || scheme.off)
    throw CLI::ValidationError("--schemes", format + " names no format");
  return short_name(scheme);
}

}  // namespace

const TunedKind& tuned_kind(const std::string& name) {
  return *std::ranges::find(kKinds, name, &TunedKind::name);
}

const TunedType& tuned_type(const std::string& name) {
  return *std::ranges::find(kTypes, name, &TunedType::name);
}

std::optional<int> parse_tune(int argc, char** argv, TuneOptions* o) {
  CLI::App app(
      "Measures native and compressed collectives on the ranks of a job, and writes a profile for "
      "TERSE_PROFILE.",
      kTuneProgram);
  o->perf.min_bytes = 64 << 10;
  o->perf.max_bytes = 64 << 20;
  app.add_option("-o,--output", o->output, "file of the profile (default: standard output)");
  app.add_option("--name", o->name, "of the profile");
  app.add_option("--seconds", o->seconds, "that it may take, roughly (60)")
      ->check(CLI::Range(1.0, 86400.0));
  app.add_option("--schemes", o->schemes, "to measure beside native (bf16,int8,int6,int4,linear8)")
      ->delimiter(',');
  app.add_option("--round", o->round, "their rounding (nearest)")
      ->check(CLI::IsMember({"nearest", "stochastic"}));
  app.add_option("--collectives", o->collectives, "(allreduce,allgather,reducescatter)")
      ->delimiter(',')
      ->check(one_of(kKinds));
  app.add_option("--dtypes", o->types, "(float32,bfloat16); one of 16 bits stands for the other")
      ->delimiter(',')
      ->check(one_of(kTypes));
  app.add_option_function<std::string>(
      "-b,--minbytes", [&](const std::string& t) { o->perf.min_bytes = read_size(t, "-b"); },
      "smallest message (64K)");
  app.add_option_function<std::string>(
      "-e,--maxbytes", [&](const std::string& t) { o->perf.max_bytes = read_size(t, "-e"); },
      "largest message (64M)");
  app.add_option("-t,--nthreads", o->perf.threads, "ranks of each process, as threads (1)")
      ->check(CLI::Range(1, 1024));
  app.add_option("-T,--timeout", o->perf.timeout, "seconds without progress until it ends (300)");
  app.add_option("--nccl", o->perf.nccl, "use this NCCL");
  app.footer(
      "A process for each GPU, started by torchrun, mpirun or srun:\n"
      "  mpirun -n 8 terse tune -o profile.toml\n"
      "Exit code: 0 good, 1 a failure, 2 a bad command line.");
  try {
    app.parse(argc, argv);
    if (o->perf.min_bytes == 0 || o->perf.min_bytes > o->perf.max_bytes)
      throw CLI::ValidationError("--minbytes", "must be from 1 to --maxbytes");
    for (std::string& scheme : o->schemes) scheme = whole_scheme(scheme, o->round);
    for (auto* names : {&o->schemes, &o->collectives, &o->types}) leave_out_repeats(names);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return std::fputs(app.help().c_str(), stdout), 0;
    std::fprintf(stderr, "%s: %s\nTry %s --help.\n", kTuneProgram, error.what(), kTuneProgram);
    return kExitUsage;
  } catch (const terse::Error& error) {
    std::fprintf(stderr, "%s: --schemes: %s\n", kTuneProgram, error.what());
    return kExitUsage;
  }
  o->perf.data = InputKind::kGauss;
  o->perf.check = 0;
  o->perf.command_line.assign(argv, argv + argc);
  return {};
}

}  // namespace terse::perf
