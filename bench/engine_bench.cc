// What a compressed call costs its thread after the first one, before NCCL and the codec: deciding
// and planning; and with laying out, which goes by the chunks. NCCL and the backend do nothing
// here.
#include <benchmark/benchmark.h>

#include "engine/call/group.h"
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
  Request request{.collective = plan::Collective::kAllReduce,
                  .send = data,
                  .recv = data,
                  .comm = reinterpret_cast<ncclComm_t>(data)};
};

void decide_and_plan(benchmark::State& state) {
  Caller caller(static_cast<size_t>(state.range(0)));
  for (auto _ : state) {
    const Route way = route(caller.c.state, caller.request, caller.scheme);
    const Job job{&caller.c.state, caller.request, way.scheme, way.rule, way.reduction, false};
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

}  // namespace
}  // namespace terse::test

BENCHMARK_MAIN();
