// What a compressed call costs its thread, before NCCL and the codec: its plan, built once; and,
// each time, deciding, finding the plan and laying it out, which goes by the chunks. NCCL and the
// backend do nothing here.
#include <benchmark/benchmark.h>

#include "engine/call/jobs.h"
#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "engine/run/work.h"
#include "idle.h"

namespace terse::test {
namespace {

// An AllReduce of so many bytes.
struct Caller {
  explicit Caller(size_t bytes) { request.count = bytes / sizeof(float); }

  const Scheme scheme = parse_scheme("int8");
  IdleCommunicator c{scheme};
  float data[1] = {};
  Request request{.collective = plan::Collective::kAllReduce, .send = data, .recv = data};
};

void decide_and_plan(benchmark::State& state) {
  Caller caller(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const Route way = route(caller.c.state, caller.request, caller.scheme);
    const Job job{&caller.c.state, caller.request, way};
    benchmark::DoNotOptimize(plan_of_collective(job).get());
  }
}
BENCHMARK(decide_and_plan)->ArgName("bytes")->Arg(4 << 10)->Arg(1 << 20)->Arg(64 << 20);

// By the size in bytes, and the calls in a group.
void calls(benchmark::State& state) {
  Caller caller(static_cast<size_t>(state.range(0)));
  auto& [scheme, c, data, request] = caller;
  for (auto _ : state) {
    if (state.range(1) > 1) group_start();
    for (int i = 0; i < state.range(1); ++i)
      submit(c.state, request, route(c.state, request, scheme));
    if (state.range(1) > 1) group_end();
  }
  state.counters["per call"] = benchmark::Counter(
      static_cast<double>(state.range(1)),
      benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}
BENCHMARK(calls)
    ->ArgNames({"bytes", "calls"})
    ->ArgsProduct({{4 << 10, 1 << 20, 64 << 20}, {1, 10}});

// By the ranges of 128 elements that stay exact, as norms do, in 64 MiB.
void calls_with_exclusions(benchmark::State& state) {
  Caller caller(64 << 20);
  auto& [scheme, c, data, request] = caller;
  const auto count = static_cast<size_t>(state.range(0));
  std::vector<plan::Range> ranges(count);
  for (size_t i = 0; i < count; ++i) ranges[i] = {i * (request.count / count), 128};
  c.state.routing().plans().exclude(request.count, std::move(ranges));
  for (auto _ : state) submit(c.state, request, route(c.state, request, scheme));
}
BENCHMARK(calls_with_exclusions)->ArgName("ranges")->Arg(0)->Arg(1)->Arg(100)->Arg(10'000);

// Ranks on nodes of eight.
plan::Topology nodes_of_eight(int ranks) {
  std::vector<uint64_t> hosts(static_cast<size_t>(ranks));
  for (size_t r = 0; r < hosts.size(); ++r) hosts[r] = r / 8;
  return plan::topology_of(hosts);
}

// By the ranks, and the size in bytes: two levels, built and validated.
void build(benchmark::State& state) {
  const auto ranks = static_cast<int>(state.range(0));
  Plans plans(3, ranks, plan::kHostChunks);
  const Scheme scheme = parse_scheme("int4");
  PlanKey key{.collective = plan::Collective::kAllReduce,
              .root = 0,
              .count = static_cast<size_t>(state.range(1)) / sizeof(float),
              .dtype = codec::Dtype::kFloat32,
              .forms = scheme.forms(),
              .algorithm = {},
              .verified = false};
  const plan::Topology topology = nodes_of_eight(ranks);
  for (auto _ : state) {
    state.PauseTiming();
    plans.learn(topology);  // and forget
    state.ResumeTiming();
    benchmark::DoNotOptimize(plans.of(key).get());
  }
}
BENCHMARK(build)->ArgNames({"ranks", "bytes"})->ArgsProduct({{16, 64, 1024}, {64 << 20}});

// The same calls, laid out.
void calls_in_two_levels(benchmark::State& state) {
  idle_ranks = static_cast<int>(state.range(0));
  Caller caller(static_cast<size_t>(state.range(1)));
  auto& [scheme, c, data, request] = caller;
  c.state.routing().plans().learn(nodes_of_eight(idle_ranks));
  for (auto _ : state) submit(c.state, request, route(c.state, request, scheme));
  idle_ranks = 8;
}
BENCHMARK(calls_in_two_levels)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{16, 64, 1024}, {64 << 20}});

}  // namespace
}  // namespace terse::test

BENCHMARK_MAIN();
