// What plans keep between calls: of its communicator, of its type and codec, counted, released.
#include "engine/comm/state.h"

#include <gtest/gtest.h>

#include <set>

#include "../plan/running_sum.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "idle.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

constexpr plan::Algorithm kRunningSum[] = {
    {Collective::kAllReduce,
     {"direct"},
     plan::running_sum,
     [](const plan::Shape&, plan::Algo) { return plan::Answer{true}; },
     [](const plan::Shape&) { return plan::Cost{1}; }}};

// More than there is, on one rank.
plan::Plan greedy(const plan::Shape& s) {
  plan::Plan plan = plan::running_sum(s);
  if (s.rank == 1) plan.state.bytes = size_t{1} << 55;
  return plan;
}

constexpr plan::Algorithm kGreedy[] = {
    {Collective::kAllReduce, {"direct"}, greedy, kRunningSum[0].applies, kRunningSum[0].cost}};

// A rank whose AllReduces give running sums.
class Player {
 public:
  Player(int rank, ncclComm_t comm, std::span<const plan::Algorithm> table = kRunningSum)
      : rank_(rank), comm_(comm) {
    state().routing().plans().use(table);
  }
  ~Player() { release_communicator(comm_, false); }
  Player(const Player&) = delete;
  Player& operator=(const Player&) = delete;

  Communicator& state() const { return *communicator(comm_); }

  Request request(Bytes& data, ncclDataType_t datatype) const {
    return {.collective = Collective::kAllReduce,
            .send = data.data(),
            .recv = data.data(),
            .count = data.size() / datatype_size(datatype),
            .datatype = datatype};
  }

  // Each element is `x` more than the rank.
  Bytes sent(size_t count, ncclDataType_t datatype, int x) const {
    return bytes_of(std::vector<float>(count, static_cast<float>(rank_ + x)), datatype);
  }

  // The results of a call, which are all the same.
  double call(size_t count, const char* scheme = "int8",
              ncclDataType_t datatype = ncclFloat32) const {
    Bytes data = sent(count, datatype, 1);
    submit(comm_, request(data, datatype), parse_scheme(scheme));
    const std::set<double> results = distinct(data, datatype);
    EXPECT_EQ(results.size(), 1u);
    return *results.begin();
  }

  static std::set<double> distinct(const Bytes& data, ncclDataType_t datatype) {
    const std::vector<double> all = values(data, datatype);
    return {all.begin(), all.end()};
  }

 private:
  const int rank_;
  const ncclComm_t comm_;
};

TEST(State, IsKeptFromCallToCall) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const Player player(rank, comm);
    for (int call = 1; call <= 20; ++call) EXPECT_EQ(player.call(1000), 6.0 * call);
  });
}

// By the key that the plan names, and by what it does not know.
TEST(State, IsThatOfCallsOfItsKind) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    const Player player(rank, comm);
    size_t bytes = 0;
    const auto expect_first = [&](double result, size_t more) {
      EXPECT_EQ(result, 3.0);
      EXPECT_EQ(player.state().current_stats().state_bytes, bytes += more);
    };
    expect_first(player.call(1000), 8000);
    expect_first(player.call(1001), 8008);
    expect_first(player.call(1000, "int4"), 8000);
    expect_first(player.call(1000, "int8", ncclFloat16), 4000);
    expect_first(player.call(1000, "int8", ncclBfloat16), 4000);
    for (const size_t count : {1000, 1001}) EXPECT_EQ(player.call(count), 6.0);
    EXPECT_EQ(player.call(1000, "int4"), 6.0);
    EXPECT_EQ(player.call(1000, "int8", ncclFloat16), 6.0);
    EXPECT_EQ(player.state().current_stats().state_bytes, bytes);
    EXPECT_EQ(player.state().current_stats().calls, 9u);
    EXPECT_EQ(player.state().current_stats().scratch_bytes,
              player.state().metrics().counters().stats().scratch_bytes);
  });
}

TEST(State, IsThatOfOneCommunicator) {
  for (int round = 0; round < 2; ++round)
    run_ranks(2, [](int rank, ncclComm_t comm) {
      const Player player(rank, comm);
      EXPECT_EQ(player.call(100), 3.0);
      EXPECT_EQ(player.call(100), 6.0);
    });
}

