#include "options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <charconv>
#include <map>
#include <stdexcept>
#include <utility>

#include "size.h"
#include "types.h"

namespace terse::perf {
namespace {

const std::map<std::string, InputKind> kDataNames = {
    {"exact", InputKind::kExact}, {"gauss", InputKind::kGauss}, {"uniform", InputKind::kUniform}};

void add_size(CLI::App& app, const std::string& name, std::size_t* size, const std::string& help) {
  app.add_option_function<std::string>(
         name,
         [size, name](const std::string& text) {
           try {
             *size = parse_size(text);
           } catch (const std::invalid_argument& error) {
             throw CLI::ValidationError(name, error.what());
           }
         },
         help)
      ->type_name("SIZE");
}

int read_root(const std::string& text) {
  if (text == "all" || text == "-1") return Options::kEachRoot;
  int root = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, root);
  if (error == std::errc() && rest == end && root >= 0) return root;
  throw CLI::ValidationError("--root", "'" + text + "' is not a rank, nor all");
}

void add_sweep(CLI::App& app, Options* o) {
  add_size(app, "-b,--minbytes", &o->min_bytes, "smallest size (32M)");
  add_size(app, "-e,--maxbytes", &o->max_bytes, "largest size (32M)");
  add_size(app, "-i,--stepbytes", &o->step_bytes, "difference of two sizes (1M)");
  app.add_option("-f,--stepfactor", o->step_factor, "ratio of two sizes, instead of -i")
      ->check(CLI::Range(0, 1 << 20));
}

void add_ranks(CLI::App& app, Options* o) {
  app.add_option("-t,--nthreads", o->threads, "threads a process (1)")->check(CLI::Range(1, 1024));
  app.add_option("-g,--ngpus", o->ranks_per_thread, "ranks a thread (1)")
      ->check(CLI::Range(1, 1024));
  app.add_option("-p,--parallel_init", o->parallel_init, "threads create their communicators")
      ->check(CLI::Range(0, 1));
}

void add_timing(CLI::App& app, Options* o) {
  const auto count = CLI::Range(0, 1 << 30);
  app.add_option("-n,--iters", o->iterations, "timed iterations (20)")
      ->check(CLI::Range(1, 1 << 30));
  app.add_option("-m,--agg_iters", o->aggregate, "operations in one group (1)")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option("-w,--warmup_iters", o->warmup, "warm-up iterations (1)")->check(count);
  app.add_option("-N,--run_cycles", o->cycles, "repeat the whole sweep; 0: for ever (1)")
      ->check(count);
  app.add_option("-a,--average", o->average, "time: 0 rank 0's, 1 mean, 2 min, 3 max (1)")
      ->check(CLI::Range(0, 3));
  app.add_option("-z,--blocking", o->blocking,
                 "wait after each operation: 1 and barrier, 2 no barrier, 3 after each iteration")
      ->check(CLI::Range(0, 3));
  app.add_option("-I,--per_iter_timing", o->per_iteration, "columns i_min i_max i_p99 i_cv%")
      ->check(CLI::Range(0, 1));
  app.add_option("-K,--per_iter_skip", o->per_iteration_skip, "first samples left out of -I")
      ->check(count);
}

void add_operation(CLI::App& app, Options* o) {
  app.add_option("-o,--op", o->op, "sum prod max min avg mulsum all (sum)");
  app.add_option("-d,--datatype", o->datatype,
                 "int8 uint8 int32 uint32 int64 uint64 half float double bfloat16 f8e4m3 f8e5m2 "
                 "all (float)");
  app.add_option_function<std::string>(
         "-r,--root", [o](const std::string& text) { o->root = read_root(text); },
         "of collectives that have one; all: one after the other (0)")
      ->type_name("RANK");
  app.add_option("-c,--check", o->check, "check this many iterations; 0: none (1)")
      ->check(CLI::Range(0, 1 << 20))
      ->each([o](const std::string&) { o->check_given = true; });
}

void add_environment(CLI::App& app, Options* o) {
  app.add_option("-y,--stream_null", o->null_stream, "use the null stream")
      ->check(CLI::Range(0, 1));
  app.add_option("-T,--timeout", o->timeout,
                 "seconds without progress until the run is ended; "
                 "0: never (300)")
      ->check(CLI::Range(0, 1 << 20));
  app.add_option("-G,--cudagraph", o->graph, "launches of a captured graph: 0, no others");
  app.add_option("-x,--cta_policy", o->cta_policy,
                 "of the communicators: 0 default, 1 efficiency, 2 zero (not set)")
      ->check(CLI::Range(0, 2));
  app.add_option("-D,--device_implementation", o->device_implementation,
                 "kernels of nccl-tests' own: 0, no others");
  app.add_option("-V,--device_cta_count", o->device_ctas, "of these kernels (16)")
      ->check(CLI::Range(1, 128));
  app.add_option("-R,--local_register", o->registration, "register buffers: 1 local, 2 symmetric")
      ->check(CLI::Range(0, 2));
  app.add_option("-u,--unalign", o->unalign, "start buffers at this element")
      ->check(CLI::Range(0, 4096));
}

void add_report(CLI::App& app, Options* o) {
  app.add_option("-C,--report_cputime", o->report_cpu_time, "time: until the calls have returned")
      ->check(CLI::Range(0, 1));
  app.add_option("-S,--report_timestamps", o->report_timestamps, "a column with the time of day")
      ->check(CLI::Range(0, 1));
  app.add_option("-J,--output_file", o->json, "write the results here too, as JSON");
  app.add_option("-M,--memory", o->memory_report, "say how much memory it took")
      ->check(CLI::Range(0, 1));
}

void add_own(CLI::App& app, Options* o) {
  const std::string group = "Beyond nccl-tests";
  app.add_option("--scheme", o->scheme,
                 "call libterse with this scheme (e.g. int4); adds columns: how many times fewer "
                 "bytes, and the relative L2 error")
      ->group(group);
  app.add_option("--input", o->input,
                 "file of little-endian fp32 that each rank sends, {rank} standing for its "
                 "number; the size is the file's; adds the error column")
      ->group(group);
  app.add_option_function<std::string>(
         "--data", [o](const std::string& name) { o->data = kDataNames.at(name); },
         "what is sent: exact (integers, for #wrong), gauss, uniform (exact with -c, else gauss)")
      ->check(CLI::IsMember(kDataNames))
      ->type_name("KIND")
      ->group(group);
  app.add_option("--seed", o->seed, "of the data (0)")->group(group);
  app.add_flag("--checksum", o->checksum,
               "print a checksum of each rank's output, and fail where ranks should agree and do "
               "not")
      ->group(group);
  app.add_option("--place", o->place, "measure out of place, in place, or both (both)")
      ->check(CLI::IsMember({"out", "in", "both"}))
      ->type_name("WHICH")
      ->group(group);
  app.add_option("--nccl", o->nccl, "use this NCCL: a library, or a directory with libnccl.so.2")
      ->group(group);
  app.add_option("--netdev", o->netdev,
                 "count the bytes sent through this network interface; adds a column: bytes a "
                 "call and node, which all its ranks send")
      ->group(group);
}

// What no single option can see. Throws CLI::ValidationError.
void validate(const Options& o) {
  if (o.min_bytes > o.max_bytes) {
    throw CLI::ValidationError("--minbytes", "is more than --maxbytes");
  }
  if (o.step_factor <= 1 && o.step_bytes == 0 && o.max_bytes > o.min_bytes) {
    throw CLI::ValidationError("--stepbytes", "0 would never reach --maxbytes");
  }
  if (o.step_factor > 1 && o.min_bytes == 0) {
    throw CLI::ValidationError("--stepfactor", "cannot start from 0 bytes");
  }
  if (o.graph > 0) {
    throw CLI::ValidationError("--cudagraph", "these programs do not capture graphs");
  }
  if (o.device_implementation != 0) {
    throw CLI::ValidationError("--device_implementation",
                               "these programs have no kernels of their own: they time NCCL's "
                               "calls, which is 0");
  }
  if (o.per_iteration_skip >= o.iterations) {
    throw CLI::ValidationError("--per_iter_skip", "leaves no iteration");
  }
  if (!o.input.empty() && o.data.has_value()) {
    throw CLI::ValidationError("--input", "excludes --data");
  }
  try {
    if (o.datatype != "all") find_data_type(o.datatype);
    if (o.op != "all") find_operation(o.op);
  } catch (const std::invalid_argument& error) {
    throw CLI::ValidationError(error.what(), "");
  }
}

}  // namespace

