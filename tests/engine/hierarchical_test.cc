// Collectives in levels over hostnccl: the reference's bytes on every rank, and when NCCL does
// the call. Ranks are threads that say that they are on several nodes.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <barrier>
#include <cmath>
#include <random>
#include <span>

#include "base/error.h"
#include "own_settings.h"
#include "poisoned.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"
#include "trials.h"

namespace terse::test {
namespace {

using plan::Collective;

// The settings of this process, but for the node.
std::vector<Settings> settings_on(const std::vector<int>& node, size_t chunk_bytes) {
  std::vector<Settings> all;
  for (const int n : node) {
    all.push_back(settings());
    all.back().node = fmt::format("node {}", n);
    all.back().chunk_bytes = chunk_bytes;
  }
  return all;
}

struct Case {
  Call call;
  size_t chunk_bytes;
  bool in_place;
};

std::vector<int> some_nodes(std::mt19937& random) {
  const int nodes = 2 + static_cast<int>(random() % 2), places = 2 + static_cast<int>(random() % 2);
  std::vector<int> node;
  for (int r = 0; r < nodes * places; ++r) node.push_back(random() % 2 ? r / places : r % nodes);
  const auto unequal = [&] {
    return std::ranges::count(node, 0) != places || std::ranges::count(node, 1) != places ||
           (nodes == 3 && std::ranges::count(node, 2) != places);
  };
  if (unequal())
    for (int r = 0; r < nodes * places; ++r) node[r] = r % nodes;
  // Numbered in the order of their first ranks.
  std::vector<int> names;
  for (int& n : node) {
    const auto known = std::ranges::find(names, n);
    const auto index = known - names.begin();
    if (known == names.end()) names.push_back(n);
    n = static_cast<int>(index);
  }
  return node;
}

Case random_case(std::mt19937& random) {
  static const char* const kSchemes[] = {"int8",
                                         "int4:hadamard=32,round=stochastic",
                                         "int4:intra=int8,round=stochastic",
                                         "int4:hadamard=32,intra=int8,round=stochastic,seed=3",
                                         "int4:intra=off",
                                         "int8:algo=hierarchical,intra=off",
                                         "minmax4:intra=minmax8,block=256",
                                         "mxfp4:intra=mxfp8,round=stochastic",
                                         "int4:block=512,intra=mxfp8",
                                         "fp8e4m3:intra=bf16",
                                         "int4:block=64,scale=bf16,intra=int6",
                                         "int4:round=stochastic,second=int8",
                                         "int4:hadamard=32,round=stochastic,intra=int8,second=int6",
                                         "int4:block=64,second=minmax8,intra=off",
                                         "mxfp4:second=bf16",
                                         "int3:round=stochastic,second-round=nearest",
                                         "learned4:learn=never,round=stochastic",
                                         "learned4:learn=never,intra=int8"};
  static constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduce,
                                                Collective::kBroadcast, Collective::kReduceScatter,
                                                Collective::kAllGather};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  static constexpr size_t kCounts[] = {1, 2, 127, 128, 129, 1000, 4099, 30'011};
  Case c;
  c.call.collective = kCollectives[random() % std::size(kCollectives)];
  c.call.scheme = parse_scheme(kSchemes[random() % std::size(kSchemes)]);
  if (c.call.scheme.algorithm == plan::Algo{})  // NCCL may send less of a small message
    c.call.scheme.algorithm = *plan::find_algo("hierarchical");
  c.call.datatype = kTypes[random() % 3];
  c.call.op = random() % 2 ? ncclSum : ncclAvg;
  c.call.count = random() % 2 ? kCounts[random() % std::size(kCounts)] : 1 + random() % 9000;
  c.call.node = some_nodes(random);
  c.call.root = static_cast<int>(random() % c.call.node.size());
  c.chunk_bytes = random() % 3 == 0 ? 0 : size_t{4096} << random() % 4;
  c.in_place = random() % 2;
  return c;
}

// Done on return.
void run(const Call& call, const char* in, char* out, ncclComm_t comm) {
  const HostStream stream(false);
  submit(comm, request_of(call, in, out, stream.get()), call.scheme);
  stream.synchronize();
}

// Twice on one communicator.
void check_case(const Case& c, uint64_t ordinal) {
  const int ranks = static_cast<int>(c.call.node.size());
  std::string nodes;
  for (const int n : c.call.node) nodes += static_cast<char>('0' + n);
  const std::string about =
      fmt::format("{} {} count {} type {} op {} root {} nodes {} chunks {}{}",
                  name(c.call.collective), print_scheme(c.call.scheme), c.call.count,
                  static_cast<int>(c.call.datatype), static_cast<int>(c.call.op), c.call.root,
                  nodes, c.chunk_bytes, c.in_place ? " in place" : "");
  const size_t size = datatype_size(c.call.datatype);
  const plan::Traits& traits = plan::traits(c.call.collective);
  std::vector<Bytes> sent;
  for (int r = 0; r < ranks; ++r)
    sent.push_back(gaussian(send_count(c.call, ranks), c.call.datatype, 200 + r));
  std::vector<std::vector<Bytes>> wanted;
  for (uint64_t k = 0; k < 2; ++k) {
    Call call = c.call;
    call.ordinal = ordinal;
    call.sequence = k;
    wanted.push_back(expected(call, sent));
  }
  const std::vector<Settings> own = settings_on(c.call.node, c.chunk_bytes);
  run_ranks(ranks, [&](int rank, ncclComm_t comm) {
    terse::communicator(comm, own[rank]);
    for (int k = 0; k < 2; ++k) {
      Guarded send(std::max(sent[rank].size(), wanted[k][rank].size()), 0);
      Guarded recv(wanted[k][rank].size(), 0);
      char *in = send.data(), *out = recv.data();
      if (c.in_place) {
        in += traits.recv.per_rank ? rank * c.call.count * size : 0;
        out = send.data() + (traits.send.per_rank ? rank * c.call.count * size : 0);
      }
      std::ranges::copy(sent[rank], in);
      run(c.call, in, out, comm);
      ASSERT_TRUE(std::ranges::equal(wanted[k][rank], std::span(out, wanted[k][rank].size())))
          << "rank " << rank << " call " << k << ": " << about;
      ASSERT_TRUE(send.intact() && recv.intact()) << "rank " << rank << " wrote past its buffers";
    }
    release_communicator(comm, false);
  });
}

TEST(Hierarchical, GivesTheReferenceBytesOnEveryRank) {
  std::mt19937 random(31);
  for (int trial = 0; trial < trials(60, 15) && !testing::Test::HasFatalFailure(); ++trial)
    check_case(random_case(random), next_ordinal());
}

// Nodes of one rank or two in groups: 2 of 2, or 2 of 3; by a default, or a named format between
// groups.
TEST(Multilevel, GivesTheReferenceBytesOnEveryRank) {
  static const char* const kSchemes[] = {"int4:",
                                         "int8:round=stochastic,",
                                         "int4:hadamard=32,round=stochastic,",
                                         "int4:intra=int8,round=stochastic,",
                                         "int4:intra=off,outer=int6,",
                                         "minmax4:block=256,outer=int8,round=nearest,",
                                         "mxfp4:round=stochastic,",
                                         "nvfp4:second=int8,",
                                         "int4:round=stochastic,second=int5,",
                                         "int4:block=96,outer=mxfp8,round=nearest,",
                                         "int4:block=224,second=mxfp8,round=nearest,",
                                         "int4:block=64,scale=bf16,outer=minmax8,",
                                         "fp8e4m3:outer=bf16,",
                                         "learned4:learn=never,"};
  static constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduce,
                                                Collective::kBroadcast, Collective::kReduceScatter,
                                                Collective::kAllGather};
  static constexpr size_t kCounts[] = {1, 127, 1000, 4099, 30'011};
  std::mt19937 random(37);
  for (int trial = 0; trial < trials(60, 12) && !testing::Test::HasFatalFailure(); ++trial) {
    Case c;
    c.call.collective = kCollectives[random() % std::size(kCollectives)];
    const char* const scheme = kSchemes[random() % std::size(kSchemes)];
    c.call.scheme = parse_scheme(std::string(scheme) + "algo=multilevel");
    c.call.datatype = random() % 2 ? ncclFloat32 : ncclBfloat16;
    c.call.op = random() % 2 ? ncclSum : ncclAvg;
    c.call.count = kCounts[random() % std::size(kCounts)];
    const int groups = 2, in_group = 2 + static_cast<int>(random() % 2);
    const int nodes = groups * in_group, places = 1 + static_cast<int>(random() % 2);
    const bool in_turn = random() % 2;
    for (int r = 0; r < places * nodes; ++r)
      c.call.node.push_back(in_turn ? r % nodes : r / places);
    c.call.groups = {in_group, groups};
    c.call.root = static_cast<int>(random() % c.call.node.size());
    c.chunk_bytes = random() % 3 == 0 ? 0 : size_t{4096} << random() % 4;
    c.call.part_bytes = c.chunk_bytes;
    c.in_place = random() % 2;
    check_case(c, next_ordinal());
  }
}

// Nodes 0 and 2 are in one pod, 1 and 3 in the other one: they count pod by pod.
TEST(Multilevel, ExchangesInPodsFirst) {
  std::vector<Settings> own = settings_on({0, 0, 1, 1, 2, 2, 3, 3}, 0);
  for (int rank = 0; rank < 8; ++rank) own[rank].pod = rank / 2 % 2 == 0 ? "even" : "odd";
  Call call{.scheme = parse_scheme("int4:round=stochastic"), .count = 1 << 18};
  call.node = {0, 0, 2, 2, 1, 1, 3, 3};
  call.groups = {2, 2};
  call.ordinal = next_ordinal();
  std::vector<Bytes> sent;
  for (int rank = 0; rank < 8; ++rank)
    sent.push_back(gaussian(call.count, call.datatype, 200 + rank));
  const std::vector<Bytes> wanted = expected(call, sent);
  run_ranks(8, [&](int rank, ncclComm_t comm) {
    terse::communicator(comm, own[rank]);
    Bytes out(sent[rank].size());
    run(call, sent[rank].data(), out.data(), comm);
    EXPECT_EQ(out, wanted[rank]) << "rank " << rank;
    release_communicator(comm, false);
  });
}

TEST(Multilevel, GoesWithoutPodsThatOneRankNamesNot) {
  std::vector<Settings> own = settings_on({0, 0, 1, 1, 2, 2, 3, 3}, 0);
  for (int rank = 0; rank < 7; ++rank) own[rank].pod = "even";
  next_ordinal();
  run_ranks(8, [&](int rank, ncclComm_t comm) {
    const auto state = terse::communicator(comm, own[rank]);
    Call call{.scheme = parse_scheme("int8"), .count = 1 << 16};
    const Bytes in = gaussian(call.count, call.datatype, 200 + rank);
    Bytes out(in.size());
    run(call, in.data(), out.data(), comm);
    EXPECT_EQ(state->routing().topology().pod_nodes, 0);
    EXPECT_EQ(state->current_stats().calls, 1u);
    release_communicator(comm, false);
  });
}

// Rank 7 makes another call: the ranks from `first` on fail, and get nothing.
void expect_found(Collective collective, const char* scheme, int first, size_t chunk_bytes = 0) {
  const std::vector<Settings> own = settings_on({0, 0, 1, 1, 2, 2, 3, 3}, chunk_bytes);
  next_ordinal();
  std::barrier all_are_alike(8);
  run_ranks(8, [&](int rank, ncclComm_t comm) {
    terse::communicator(comm, own[rank]);
    const HostStream stream(false);
    Call call{.collective = collective,
              .scheme = parse_scheme(scheme),
              .datatype = ncclFloat16,
              .count = 6'001};
    const Bytes in = gaussian(call.count, call.datatype, 200 + rank);
    Bytes out(in.size(), '\x5a');
    const auto make = [&] {
      submit(comm, request_of(call, in.data(), out.data(), stream.get()), call.scheme);
      stream.synchronize();
    };
    make();
    call.datatype = ncclBfloat16;
    make();
    all_are_alike.arrive_and_wait();
    if (rank != 7) call.datatype = ncclFloat16;
    out.assign(out.size(), '\x5a');
    bool has_failed = false;
    try {
      make();
      make();
    } catch (const std::exception&) {
      has_failed = true;
    }
    if (rank >= first) {
      EXPECT_TRUE(has_failed) << scheme << ", rank " << rank;
      EXPECT_TRUE(out == Bytes(out.size(), '\x5a')) << scheme << ", rank " << rank;
    }
    release_communicator(comm, true);
  });
}

// Of the others some have no message of the rank whose call differs, but of those that have one.
TEST(Multilevel, AnotherCallOfOneRankIsFoundByAll) {
  for (const char* scheme : {"int8:algo=hierarchical", "int8:algo=multilevel"})
    for (const size_t chunk_bytes : {0, 4096, 1024})  // in one part, two and six
      expect_found(Collective::kAllReduce, scheme, 0, chunk_bytes);
}

// Ranks from which the message comes to that one have none of it, and the root's elements.
TEST(Multilevel, AnotherCallOfABroadcastIsFoundByAllBehindIt) {
  expect_found(Collective::kBroadcast, "int8:algo=hierarchical", 2);
  expect_found(Collective::kBroadcast, "int8:algo=multilevel", 4);
}

TEST(Hierarchical, WhatIsNotFiniteIsSoInEveryResult) {
  static constexpr Collective kCollectives[] = {Collective::kAllReduce, Collective::kReduce,
                                                Collective::kBroadcast, Collective::kReduceScatter,
                                                Collective::kAllGather};
  const std::vector<int> node = {0, 0, 1, 1};
  const std::vector<Settings> own = settings_on(node, 0);
  for (const char* codec : {"int8:", "int4:hadamard=32,",
                            "minmax8:", "fp8e4m3:", "mxfp4:", "nvfp4:", "learned4:learn=never,"})
    for (const char* intra : {"int8", "off"}) {
      next_ordinal();
      const std::string text = fmt::format("{}algo=hierarchical,intra={}", codec, intra);
      const std::vector<Poisoned> calls = poisoned_calls(text.c_str(), kCollectives, 4);
      std::vector<std::vector<Bytes>> got(calls.size(), std::vector<Bytes>(4));
      run_ranks(4, [&](int rank, ncclComm_t comm) {
        terse::communicator(comm, own[rank]);
        for (size_t k = 0; k < calls.size(); ++k) {
          const Call& call = calls[k].call;
          Bytes& out = got[k][rank];
          out.resize(recv_count(call, 4) * datatype_size(call.datatype));
          run(call, calls[k].sent[rank].data(), out.data(), comm);
        }
        EXPECT_EQ(communicator(comm)->current_stats().calls, calls.size()) << "none is native";
        release_communicator(comm, false);
      });
      for (size_t k = 0; k < calls.size(); ++k) expect_poison(calls[k], got[k]);
    }
}

// Of ncclRedOpCreatePreMulSum, where each rank has a number of its own.
TEST(Hierarchical, EachRanksNumberIsForItsOwnContribution) {
  const std::vector<int> node = {0, 0, 1, 1};
  const std::vector<Settings> own = settings_on(node, 0);
  for (const char* scheme : {"int8:algo=hierarchical", "int8:algo=hierarchical,intra=off"}) {
    next_ordinal();
    run_ranks(4, [&](int rank, ncclComm_t comm) {
      const auto state = terse::communicator(comm, own[rank]);
      const float number = static_cast<float>(1 << 2 * rank);
      Call call{.scheme = parse_scheme(scheme), .count = 10'000};
      ASSERT_EQ(ncclRedOpCreatePreMulSum(&call.op, const_cast<float*>(&number), ncclFloat32,
                                         ncclScalarHostImmediate, comm),
                ncclSuccess);
      state->routing().operators().add(call.op, &number, ncclFloat32, ncclScalarHostImmediate);
      const std::vector<float> in(call.count, static_cast<float>(rank + 1));
      std::vector<float> out(call.count);
      run(call, reinterpret_cast<const char*>(in.data()), reinterpret_cast<char*>(out.data()),
          comm);
      for (const float x : out) ASSERT_NEAR(x, 1 + 4 * 2 + 16 * 3 + 64 * 4, 3) << scheme;
      ncclRedOpDestroy(call.op, comm);
      release_communicator(comm, false);
    });
  }
}

// Of a ReduceScatter over 2 nodes of 4 ranks, by the reference.
double error_of(const char* scheme, double outliers) {
  Call call{.collective = Collective::kReduceScatter,
            .scheme = parse_scheme(scheme),
            .count = size_t{1} << 14,
            .node = {0, 0, 0, 0, 1, 1, 1, 1}};
  std::vector<Bytes> sent;
  std::mt19937 random(5);
  std::normal_distribution<float> normal;
  std::bernoulli_distribution is_outlier(outliers);
  for (int r = 0; r < 8; ++r) {
    std::vector<float> x(8 * call.count);
    for (float& value : x) value = normal(random) * (is_outlier(random) ? 30.0f : 1.0f);
    sent.push_back(bytes_of(x, call.datatype));
  }
  const std::vector<Bytes> got = expected(call, sent);
  const std::vector<std::vector<double>> want = exact(call, sent);
  std::vector<double> all, all_exact;
  for (int r = 0; r < 8; ++r) {
    const std::vector<double> x = values(got[r], call.datatype);
    all.insert(all.end(), x.begin(), x.end());
    all_exact.insert(all_exact.end(), want[r].begin(), want[r].end());
  }
  return relative_error(all, all_exact);
}

TEST(Hierarchical, ErrorsAreThoseOfTwoQuantizations) {
  EXPECT_NEAR(error_of("int4:intra=int8", 0), 0.118, 0.0035);
  // Less than of two like ones, 0.166: within a node the own part stays exact.
  EXPECT_NEAR(error_of("int4", 0), 0.156, 0.005);
  EXPECT_NEAR(error_of("int4:intra=off", 0), 0.118, 0.0035);
  EXPECT_NEAR(error_of("int4:intra=int8", 0.002), 0.304, 0.009);
  EXPECT_NEAR(error_of("int4:intra=int8,hadamard=32", 0.002), 0.113, 0.0034);
}

// Theorem 4.1 of SDP4Bit (arXiv 2410.15526) asks of the gradients' compressor that it be unbiased,
// and its variance bounded: over many draws the mean is as far from the exact sum as chance has it.
TEST(Hierarchical, StochasticSumsAreUnbiasedAndBounded) {
  constexpr int kDraws = 300;
  for (const std::vector<int>& node : {std::vector{0, 0, 0, 0, 1, 1, 1, 1},
                                       {0, 1, 2, 3, 0, 1, 2, 3},
                                       {0, 0, 0, 1, 1, 1, 2, 2, 2}}) {
    Call call{.collective = Collective::kReduceScatter,
              .scheme = parse_scheme("int4:hadamard=32,intra=int8,round=stochastic"),
              .count = 128,
              .node = node};
    std::vector<Bytes> sent;
    for (size_t r = 0; r < node.size(); ++r)
      sent.push_back(gaussian(node.size() * call.count, call.datatype, 40 + r));
    const std::vector<std::vector<double>> want = exact(call, sent);
    std::vector<double> sums(node.size() * call.count), squares(sums);
    double norm = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      call.sequence = draw;
      const std::vector<Bytes> got = expected(call, sent);
      for (size_t r = 0, i = 0; r < node.size(); ++r) {
        const std::vector<double> found = values(got[r], call.datatype);
        for (size_t k = 0; k < call.count; ++k, ++i) {
          const double error = found[k] - want[r][k];
          sums[i] += error;
          squares[i] += error * error;
          norm += want[r][k] * want[r][k];
        }
      }
    }
    double chance = 0, all = 0;  // squared means, in units of what is likely
    for (size_t i = 0; i < sums.size(); ++i) {
      chance += sums[i] * sums[i] / squares[i] / static_cast<double>(sums.size());
      all += squares[i];
    }
    EXPECT_NEAR(chance, 1, 0.2) << node.size() << " ranks";
    EXPECT_LT(std::sqrt(all / norm), 0.2);
    EXPECT_GT(std::sqrt(all / norm), 0.1);
  }
}

// 3 and 4 ranks on 2 nodes: no grid. In one shot each rank sends all to each on the other node.
TEST(Hierarchical, ACallStaysNativeWhereNcclSendsLessBetweenNodes) {
  const std::vector<int> node = {0, 0, 0, 1, 1, 1, 1};
  const std::vector<Settings> own = settings_on(node, 0);
  run_ranks(7, [&](int rank, ncclComm_t comm) {
    terse::communicator(comm, own[rank]);
    const auto bypassed = [&](const char* scheme, size_t count) {
      const Call call{.scheme = parse_scheme(scheme), .count = count};
      const float own_number = 1.0f + static_cast<float>(rank);
      Bytes data = bytes_of(std::vector<float>(count, own_number), ncclFloat32);
      run(call, data.data(), data.data(), comm);
      for (const double x : values(data, ncclFloat32)) EXPECT_NEAR(x, 28.0, 0.2);
      return communicator(comm)->current_stats().bypasses[TERSE_BYPASS_LINK];
    };
    EXPECT_EQ(bypassed("int8", 100), 1u);
    EXPECT_EQ(bypassed("int8:algo=oneshot", 100), 1u) << "as it says";
    EXPECT_EQ(bypassed("int8", 100'000), 1u) << "two shots send less";
    EXPECT_EQ(bypassed("minmax8", 100), 2u);
    EXPECT_EQ(bypassed("int8:algo=hierarchical", 100), 3u) << "which is not taken";
    release_communicator(comm, false);
  });
}

}  // namespace
}  // namespace terse::test
