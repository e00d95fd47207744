// What is counted, timed and compared of known calls.
#include "engine/observe/meter.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstring>
#include <span>

#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/comm/shape.h"
#include "engine/run/call_native.h"
#include "metered.h"
#include "own_settings.h"
#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

// One rank's buffers for a call, of which some calls are compared.
struct Buffers {
  Buffers(const Call& call, int rank, int ranks, bool in_place)
      : send(send_count(call, ranks) * size(call)), recv(recv_count(call, ranks) * size(call)) {
    if (in_place) send.resize(std::max(send.size(), recv.size()));
    const size_t own = rank * call.count * size(call);
    in = send.data() + (in_place && call.collective == Collective::kAllGather ? own : 0);
    out = !in_place ? recv.data()
                    : send.data() + (call.collective == Collective::kReduceScatter ? own : 0);
  }
  static size_t size(const Call& call) { return datatype_size(call.datatype); }

  Bytes send, recv;
  char *in, *out;
};

float element(const char* data, size_t i, ncclDataType_t datatype) {
  const char* at = data + i * datatype_size(datatype);
  if (datatype == ncclFloat32) {
    float x;
    std::memcpy(&x, at, sizeof x);
    return x;
  }
  uint16_t bits;
  std::memcpy(&bits, at, sizeof bits);
  return datatype == ncclFloat16 ? codec::to_float(codec::half_t{bits})
                                 : codec::to_float(codec::bfloat_t{bits});
}

// The norms, computed plainly.
struct Norms {
  long double difference = 0, exact = 0, largest = 0;
  void add(const char* value, const Bytes& native, const Call& call) {
    for (size_t i = 0; i < native.size() / datatype_size(call.datatype); ++i) {
      const long double e = element(native.data(), i, call.datatype);
      const long double d = element(value, i, call.datatype) - e;
      difference += d * d;
      exact += e * e;
      largest = std::max(largest, std::fabs(d));
    }
  }
};

struct Case {
  Call call;
  int ranks;
  bool in_place, null_stream;
};

constexpr int kCalls = 5;  // the first is of a kind of its own
constexpr uint32_t kRule = 7;

void check_tally(const Tally& t, const Case& c, const Norms& norms, int rank, size_t compared,
                 double wall) {
  codec::Dtype dtype;
  compressible(c.call.datatype, &dtype);
  const plan::Shape shape = shape_of(c.call.scheme.forms(), c.call.count, codec::dtype_size(dtype),
                                     {.ranks = c.ranks, .rank = rank, .root = c.call.root},
                                     {chunk_policy_of(settings(), plan::kHostChunks), {}});
  const plan::Plan plan =
      plan::select(c.call.collective, shape, c.call.scheme.algorithm).algorithm->build(shape);
  EXPECT_EQ(t.kind.rule, kRule);
  EXPECT_EQ(t.kind.collective, c.call.collective);
  EXPECT_EQ(t.kind.scheme, c.call.scheme);
  EXPECT_EQ(t.calls, size_t{kCalls});
  EXPECT_EQ(t.sent.raw, plan::Traffic{kCalls * plan.raw_bytes});
  EXPECT_EQ(t.sent.wire, plan::Traffic{kCalls * plan.wire_bytes});

  EXPECT_EQ(t.timed, size_t{kCalls});
  for (const double phase : {t.times.encode, t.times.communicate, t.times.decode}) {
    if (!plan::traits(c.call.collective).rooted) {
      EXPECT_GT(phase, 0.0);
    }
    EXPECT_LE(phase, t.times.total);
  }
  EXPECT_LE(t.times.total, wall);

  // But for the first of either kind.
  EXPECT_EQ(t.both.calls, compared - 2);
  EXPECT_LE(t.both.native + t.both.compressed, wall);
  if (t.both.calls != 0) {
    EXPECT_GT(t.both.native, 0.0);
    EXPECT_GT(t.both.compressed, 0.0);
    EXPECT_LE(t.both.compressed, t.times.total) << "all calls are timed";
  }

  // Only where there is a result.
  EXPECT_EQ(t.relative.count(), plan.buffers.front().recv_bytes == 0 ? 0u : compared);
  EXPECT_EQ(t.difference.lost, 0u);
  EXPECT_EQ(t.difference.spread, 0u);
  if (plan::traits(c.call.collective).rooted && norms.difference == 0) {
    EXPECT_EQ(terse::relative_error(t.difference), 0.0);  // it has all exactly, or has no result
    return;
  }
  const double relative = static_cast<double>(std::sqrt(norms.difference / norms.exact));
  EXPECT_GT(relative, 1e-4);
  EXPECT_NEAR(terse::relative_error(t.difference) / relative, 1.0, 1e-6);
  EXPECT_NEAR(t.difference.largest / static_cast<double>(norms.largest), 1.0, 1e-6);
  EXPECT_GE(t.relative.greatest(), terse::relative_error(t.difference) * (1 - 1e-9));
}