InputKind Options::data_kind() const {
  if (!input.empty()) return InputKind::kFile;
  if (data.has_value()) return *data;
  // A lossy scheme is measured by its error on numbers like those of a training, not by #wrong.
  if (!scheme.empty() && !check_given) return InputKind::kGauss;
  return check > 0 ? InputKind::kExact : InputKind::kGauss;
}

bool Options::shows_error() const {
  return !scheme.empty() || !input.empty() || data.value_or(InputKind::kExact) != InputKind::kExact;
}

Parsed parse_options(const std::string& program, int argc, const char* const* argv) {
  Options options;
  CLI::App app(
      "Times " + program.substr(0, program.rfind("_perf")) + " as nccl-tests does, over any NCCL.",
      program);
  app.set_help_flag("-h,--help", "print this text and exit");
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);  // as getopt
  add_sweep(app, &options);
  add_ranks(app, &options);
  add_timing(app, &options);
  add_operation(app, &options);
  add_environment(app, &options);
  add_report(app, &options);
  add_own(app, &options);
  app.footer(
      "Under a preloaded library that compresses, use -c 0: #wrong is about exact results.\n"
      "Several processes find each other by RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, or by\n"
      "what mpirun and srun set. nccl-tests' NCCL_TESTS_SPLIT, _SPLIT_MASK, _DEVICE, _MIN_BW and\n"
      "_ALLTOALLV_* count here too. Exit code: 0 good, 1 a failure or wrong results, 2 a bad\n"
      "command line.");
  try {
    app.parse(argc, argv);
    validate(options);
  } catch (const CLI::CallForHelp&) {
    return {std::nullopt, 0, app.help()};
  } catch (const CLI::ParseError& error) {
    return {std::nullopt, kExitUsage,
            program + ": " + error.what() + "\nTry " + program + " --help.\n"};
  }
  options.command_line.assign(argv, argv + argc);
  return {std::move(options), 0, ""};
}

std::vector<std::string> without_nccl(const std::vector<std::string>& command_line) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < command_line.size(); ++i) {
    if (command_line[i] == "--nccl") {
      ++i;
    } else if (command_line[i].rfind("--nccl=", 0) != 0) {
      kept.push_back(command_line[i]);
    }
  }
  return kept;
}

}  // namespace terse::perf
