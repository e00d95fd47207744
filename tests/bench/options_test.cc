#include "options.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace terse::perf {
namespace {

Parsed parse(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv = {"all_reduce_perf"};
  argv.insert(argv.end(), arguments);
  return parse_options("all_reduce_perf", static_cast<int>(argv.size()), argv.data());
}

TEST(Options, DefaultsAreThoseOfNcclTests) {
  const Options o = *parse({}).options;
  EXPECT_EQ(o.min_bytes, 32u << 20);
  EXPECT_EQ(o.max_bytes, 32u << 20);
  EXPECT_EQ(o.step_bytes, 1u << 20);
  EXPECT_EQ(o.iterations, 20);
  EXPECT_EQ(o.warmup, 1);
  EXPECT_EQ(o.check, 1);
  EXPECT_EQ(o.average, 1);
  EXPECT_EQ(o.data_kind(), InputKind::kExact);
  EXPECT_FALSE(o.shows_error());
}

TEST(Options, ShortAndLongNamesMeanTheSame) {
  const Options a =
      *parse({"-b", "8", "-e", "64M", "-f", "2",   "-n", "5",    "-w", "3", "-t", "2",
              "-g", "4", "-c", "0",   "-o", "avg", "-d", "half", "-m", "2", "-N", "3",
              "-a", "3", "-z", "1",   "-y", "1",   "-T", "9",    "-C", "1", "-S", "1",
              "-R", "2", "-I", "1",   "-u", "1",   "-p", "1",    "-r", "0", "-J", "x"})
           .options;
  const Options b = *parse({"--minbytes",
                            "8",
                            "--maxbytes",
                            "64M",
                            "--stepfactor",
                            "2",
                            "--iters",
                            "5",
                            "--warmup_iters",
                            "3",
                            "--nthreads",
                            "2",
                            "--ngpus",
                            "4",
                            "--check",
                            "0",
                            "--op",
                            "avg",
                            "--datatype",
                            "half",
                            "--agg_iters",
                            "2",
                            "--run_cycles",
                            "3",
                            "--average",
                            "3",
                            "--blocking",
                            "1",
                            "--stream_null",
                            "1",
                            "--timeout",
                            "9",
                            "--report_cputime",
                            "1",
                            "--report_timestamps",
                            "1",
                            "--local_register",
                            "2",
                            "--per_iter_timing",
                            "1",
                            "--unalign",
                            "1",
                            "--parallel_init",
                            "1",
                            "--root",
                            "0",
                            "--output_file",
                            "x"})
                         .options;
  for (const Options* o : {&a, &b}) {
    EXPECT_EQ(o->min_bytes, 8u);
    EXPECT_EQ(o->max_bytes, 64u << 20);
    EXPECT_EQ(o->step_factor, 2);
    EXPECT_EQ(o->iterations, 5);
    EXPECT_EQ(o->warmup, 3);
    EXPECT_EQ(o->ranks_per_process(), 8);
    EXPECT_EQ(o->check, 0);
    EXPECT_EQ(o->op, "avg");
    EXPECT_EQ(o->datatype, "half");
    EXPECT_EQ(o->aggregate, 2);
    EXPECT_EQ(o->cycles, 3);
    EXPECT_EQ(o->average, 3);
    EXPECT_EQ(o->blocking, 1);
    EXPECT_EQ(o->null_stream, 1);
    EXPECT_EQ(o->timeout, 9);
    EXPECT_EQ(o->report_cpu_time, 1);
    EXPECT_EQ(o->report_timestamps, 1);
    EXPECT_EQ(o->registration, 2);
    EXPECT_EQ(o->per_iteration, 1);
    EXPECT_EQ(o->unalign, 1);
    EXPECT_EQ(o->parallel_init, 1);
    EXPECT_EQ(o->json, "x");
  }
}

TEST(Options, BadOnesAreUsageErrorsThatNameThem) {
  const std::initializer_list<const char*> bad[] = {{"-b", "64M", "-e", "8"},
                                                    {"-b", "1X"},
                                                    {"-n", "0"},
                                                    {"-d", "float32"},
                                                    {"-o", "average"},
                                                    {"--no-such"},
                                                    {"-t", "0"},
                                                    {"-n", "ten"},
                                                    {"-f", "2", "-b", "0"},
                                                    {"-i", "0", "-b1"},
                                                    {"--data", "x"},
                                                    {"-K", "20"},
                                                    {"-a", "4"},
                                                    {"--input", "x", "--data", "gauss"}};
  for (const auto& arguments : bad) {
    const Parsed parsed = parse(arguments);
    EXPECT_FALSE(parsed.options.has_value()) << *arguments.begin();
    EXPECT_EQ(parsed.exit_code, kExitUsage);
    EXPECT_NE(parsed.text.find("all_reduce_perf: "), std::string::npos);
  }
}

TEST(Options, GraphsAreRefused) {
  const Parsed parsed = parse({"-G", "1"});
  EXPECT_EQ(parsed.exit_code, kExitUsage);
  EXPECT_NE(parsed.text.find("graphs"), std::string::npos);
  EXPECT_TRUE(parse({"-G", "0"}).options.has_value());
}

TEST(Options, RootsAreARankOrAll) {
  EXPECT_EQ(parse({}).options->root, 0);
  EXPECT_EQ(parse({"-r", "3"}).options->root, 3);
  for (const char* each : {"all", "-1"}) {
    EXPECT_EQ(parse({"-r", each}).options->root, Options::kEachRoot);
  }
  for (const char* bad : {"-2", "one", "1x", ""}) {
    EXPECT_EQ(parse({"-r", bad}).exit_code, kExitUsage) << bad;
  }
}

TEST(Options, TheLastOfSeveralCounts) {
  EXPECT_EQ(parse({"-n", "3", "-n", "7", "-b1K", "-b", "2K"}).options->iterations, 7);
  EXPECT_EQ(parse({"-b1K", "-b", "2K"}).options->min_bytes, 2048u);
}

TEST(Options, HelpNamesEveryOption) {
  const Parsed parsed = parse({"--help"});
  EXPECT_EQ(parsed.exit_code, 0);
  for (const char* name : {"--minbytes", "--stepfactor", "--datatype", "--scheme", "--input",
                           "--checksum", "--place", "--nccl", "--netdev", "--seed", "--data"}) {
    EXPECT_NE(parsed.text.find(name), std::string::npos) << name;
  }
}

TEST(Options, DataFollowsWhatIsMeasured) {
  EXPECT_EQ(parse({"-c", "0"}).options->data_kind(), InputKind::kGauss);
  EXPECT_EQ(parse({"--scheme", "int4"}).options->data_kind(), InputKind::kGauss);
  EXPECT_EQ(parse({"--scheme", "int4", "-c", "1"}).options->data_kind(), InputKind::kExact);
  EXPECT_EQ(parse({"--input", "x"}).options->data_kind(), InputKind::kFile);
  EXPECT_EQ(parse({"--data", "uniform"}).options->data_kind(), InputKind::kUniform);
  EXPECT_TRUE(parse({"--scheme", "int4"}).options->shows_error());
  EXPECT_TRUE(parse({"--input", "x"}).options->shows_error());
  EXPECT_TRUE(parse({"--data", "gauss", "-c", "0"}).options->shows_error());
  EXPECT_FALSE(parse({"-c", "0"}).options->shows_error());
}

TEST(WithoutNccl, RemovesTheOptionInBothSpellings) {
  const std::vector<std::string> kept = {"p", "-n", "1"};
  EXPECT_EQ(without_nccl({"p", "--nccl", "/x", "-n", "1"}), kept);
  EXPECT_EQ(without_nccl({"p", "-n", "1", "--nccl=/x"}), kept);
}

}  // namespace
}  // namespace terse::perf