// The errors one by one, in order.
void check_course(const Tally& t) {
  const DownsampledSeries& errors = t.errors;
  ASSERT_EQ(errors.points.size(), t.relative.count());
  double worst = 0;
  for (size_t i = 0; i < errors.points.size(); ++i) {
    const DownsampledSeries::Point& point = errors.points[i];
    EXPECT_EQ(point.count, 1u);
    EXPECT_EQ(point.sum, point.greatest);
    if (i > 0) {
      EXPECT_LT(errors.points[i - 1].at, point.at);
    }
    EXPECT_LT(point.at, uint64_t{kCalls});
    worst = std::max(worst, point.greatest);
  }
  EXPECT_EQ(worst, t.relative.greatest());
}

void check_case(const Case& c) {
  SCOPED_TRACE(fmt::format("{} type {} ranks {}{}{}", plan::name(c.call.collective),
                           static_cast<int>(c.call.datatype), c.ranks,
                           c.in_place ? " in place" : "", c.null_stream ? " null stream" : ""));
  run_ranks(c.ranks, [&](int rank, ncclComm_t comm) {
    const HostStream stream(c.null_stream), own(false);
    Norms norms;
    size_t compared = 0;
    const auto begin = std::chrono::steady_clock::now();
    for (int k = 0; k < kCalls; ++k) {
      Buffers b(c.call, rank, c.ranks, c.in_place);
      const Bytes data = gaussian(send_count(c.call, c.ranks), c.call.datatype, 100 * k + rank);
      std::ranges::copy(data, b.in);
      Bytes native(recv_count(c.call, c.ranks) * Buffers::size(c.call));
      const Request exact = request_of(c.call, data.data(), native.data(), own.get());
      ASSERT_EQ(ncclGroupStart(), ncclSuccess);
      ASSERT_EQ(call_native(*communicator(comm), exact), ncclSuccess);
      ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
      own.synchronize();
      const Request request = request_of(c.call, b.in, b.out, stream.get());
      Route way = route(*communicator(comm), request, c.call.scheme);
      way.rule = kRule;
      if (k == 0)
        submit(comm, request, c.call.scheme);
      else
        submit(*communicator(comm), request, way);
      stream.synchronize();
      if (k < 2 || is_compared(comm, k)) {
        ++compared;
        norms.add(b.out, native, c.call);
      }
      // The same bytes as without a comparison: the other calls have none.
      const std::vector<Bytes> sent = [&] {
        std::vector<Bytes> all;
        for (int r = 0; r < c.ranks; ++r)
          all.push_back(gaussian(send_count(c.call, c.ranks), c.call.datatype, 100 * k + r));
        return all;
      }();
      const Bytes want = expected(c.call, sent)[rank];
      ASSERT_TRUE(std::ranges::equal(want, std::span(b.out, want.size()))) << "call " << k;
    }
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    Communicator& mine = *communicator(comm);
    mine.memory().stream_sets().synchronize();
    mine.metrics().meter().collect();
    std::vector<Tally> tallies = mine.metrics().meter().tallies();
    // The first call named its scheme: a kind of its own.
    ASSERT_EQ(tallies.size(), 2u);
    for (const Tally& tally : tallies) check_course(tally);
    EXPECT_EQ(tallies[0].both.calls, 0u);
    EXPECT_EQ(tallies[0].kind.rule, kNoRule);
    EXPECT_EQ(tallies[0].calls, 1u);
    Tally all = tallies[1];
    all.calls += tallies[0].calls;
    all.sent += tallies[0].sent;
    all.timed += tallies[0].timed;
    all.times.total += tallies[0].times.total;
    all.times.encode += tallies[0].times.encode;
    all.times.communicate += tallies[0].times.communicate;
    all.times.decode += tallies[0].times.decode;
    all.relative.add(tallies[0].relative);
    codec::include(all.difference, tallies[0].difference);
    check_tally(all, c, norms, rank, compared, wall);
    release_communicator(comm, false);
  });
}

