// What a call costs on a GPU, beside what NCCL does for it: from the second of its kind on, and if
// it is not timed, which takes two events a step more.
//
// docs/GPU.md has these numbers as a table. After a deliberate change of them here
//
//     TERSE_BLESS=1 build/host/bin/cuda_test --gtest_filter='CallCosts.*'
//
// writes it anew.
#include "call_cost.h"

#include <gtest/gtest.h>

#include "device.h"
#include "document_table.h"
#include "engine/call/route.h"
#include "engine/run/work.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

// Ranks that a row is of.
enum class Who { kAll, kRoot, kOthers };

// A call of fp32 elements, whose message has so many bytes in all.
struct Conditions {
  int ranks = 4, nodes = 1;
  size_t bytes = size_t{1} << 20, chunks = 1;
  Who who = Who::kAll;

  size_t elements() const { return bytes / sizeof(float); }
  bool is_of(int rank) const { return who == Who::kAll || (who == Who::kRoot) == (rank == 0); }
};

struct Kind {
  plan::Collective collective;
  const char* plan;  // its name
};
constexpr Kind kNative{Collective::kAllReduce, "native AllReduce"},
    kOneShot{Collective::kAllReduce, "one-shot AllReduce"},
    kTwoShot{Collective::kAllReduce, "two-shot AllReduce"},
    kHierarchical{Collective::kAllReduce, "hierarchical AllReduce"},
    kReduceScatter{Collective::kReduceScatter, "ReduceScatter"},
    kAllGather{Collective::kAllGather, "AllGather"}, kAllToAll{Collective::kAllToAll, "AllToAll"},
    kReduce{Collective::kReduce, "two-shot Reduce"},
    kBroadcast{Collective::kBroadcast, "shared Broadcast"};
constexpr const char *kInt8 = "int8", *kInt8Stochastic = "int8:round=stochastic",
                     *kInt4 = "int4:intra=int8",
                     *kInt4Stochastic = "int4:intra=int8,round=stochastic";

struct Row {
  Kind kind;
  const char* scheme;
  Conditions conditions;
  CallCost cost;
};

