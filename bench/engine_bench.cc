// What a compressed call costs its thread after the first one, before NCCL and the codec: deciding,
// planning, laying out. NCCL and the backend do nothing here.
#include <benchmark/benchmark.h>

#include "engine/group.h"
#include "engine/route.h"
#include "idle.h"

namespace terse::test {
namespace {

// By the size of an AllReduce in bytes, and the calls in a group.
void calls(benchmark::State& state) {
  const Scheme scheme = parse_scheme("int8");
  IdleCommunicator c(scheme);
  float data[1] = {};
  Request request{.collective = plan::Collective::kAllReduce,
                  .send = data,
                  .recv = data,
                  .count = static_cast<size_t>(state.range(0)) / sizeof(float),
                  .comm = reinterpret_cast<ncclComm_t>(data)};
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