TEST(Meter, CountsTimesAndComparesEachKindOfCall) {
  const Scheme schemes[] = {parse_scheme("int8"), parse_scheme("int4:block=64,algo=twoshot"),
                            parse_scheme("minmax6:algo=oneshot")};
  int k = 0;
  for (const Collective collective :
       {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter})
    for (const bool in_place : {false, true})
      for (int ranks = 2; ranks <= 4; ++ranks, ++k) {
        static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
        check_case({{.collective = collective,
                     .scheme = schemes[k % 3],
                     .datatype = kTypes[k / 2 % 3],
                     .op = k % 2 ? ncclAvg : ncclSum,
                     .count = 5000u + 77 * k},
                    ranks,
                    in_place,
                    k % 4 == 0});
      }
}

TEST(Meter, ComparesWhatARootSendsOrGets) {
  int k = 0;
  for (const Collective collective :
       {Collective::kAllToAll, Collective::kBroadcast, Collective::kReduce, Collective::kGather,
        Collective::kScatter})
    for (int ranks = 2; ranks <= 4; ++ranks, ++k)
      check_case({{.collective = collective,
                   .scheme = parse_scheme(k % 2 ? "int8" : "minmax6:block=64"),
                   .op = k % 2 ? ncclAvg : ncclSum,
                   .count = 5000u + 77 * k,
                   .root = k % ranks},
                  ranks,
                  false,
                  k % 4 == 0});
}

// Calls of all ranks are compared by their own number, which messages of some ranks do not change.
TEST(Meter, MessagesAreCountedByTheirRuleAndNeverCompared) {
  constexpr size_t kCount = 4096;
  const Scheme scheme = parse_scheme("int8");
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    std::vector<float> data(kCount, 1.5f), other(kCount);
    const Request all{
        Collective::kAllReduce, data.data(), other.data(), kCount, ncclFloat32, ncclSum, nullptr};
    const auto message = [&](Collective collective, int peer) {
      const Request r{collective,  data.data(), other.data(), kCount,
                      ncclFloat32, ncclSum,     nullptr,      peer};
      Route way = route(*communicator(comm), r, scheme);
      way.rule = collective == Collective::kSend ? 3 : 4;
      submit(*communicator(comm), r, way);
    };
    for (int k = 0; k < 4; ++k) {
      submit(comm, all, scheme);
      if (rank == 2) continue;  // the third rank has no messages, and another count of calls
      if (k % 2 == 0) {
        group_start();
        message(Collective::kSend, 1 - rank);
        message(Collective::kRecv, 1 - rank);
        group_end();
      } else {
        message(rank == 0 ? Collective::kSend : Collective::kRecv, 1 - rank);
      }
    }
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const std::vector<Tally> tallies = mine.metrics().meter().tallies();
    ASSERT_EQ(tallies.size(), rank == 2 ? 1u : 3u);
    EXPECT_EQ(mine.metrics().counters().collectives(), 4u);
    EXPECT_EQ(mine.metrics().counters().sequence(), rank == 2 ? 4u : 8u);
    EXPECT_EQ(tallies[0].relative.count(), compared_of(comm, 4));
    for (size_t i = 1; i < tallies.size(); ++i) {
      const Tally& t = tallies[i];
      const bool send = t.kind.collective == Collective::kSend;
      EXPECT_EQ(t.kind.collective, send ? Collective::kSend : Collective::kRecv);
      EXPECT_EQ(t.kind.rule, send ? 3u : 4u);
      EXPECT_EQ(t.calls, (rank == 0) == send ? 4u : 2u);
      EXPECT_EQ(t.sent.raw.bytes, send ? t.calls * kCount * sizeof(float) : 0u);
      EXPECT_EQ(t.sent.wire.bytes, send ? t.calls * codec::body_size(scheme.spec, kCount) : 0u);
      EXPECT_EQ(t.relative.count(), 0u);
      // Those of a group are timed as one, the first.
      EXPECT_EQ(t.timed, send ? (rank == 0 ? 4u : 2u) : (rank == 0 ? 0u : 2u));
    }
    release_communicator(comm, false);
  });
}

// Programs count their steps by seeds: that makes no other calls of theirs.
TEST(Meter, SeedsMakeNoKinds) {
  constexpr size_t kCount = 4096, kCalls = 120;
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(kCount, 1.5f), other(kCount);
    for (size_t step = 0; step < kCalls; ++step)
      submit(comm,
             {Collective::kAllReduce, data.data(), other.data(), kCount, ncclFloat32, ncclSum,
              nullptr},
             parse_scheme(fmt::format("int8:round=stochastic,seed={}", step)));
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const std::vector<Tally> tallies = mine.metrics().meter().tallies();
    ASSERT_EQ(tallies.size(), 1u);
    EXPECT_EQ(tallies[0].calls, kCalls);
    EXPECT_EQ(tallies[0].kind.scheme, parse_scheme("int8:round=stochastic"));
    EXPECT_EQ(tallies[0].relative.count(), compared_of(comm, kCalls));
    release_communicator(comm, false);
  });
}

