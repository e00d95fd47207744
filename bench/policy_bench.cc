// The time that a call's decision takes: twenty rules, of which the last matches, the first, or
// none.
#include <benchmark/benchmark.h>

#include <string>

#include "policy/policy.h"

namespace {

using namespace terse;

Policy twenty_rules(const std::string& star) {
  std::string line;
  for (int i = 1; i < 20; ++i)
    line += "allreduce,reducescatter dtype=bf16,fp32 op=sum,avg ranks=2.. nodes=2.. name=" + star +
            "tp" + std::to_string(i) + "* bytes=1M.. -> int4; ";
  return parse_policy_line(line + "int8", 64 * 1024);
}

void decide(benchmark::State& state, const Facts& facts, const std::string& star) {
  const Policy policy = twenty_rules(star);
  for (auto _ : state) {
    benchmark::DoNotOptimize(&facts);
    benchmark::DoNotOptimize(policy.decide(facts));
  }
}

const Facts kLast{.collective = plan::Collective::kAllReduce,
                  .bytes = 64 << 20,
                  .dtype = ncclBfloat16,
                  .op = ncclAvg,
                  .ranks = 64,
                  .nodes = 8,
                  .name = "data-parallel-outer"};

Facts with(void (*change)(Facts&)) {
  Facts facts = kLast;
  change(facts);
  return facts;
}

BENCHMARK_CAPTURE(decide, last, kLast, "");
BENCHMARK_CAPTURE(decide, last_after_stars, kLast, "*");
BENCHMARK_CAPTURE(decide, first, with([](Facts& f) { f.name = "tp1-b"; }), "");
BENCHMARK_CAPTURE(decide, none, with([](Facts& f) { f.bytes = 1024; }), "");

}  // namespace

BENCHMARK_MAIN();