// Calls of a group go beside each other, but not those that have a state.
TEST(State, ServesTheCallsOfAGroupOneAfterAnother) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const Player player(rank, comm);
    const Scheme scheme = parse_scheme("int8");
    std::vector<Bytes> data;
    for (int call = 0; call < 8; ++call) data.push_back(player.sent(1000, ncclFloat32, call));
    group_start();
    for (Bytes& d : data) submit(comm, player.request(d, ncclFloat32), scheme);
    group_end();
    double sum = 0;
    for (int call = 0; call < 8; ++call) {
      sum += 3 + 3 * call;
      EXPECT_EQ(Player::distinct(data[call], ncclFloat32), std::set<double>{sum}) << call;
    }
  });
}

// All ranks do without, where one has no memory for it.
TEST(State, ThatOneRankCannotHaveIsNoErrorOnAny) {
  run_ranks(3, [](int rank, ncclComm_t comm) {
    const Player player(rank, comm, kGreedy);
    for (int call = 1; call <= 3; ++call) EXPECT_EQ(player.call(1000), 6.0) << "native";
    const terseStats_t stats = player.state().current_stats();
    EXPECT_EQ(stats.calls, 0u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_FALLBACK], 3u);
    EXPECT_EQ(stats.state_bytes, rank == 1 ? 0u : 8000u);
  });
}

TEST(State, IsMadeOfZeros) {
  class Memory final : public IdleBackend {
   public:
    void* allocate(size_t bytes) override {
      made.assign(bytes, 'x');
      return made.data();
    }
    void upload(Stream, void* to, const void* from, size_t bytes) override {
      std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
    }
    void release(void* memory) noexcept override { released += memory == made.data(); }
    std::vector<char> made;
    int released = 0;
  } memory;
  for (const size_t bytes : {size_t{1}, size_t{1} << 20, (size_t{5} << 20) + 3}) {
    memory.released = 0;
    StreamSet track(memory, nullptr);
    {
      States states(memory);
      const StateKind kind{codec::Dtype::kFloat32, {}};
      const plan::State state{"test", bytes};
      EXPECT_FALSE(states.agreed(kind, state));
      states.make(kind, state, track);
      EXPECT_EQ(memory.made, std::vector<char>(bytes));
      EXPECT_EQ(states.memory(kind, state), nullptr) << "not on all ranks yet";
      states.agree(kind, state);
      EXPECT_EQ(states.memory(kind, state), memory.made.data());
      EXPECT_EQ(states.bytes(), bytes);
      memory.made[0] = 7;
      states.make(kind, state, track);
      EXPECT_EQ(memory.made[0], 7) << "it is there";
      EXPECT_THROW(states.memory(kind, {"test", bytes + 1}), Error) << "of another size";
      EXPECT_EQ(memory.released, 0);
    }
    EXPECT_EQ(memory.released, 1);
  }
}

struct Idle {
  Idle() { c.state.routing().plans().use(kRunningSum); }

  void call() {
    const Request r{.collective = Collective::kAllReduce,
                    .send = data,
                    .recv = data,
                    .count = 1,
                    .stream = reinterpret_cast<cudaStream_t>(data)};
    submit(c.state, r, route(c.state, r, scheme));
  }

  const Scheme scheme = parse_scheme("int8");
  float data[1] = {};
  IdleCommunicator c{scheme};
};

// There is no asking the other ranks then.
TEST(State, CannotBeMadeWhileAGraphIsRecorded) {
  Idle idle;
  idle.c.backend.recorded = 1;
  try {
    idle.call();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    EXPECT_NE(e.message.find("int8:block=128,round=nearest keeps memory between calls, and is used "
                             "for the first time while a graph is recorded; use it once before"),
              std::string::npos)
        << e.message;
    EXPECT_NE(e.message.find("rank 3 of 8"), std::string::npos) << e.message;
  }
  StreamSet& track = idle.c.state.memory().stream_sets().of(nullptr);
  const StateKind kind{codec::Dtype::kFloat32, idle.scheme.spec};
  idle.c.state.memory().states().make(kind, {"running sum of 1", 8}, track);
  idle.c.state.memory().states().agree(kind, {"running sum of 1", 8});
  idle.call();
}

}  // namespace
}  // namespace terse::test