// Launches, NCCL's groups, events recorded, waits for events, streams, bytes read and written.
constexpr Row kRows[] = {
    {kNative, "off", {.ranks = 2, .bytes = 32 << 10}, {0, 1, 0, 0, 1, {0, 0}}},
    // Writes its header and encodes; exchanges both; checks the other's header and sums. All of it
    // on the caller's stream, which waits for the call before, and for which a lane waits in the
    // end.
    {kOneShot, kInt8, {.ranks = 2, .bytes = 32 << 10}, {4, 1, 1, 2, 2, {53'248, 41'312}}},
    // All that contribute to the only sum share its draws.
    {kOneShot, kInt8Stochastic, {.ranks = 2, .bytes = 32 << 10}, {4, 1, 1, 2, 2, {53'248, 41'312}}},
    // Decodes in the end.
    {kTwoShot, kInt8, {}, {5, 2, 1, 2, 2, {1'582'080, 1'319'072}}},
    // What is encoded after the sum has draws of its own: a kernel makes a check of it for them.
    {kTwoShot, kInt8Stochastic, {}, {6, 2, 1, 2, 2, {1'664'000, 1'319'328}}},
    {kTwoShot, kInt8, {.ranks = 8}, {5, 2, 1, 2, 2, {1'618'944, 1'319'200}}},
    // Each phase has a stream, and steps wait for those of others.
    {kTwoShot, kInt8, {.chunks = 4}, {14, 6, 17, 25, 4, {1'598'464, 1'319'072}}},
    {kTwoShot, kInt8Stochastic, {.chunks = 4}, {15, 6, 17, 25, 4, {1'680'384, 1'319'328}}},
    {kHierarchical, kInt8, {.nodes = 2}, {7, 4, 1, 2, 2, {1'656'832, 1'386'624}}},
    {kHierarchical, kInt8Stochastic, {.nodes = 2}, {8, 4, 1, 2, 2, {1'771'520, 1'386'880}}},
    {kHierarchical, kInt8, {.ranks = 8, .nodes = 2}, {7, 4, 1, 2, 2, {1'656'832, 1'352'896}}},
    // A kernel knows one format: sums from one to the other go through memory.
    {kHierarchical, kInt4, {.nodes = 2}, {8, 4, 1, 2, 2, {2'131'968, 1'947'776}}},
    {kHierarchical, kInt4Stochastic, {.nodes = 2}, {9, 4, 1, 2, 2, {2'213'888, 1'948'032}}},
    {kReduceScatter, kInt8, {}, {4, 1, 1, 2, 2, {1'278'976, 465'056}}},
    {kReduceScatter, kInt8Stochastic, {}, {4, 1, 1, 2, 2, {1'278'976, 465'056}}},
    {kAllGather, kInt8, {}, {4, 1, 1, 2, 2, {574'464, 1'116'320}}},
    {kAllGather, kInt8Stochastic, {}, {5, 1, 1, 2, 2, {967'680, 1'118'368}}},
    // Copies its own shard.
    {kAllToAll, kInt8, {}, {5, 1, 1, 2, 2, {1'287'168, 1'251'488}}},
    // What the root receives last need not wait for its own sum: no chain.
    {kReduce, kInt8, {.who = Who::kRoot}, {5, 2, 6, 14, 4, {1'582'080, 1'319'072}}},
    {kReduce, kInt8, {.who = Who::kOthers}, {4, 2, 1, 2, 2, {1'270'784, 270'496}}},
    {kReduce, kInt8Stochastic, {.who = Who::kRoot}, {6, 2, 6, 14, 4, {1'664'000, 1'319'328}}},
    {kReduce, kInt8Stochastic, {.who = Who::kOthers}, {5, 2, 1, 2, 2, {1'352'704, 270'752}}},
    {kBroadcast, kInt8, {.who = Who::kRoot}, {3, 1, 6, 15, 4, {1'359'872, 1'318'976}}},
    {kBroadcast, kInt8, {.who = Who::kOthers}, {4, 2, 1, 2, 2, {313'344, 1'048'736}}},
    {kBroadcast, kInt8Stochastic, {.who = Who::kRoot}, {4, 1, 7, 16, 4, {1'458'176, 1'319'232}}},
    {kBroadcast, kInt8Stochastic, {.who = Who::kOthers}, {4, 2, 1, 2, 2, {313'344, 1'048'736}}},
};

std::string describe(const Row& row) {
  const auto& [ranks, nodes, bytes, chunks, who] = row.conditions;
  std::string text = row.kind.plan;
  if (bytes != Conditions{}.bytes) text += fmt::format(", {} KiB", bytes >> 10);
  if (chunks > 1) text += fmt::format(", {} chunks", chunks);
  if (who != Who::kAll) text += who == Who::kRoot ? ": root" : ": others";
  return text;
}

Call call_of(const Row& row) {
  Call call{.collective = row.kind.collective, .scheme = parse_scheme(row.scheme)};
  const plan::Traits& traits = plan::traits(row.kind.collective);
  const bool by_shards = traits.send.per_rank || traits.recv.per_rank;
  call.count = row.conditions.elements() / (by_shards ? row.conditions.ranks : 1);
  return call;
}

Settings settings_of(const Conditions& conditions, int rank) {
  Settings own = settings();
  own.chunk_bytes = conditions.chunks == 1 ? 0 : conditions.bytes / conditions.chunks;
  own.node = fmt::format("node {}", rank * conditions.nodes / conditions.ranks);
  own.meter = 0;
  return own;
}

std::string plan_of(const Request& request, const Scheme& scheme, ncclComm_t comm) {
  const CommunicatorPointer c = communicator(comm);
  const Job job{c.get(), request, route(*c, request, scheme)};
  if (job.is_native()) return fmt::format("native {}", plan::name(request.collective));
  return plan_of_collective(job)->algorithm;
}

void expect_cost(const Row& row) {
  const Call call = call_of(row);
  run_ranks(row.conditions.ranks, [&](int rank, ncclComm_t comm) {
    must(cudaSetDevice(rank));
    const Settings own = settings_of(row.conditions, rank);  // which the communicator refers to
    terse::communicator(comm, own);
    const DeviceStream stream;
    const DeviceMemory in(row.conditions.bytes), out(row.conditions.bytes);
    const Request request = request_of(call, in.get(), out.get(), stream.get());
    const auto enqueue = [&] {
      submit(comm, request, call.scheme);
      stream.synchronize();
    };
    enqueue();
    const CallCost cost = cost_of(enqueue);
    EXPECT_EQ(plan_of(request, call.scheme, comm), row.kind.plan);
    if (row.conditions.is_of(rank)) {
      EXPECT_EQ(cost, row.cost) << describe(row) << ", " << row.scheme << ", rank " << rank;
    }
    release_communicator(comm, false);
  });
}

TEST(CallCosts, AreTheseFromTheSecondCallOn) {
  for (const Row& row : kRows) expect_cost(row);
}

std::string table() {
  std::string text =
      "| call | scheme | ranks | launches | groups | records | waits | streams | read | written |\n"
      "|---|---|---|---|---|---|---|---|---|---|\n";
  for (const Row& row : kRows) {
    const auto& [ranks, nodes, bytes, chunks, who] = row.conditions;
    const double elements = static_cast<double>(row.conditions.elements());
    const CallCost& c = row.cost;
    text += fmt::format(
        "| {} | `{}` | {} | {} | {} | {} | {} | {} | {:.2f} | {:.2f} |\n", describe(row),
        row.scheme,
        nodes == 1 ? fmt::format("{}", ranks) : fmt::format("{} x {}", nodes, ranks / nodes),
        c.launches, c.groups, c.records, c.waits, c.streams,
        static_cast<double>(c.traffic.read) / elements,
        static_cast<double>(c.traffic.written) / elements);
  }
  return text;
}

TEST(CallCosts, AreTheTableOfTheDocument) {
  expect_table("GPU.md", "tests/cuda/call_cost_test.cc", table());
}

}  // namespace
}  // namespace terse::test