// As if the third rank were on a node of its own.
TEST(Meter, CountsWhatLeavesTheNode) {
  constexpr size_t kCount = 3 * 4096, kRaw = kCount * sizeof(float);
  const Scheme scheme = parse_scheme("int8:algo=twoshot");
  const size_t packed = codec::body_size(scheme.spec, kCount);
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    std::vector<float> data(kCount, 1.5f), other(kCount);
    const auto call = [&](Collective collective, const char* text, int peer) {
      submit(comm,
             {collective, data.data(), other.data(), kCount, ncclFloat32, ncclSum, nullptr, peer},
             parse_scheme(text));
    };
    call(Collective::kAllReduce, "int8:algo=twoshot", 0);
    Communicator& c = *communicator(comm);
    EXPECT_EQ(c.topology().nodes(), 1);
    EXPECT_EQ(c.metrics().counters().stats().raw_off_node_bytes, 0u);
    EXPECT_EQ(c.metrics().counters().stats().wire_off_node_bytes, 0u);
    c.routing().plans().learn(plan::topology_of(std::array<uint64_t, 3>{7, 7, 8}));
    call(Collective::kAllReduce, "int8:algo=twoshot", 0);
    // A third of the message, and then the rank's own third, to each rank elsewhere.
    const bool alone = rank == 2;
    size_t raw = alone ? 2 * (kRaw / 3 * 2) : kRaw / 3 * 2;
    size_t wire = (alone ? 2 : 1) * 2 * packed / 3;
    EXPECT_EQ(c.metrics().counters().stats().raw_off_node_bytes, raw);
    EXPECT_EQ(c.metrics().counters().stats().wire_off_node_bytes, wire);
    // A message to the neighbour, and one to the rank that is elsewhere.
    for (const int to : {1, 2})
      if (rank == 0 || rank == to)
        call(rank == 0 ? Collective::kSend : Collective::kRecv, "int8", rank == 0 ? to : 0);
    EXPECT_EQ(c.metrics().counters().stats().raw_off_node_bytes, raw + (rank == 0 ? kRaw : 0));
    EXPECT_EQ(c.metrics().counters().stats().wire_off_node_bytes, wire + (rank == 0 ? packed : 0));
    call(Collective::kAllReduce, "off", 0);
    EXPECT_EQ(c.metrics().counters().stats().native_off_node_bytes, raw);
    release_communicator(comm, false);
  });
}

// Chunks of 32 K: many steps, whose times are not added up where they overlap.
TEST(Meter, PhasesOfManyChunksAreNoLongerThanTheCall) {
  const Scheme scheme = parse_scheme("int4");
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(3'000'000, 1.0f);
    for (int k = 0; k < 3; ++k)
      submit(comm,
             {Collective::kAllReduce, data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
              nullptr},
             scheme);
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    const Tally t = mine.metrics().meter().tallies().at(0);
    EXPECT_EQ(t.timed, 3u);
    for (const double phase : {t.times.encode, t.times.communicate, t.times.decode})
      EXPECT_LE(phase, t.times.total);
    EXPECT_LE(t.times.total, 1.02 * (t.times.encode + t.times.communicate + t.times.decode) + 0.1);
    EXPECT_EQ(mine.memory().exact().bytes(), data.size() * sizeof(float));
    release_communicator(comm, false);
  });
}

// A caller of an older header gets what it knows of; a new one the sums of all kinds.
TEST(Meter, AddsUpForTheCInterface) {
  run_ranks(2, [&](int, ncclComm_t comm) {
    std::vector<float> data(4096, 1.5f);
    for (const char* text : {"int8", "int8", "int4"})
      submit(comm,
             {Collective::kAllReduce, data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
              nullptr},
             parse_scheme(text));
    Communicator& mine = *communicator(comm);
    mine.metrics().meter().collect();
    terseStats_t stats = mine.metrics().counters().stats();
    mine.metrics().meter().add_to(stats);
    EXPECT_EQ(stats.calls, 3u);
    EXPECT_EQ(stats.timed_calls, 3u);
    EXPECT_EQ(stats.verified_calls, is_compared(comm, 1) ? 3u : 2u);
    EXPECT_GE(stats.total_ns, stats.encode_ns);
    EXPECT_GE(stats.total_ns, stats.decode_ns);
    EXPECT_GT(stats.communicate_ns, 0u);
    EXPECT_LT(stats.relative_error, 1e-6);
    release_communicator(comm, false);
  });
}

}  // namespace
}  // namespace terse::test
