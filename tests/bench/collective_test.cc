#include "collective.h"

#include <gtest/gtest.h>

#include <limits>
#include <map>

#include "options.h"

namespace terse::perf {
namespace {

TEST(Collectives, AreThoseOfNcclTests) {
  std::vector<std::string> programs;
  for (const Collective& collective : collectives()) programs.emplace_back(collective.program);
  EXPECT_EQ(programs, (std::vector<std::string>{
                          "all_reduce_perf", "all_gather_perf", "reduce_scatter_perf",
                          "broadcast_perf", "reduce_perf", "alltoall_perf", "alltoallv_perf",
                          "gather_perf", "scatter_perf", "sendrecv_perf", "hypercube_perf"}));
  EXPECT_THROW(find_collective("all_reduce_perf"), std::invalid_argument);
}

// As nccl-tests' ...GetBw, over the larger buffer.
TEST(Bandwidth, IsThatOfNcclTests) {
  for (const int n : {1, 2, 4, 7}) {
    const double share = 1.0 * (n - 1) / n;
    const std::map<std::string, std::pair<double, double>> expected = {
        {"all_reduce", {1, 2 * share}},
        {"all_gather", {1, share}},
        {"reduce_scatter", {1, share}},
        {"broadcast", {1, 1}},
        {"reduce", {1, 1}},
        {"alltoall", {1, share}},
        {"alltoallv", {1, share}},
        {"gather", {1, share}},
        {"scatter", {1, share}},
        {"sendrecv", {1, 1}},
        {"hypercube", {share, share}}};
    for (const auto& [name, factors] : expected) {
      EXPECT_DOUBLE_EQ(find_collective(name).algbw(n), factors.first) << name;
      EXPECT_DOUBLE_EQ(find_collective(name).busbw(n), factors.second) << name;
    }
  }
}

// send, receive, count, in-place offsets, of 1001 elements on 3 ranks: 333 and a bit each.
TEST(Shapes, AreThoseOfNcclTests) {
  using Sizes = std::vector<std::size_t>;
  const Sizes whole = {1001, 1001, 1001, 0, 0};
  const Sizes gathering = {332, 996, 332, 332, 0};
  const Sizes scattering = {996, 332, 332, 0, 332};
  const std::map<std::string, Sizes> expected = {
      {"all_reduce", whole},
      {"all_gather", gathering},
      {"reduce_scatter", scattering},
      {"broadcast", whole},
      {"reduce", whole},
      {"alltoall", {996, 996, 332, 0, 0}},
      {"gather", gathering},
      {"scatter", scattering},
      {"sendrecv", whole},
      {"hypercube", gathering},
      // Of 996 a third goes to the neighbour, two thirds to the one after.
      {"alltoallv", {332 + 664, 332 + 664, 332, 0, 0}}};
  ASSERT_EQ(expected.size(), collectives().size());
  for (const auto& [name, sizes] : expected) {
    const Shape s = find_collective(name).shape(1001, 4, 3);
    EXPECT_EQ((Sizes{s.send, s.receive, s.parameter, s.in_place_send, s.in_place_receive}), sizes)
        << name;
  }
}

struct Place {
  const char* collective;
  Seat seat;
  std::size_t element;
  Origin origin;
};

// Of 12 elements on 3 ranks, the root being rank 1.
TEST(Origins, SayWhereOutputComesFrom) {
  constexpr std::size_t kRest = std::numeric_limits<std::size_t>::max();
  constexpr int kReduced = Origin::kReduced;
  constexpr int kZero = Origin::kZero;
  const Seat root = {1, 3, 1, false};
  const Seat other = {2, 3, 1, false};
  const Seat other_in_place = {2, 3, 1, true};
  const Place places[] = {
      {"all_reduce", other, 5, {kReduced, 5, kRest}},
      {"all_gather", other, 5, {1, 1, 3}},
      {"hypercube", other, 5, {1, 1, 3}},
      {"reduce_scatter", other, 1, {kReduced, 9, kRest}},
      {"broadcast", root, 5, {1, 5, kRest}},
      {"broadcast", other, 5, {1, 5, kRest}},
      {"reduce", root, 5, {kReduced, 5, kRest}},
      {"reduce", other, 5, {kZero, 5, kRest}},
      {"reduce", other_in_place, 5, {2, 5, kRest}},
      {"alltoall", other, 5, {1, 9, 3}},
      // Rank 2 gets 8 of rank 0, which sends it them after the 4 for rank 1; then 4 of rank 1, and
      // none of itself. Rank 1 sends them after the 8 for rank 0.
      {"alltoallv", other, 5, {0, 9, 3}},
      {"alltoallv", other, 9, {1, 9, 3}},
      {"gather", root, 5, {1, 1, 3}},
      {"gather", other, 5, {kZero, 0, 3}},
      {"gather", other_in_place, 5, {kZero, 0, 3}},
      {"gather", other_in_place, 9, {2, 1, 3}},
      {"scatter", root, 1, {1, 5, kRest}},
      {"scatter", other, 1, {1, 9, kRest}},
      {"sendrecv", other, 5, {1, 5, kRest}},
      {"sendrecv", {0, 3}, 5, {2, 5, kRest}},
  };
  for (const Place& place : places) {
    const Collective& collective = find_collective(place.collective);
    const Shape shape = collective.shape(12, 1, 3);
    const Origin origin = collective.origin(place.seat, place.element, shape);
    const auto what = [&] { return place.collective + std::to_string(place.element); };
    EXPECT_EQ(origin.rank, place.origin.rank) << what();
    if (origin.rank != kZero) {
      EXPECT_EQ(origin.first, place.origin.first) << what();
    }
    // What reaches to the end may say so in another way.
    if (place.origin.length != kRest) {
      EXPECT_EQ(origin.length, place.origin.length) << what();
    }
  }
}

// Plays the messages of all ranks, with each rank's elements numbered 100, 101, ... times rank + 1.
std::vector<std::vector<int>> play(const Collective& collective, int nranks, int root,
                                   bool in_place) {
  const Shape shape = collective.shape(static_cast<std::size_t>(8 * nranks), 1, nranks);
  std::vector<std::vector<int>> send, receive;
  for (int rank = 0; rank < nranks; ++rank) {
    receive.emplace_back(std::max(shape.send, shape.receive));
    send.emplace_back(shape.send);
    for (std::size_t i = 0; i < shape.send; ++i) {
      send.back()[i] = 100 * (rank + 1) + static_cast<int>(i);
      if (in_place) {
        receive.back()[static_cast<std::size_t>(rank) * shape.in_place_send + i] = send.back()[i];
      }
    }
  }
  for (int step = 0; step < collective.steps(nranks); ++step) {
    std::map<std::pair<int, int>, std::vector<int>> under_way;
    const auto each = [&](auto body) {
      for (int rank = 0; rank < nranks; ++rank) {
        const Call call = {nullptr, nullptr,   shape,   {rank, nranks, root, in_place},
                           1,       ncclInt32, ncclSum, nullptr,
                           nullptr, step};
        for (const Message& m : collective.messages(call)) body(static_cast<std::size_t>(rank), m);
      }
    };
    each([&](std::size_t rank, const Message& m) {
      if (!m.sends) return;
      const std::vector<int>& from = m.from_receive ? receive[rank] : send[rank];
      const auto first = from.begin() + static_cast<std::ptrdiff_t>(m.first);
      EXPECT_LE(m.first + m.count, from.size());
      under_way[{static_cast<int>(rank), m.peer}].assign(
          first, first + static_cast<std::ptrdiff_t>(m.count));
    });
    each([&](std::size_t rank, const Message& m) {
      if (m.sends) return;
      const auto came = under_way.extract({m.peer, static_cast<int>(rank)});
      ASSERT_FALSE(came.empty()) << collective.program;
      EXPECT_EQ(came.mapped().size(), m.count);
      ASSERT_LE(m.first + m.count, receive[rank].size());
      std::copy(came.mapped().begin(), came.mapped().end(),
                receive[rank].begin() + static_cast<std::ptrdiff_t>(m.first));
    });
    EXPECT_TRUE(under_way.empty()) << collective.program;
  }
  for (auto& buffer : receive) buffer.resize(shape.receive);
  return receive;
}

// What messages bring is what the origins say.
TEST(Messages, BringWhatIsExpected) {
  for (const Collective& collective : collectives()) {
    if (collective.messages == nullptr) continue;
    for (const int nranks : {1, 2, 4, 8}) {
      const int root = collective.rooted ? nranks / 2 : -1;
      const auto received = play(collective, nranks, root, false);
      const Shape shape = collective.shape(static_cast<std::size_t>(8 * nranks), 1, nranks);
      for (int rank = 0; rank < nranks; ++rank) {
        for (std::size_t i = 0; i < shape.receive; ++i) {
          const Origin origin = collective.origin({rank, nranks, root, false}, i, shape);
          const int expected = origin.rank == Origin::kZero
                                   ? 0
                                   : 100 * (origin.rank + 1) + static_cast<int>(origin.first);
          EXPECT_EQ(received[static_cast<std::size_t>(rank)][i], expected)
              << collective.program << " on " << nranks << ", rank " << rank << " at " << i;
        }
      }
    }
  }
}

TEST(Messages, OfAHypercubeAreTheSameInPlace) {
  const Collective& hypercube = find_collective("hypercube");
  EXPECT_EQ(play(hypercube, 4, -1, true), play(hypercube, 4, -1, false));
}

TEST(Require, AHypercubeHasAPowerOfTwo) {
  const Options o;
  const Collective& hypercube = find_collective("hypercube");
  for (const int n : {1, 2, 8}) EXPECT_NO_THROW(hypercube.require(o, n));
  for (const int n : {3, 6}) EXPECT_THROW(hypercube.require(o, n), std::invalid_argument);
}

TEST(TotalOfInput, IsTheLargerBuffer) {
  EXPECT_EQ(find_collective("all_reduce").total_of_input(100, 4), 100u);
  EXPECT_EQ(find_collective("reduce_scatter").total_of_input(100, 4), 100u);
  EXPECT_EQ(find_collective("all_gather").total_of_input(100, 4), 400u);
  EXPECT_EQ(find_collective("gather").total_of_input(100, 4), 400u);
}

}  // namespace
}  // namespace terse::perf
