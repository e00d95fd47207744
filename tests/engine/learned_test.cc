// Calls of learned codecs: tables of levels that all ranks hold, one for each kind of call; what is
// compressed by them, and what cannot be.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <span>

#include "codec/codebook.h"
#include "engine/comm/codebooks.h"
#include "idle.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using plan::Collective;

// Some levels that are not equally far from each other.
std::vector<float> squares(int bits) {
  std::vector<float> table(codec::codebook_floats(bits));
  const size_t n = codec::codebook_levels(bits);
  for (size_t i = 0; i < n; ++i)
    table[i] = codec::uniform_level(i, bits) * codec::uniform_level(i, bits);
  for (size_t i = 0; i < n; ++i) codec::complete_codebook(table.data(), bits, i);
  return table;
}

CodebookKind kind_of(const Call& call) {
  return {call.collective, call.count, codec::Dtype::kFloat32, call.scheme.spec, call.scheme.learn};
}

terseStats_t stats_of(ncclComm_t comm) { return communicator(comm)->current_stats(); }

// A call on this rank, done on return.
Bytes result_of(const Call& call, const Bytes& in, ncclComm_t comm) {
  const HostStream stream(false);
  const Communicator& c = *communicator(comm);
  Bytes out(recv_count(call, c.ranks) * datatype_size(call.datatype));
  submit(comm, request_of(call, in.data(), out.data(), stream.get()), call.scheme);
  stream.synchronize();
  const plan::Side& recv = plan::traits(call.collective).recv;
  if (plan::extent(recv, {c.ranks, c.rank, call.root}) == 0) out.clear();
  return out;
}

// Of each collective of all ranks with each scheme, on a communicator of its own.
template <class See>
void for_each_call(std::initializer_list<const char*> schemes, const See& see) {
  for (const char* scheme : schemes) {
    for (int i = 0; i < 8; ++i) {
      const Call call{.collective = static_cast<Collective>(i),
                      .scheme = parse_scheme(scheme),
                      .count = 5003,
                      .root = 1,
                      .ordinal = next_ordinal()};
      SCOPED_TRACE(fmt::format("{} {}", name(call.collective), scheme));
      see(call);
    }
  }
}

// First by the levels that there are at first; then by others, that all ranks have come to hold.
TEST(LearnedCalls, GoByTheTable) {
  constexpr int kRanks = 3;
  for_each_call({"learned4:learn=never", "learned3:learn=never,round=stochastic",
                 "learned6:learn=never,algo=twoshot,block=64"},
                [&](Call call) {
                  std::vector<Bytes> sent;
                  for (int r = 0; r < kRanks; ++r)
                    sent.push_back(gaussian(send_count(call, kRanks), call.datatype, 300 + r));
                  const int bits = call.scheme.spec.bits;
                  const std::vector<float> table = squares(bits);
                  std::vector<std::vector<Bytes>> wanted = {expected(call, sent)};
                  call.sequence = 1;
                  call.codebook = table.data();
                  wanted.push_back(expected(call, sent));
                  EXPECT_NE(wanted[0], wanted[1]);
                  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
                    EXPECT_EQ(stats_of(comm).state_bytes, 0u);
                    EXPECT_EQ(result_of(call, sent[rank], comm), wanted[0][rank]);
                    EXPECT_EQ(stats_of(comm).state_bytes, codec::codebook_bytes(bits));
                    Codebook* const codebook =
                        communicator(comm)->memory().codebooks().find(kind_of(call));
                    ASSERT_NE(codebook, nullptr);
                    EXPECT_EQ(codebook->calls, 1u);
                    std::ranges::copy(table, codebook->table);
                    EXPECT_EQ(result_of(call, sent[rank], comm), wanted[1][rank]);
                    EXPECT_EQ(codebook->calls, 2u);
                    release_communicator(comm, false);
                  });
                });
}

// By collective, count, type, scheme and communicator.
TEST(LearnedCalls, OfEachKindHaveATable) {
  next_ordinal();
  run_ranks(2, [](int, ncclComm_t comm) {
    size_t bytes = 0;
    const auto call = [&](Call c, size_t more) {
      SCOPED_TRACE(
          fmt::format("{} {} count {}", name(c.collective), print_scheme(c.scheme), c.count));
      const Bytes in = gaussian(send_count(c, 2), c.datatype, 1);
      for (int repeat = 0; repeat < 2; ++repeat) result_of(c, in, comm);
      EXPECT_EQ(stats_of(comm).state_bytes, bytes += more);
    };
    const auto scheme = [](const char* text) { return parse_scheme(text); };
    const Scheme four = scheme("learned4:learn=never");
    call({.scheme = four, .count = 1000}, 3 * 16 * 4);
    call({.scheme = four, .count = 1001}, 3 * 16 * 4);
    call({.scheme = four, .datatype = ncclBfloat16, .count = 1000}, 3 * 16 * 4);
    call({.collective = Collective::kAllGather, .scheme = four, .count = 1000}, 3 * 16 * 4);
    call({.collective = Collective::kBroadcast, .scheme = four, .count = 1000}, 3 * 16 * 4);
    call({.collective = Collective::kBroadcast, .scheme = four, .count = 1000, .root = 1}, 0);
    call({.scheme = scheme("learned2:learn=never"), .count = 1000}, 3 * 4 * 4);
    call({.scheme = scheme("learned8:learn=never"), .count = 1000}, 3 * 256 * 4);
    call({.scheme = scheme("learned4:learn=4294967296"), .count = 1000}, 3 * 16 * 4);
    call({.scheme = four, .count = 1000}, 0);
    call({.scheme = scheme("int4"), .count = 1000}, 0);
    release_communicator(comm, false);
  });
  run_ranks(2, [](int, ncclComm_t comm) {
    EXPECT_EQ(stats_of(comm).state_bytes, 0u);
    release_communicator(comm, false);
  });
}

// Calls of a group, of one kind and of several.
TEST(LearnedCalls, OfAGroup) {
  const Call first{.scheme = parse_scheme("learned4:learn=never"), .count = 3000};
  Call second = first;
  second.scheme = parse_scheme("learned5:learn=never");
  std::vector<Bytes> sent;
  for (int r = 0; r < 3; ++r) sent.push_back(gaussian(first.count, ncclFloat32, r));
  const uint64_t ordinal = next_ordinal();
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const HostStream stream(false);
    std::vector<Bytes> out(4, Bytes(4 * first.count));
    group_start();
    for (int k = 0; k < 4; ++k)
      submit(comm, request_of(first, sent[rank].data(), out[k].data(), stream.get()),
             (k % 2 == 0 ? first : second).scheme);
    group_end();
    stream.synchronize();
    for (int k = 0; k < 4; ++k) {
      Call call = k % 2 == 0 ? first : second;
      call.ordinal = ordinal;
      call.sequence = k;
      EXPECT_EQ(out[k], expected(call, sent)[rank]) << k;
    }
    EXPECT_EQ(communicator(comm)->memory().codebooks().find(kind_of(first))->calls, 2u);
    EXPECT_EQ(stats_of(comm).state_bytes, codec::codebook_bytes(4) + codec::codebook_bytes(5));
    release_communicator(comm, false);
  });
}

// What all ranks learn of what they send, on one machine.
std::vector<float> learned(const Call& call, const std::vector<Bytes>& sent) {
  using codec::Learning;
  const codec::Spec& spec = call.scheme.spec;
  std::vector<float> table(codec::codebook_floats(spec.bits));
  codec::LearningState all{};
  const auto stage = [&](Learning::Stage stage, const Bytes& of, codec::LearningState& state) {
    codec::learn({stage, codec::Dtype::kFloat32, spec.bits, spec.rounding, spec.block,
                  of.size() / sizeof(float), of.data(), &state, table.data()});
  };
  for (const Bytes& of : sent) {
    codec::LearningState own;
    stage(Learning::Stage::kWidest, of, own);
    all.widest = std::max(all.widest, own.widest);
  }
  for (const Bytes& of : sent) stage(Learning::Stage::kHistogram, of, all);
  stage(Learning::Stage::kFit, {}, all);
  return table;
}

// At the first call and the third; of what all of them send, of which the root's may be all.
TEST(LearnedCalls, LearnTheirLevels) {
  constexpr int kRanks = 3;
  for_each_call(
      {"learned4:learn=1+3", "learned3:learn=1+3,round=stochastic",
       "learned6:learn=1+3,algo=twoshot,block=64"},
      [&](Call call) {
        std::vector<std::vector<Bytes>> sent, wanted;
        std::vector<std::vector<float>> tables;
        for (uint64_t k = 0; k < 4; ++k) {
          std::vector<Bytes>& of = sent.emplace_back();
          for (int r = 0; r < kRanks; ++r) {
            const plan::Side& send = plan::traits(call.collective).send;
            of.push_back(gaussian(plan::extent(send, {kRanks, r, call.root}) * call.count,
                                  call.datatype, 10 * k + r));
          }
          tables.push_back(k == 0 || k == 2 ? learned(call, of) : tables.back());
          call.sequence = k;
          call.codebook = tables.back().data();
          wanted.push_back(expected(call, of));
        }
        EXPECT_NE(tables[0], tables[2]);
        run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
          for (size_t k = 0; k < 4; ++k) {
            EXPECT_EQ(result_of(call, sent[k][rank], comm), wanted[k][rank]) << k;
            const Codebook& codebook =
                *communicator(comm)->memory().codebooks().find(kind_of(call));
            EXPECT_TRUE(std::ranges::equal(std::span(codebook.table, tables[k].size()), tables[k]));
            EXPECT_EQ(codebook.calls, k + 1);
            EXPECT_EQ(codebook.fits, k < 2 ? 1 : 2);
          }
          release_communicator(comm, false);
        });
      });
}

// Before one that learns, and after it, all others are done; each goes by the levels of its turn.
TEST(LearnedCalls, OfAGroupLearnInTheirTurn) {
  const Call call{.scheme = parse_scheme("learned4:learn=2+4"), .count = 3000};
  std::vector<std::vector<Bytes>> sent(5);
  for (int k = 0; k < 5; ++k)
    for (int r = 0; r < 3; ++r) sent[k].push_back(gaussian(call.count, ncclFloat32, 10 * k + r));
  const uint64_t ordinal = next_ordinal();
  const std::vector<float> tables[] = {learned(call, sent[1]), learned(call, sent[3])};
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const HostStream stream(false);
    std::vector<Bytes> out(5, Bytes(4 * call.count));
    group_start();
    for (int k = 0; k < 5; ++k)
      submit(comm, request_of(call, sent[k][rank].data(), out[k].data(), stream.get()),
             call.scheme);
    group_end();
    stream.synchronize();
    for (int k = 0; k < 5; ++k) {
      Call one = call;
      one.ordinal = ordinal;
      one.sequence = k;
      one.codebook = k == 0 ? nullptr : tables[k < 3 ? 0 : 1].data();
      EXPECT_EQ(out[k], expected(one, sent[k])[rank]) << k;
    }
    release_communicator(comm, false);
  });
}

// Ranks that have no part in a message cannot hold its levels.
TEST(LearnedCalls, MessagesStayNative) {
  run_ranks(2, [](int rank, ncclComm_t comm) {
    const Call call{.collective = rank == 0 ? Collective::kSend : Collective::kRecv,
                    .scheme = parse_scheme("learned4"),
                    .count = 5000,
                    .root = 1 - rank};
    const HostStream stream(false);
    const Bytes in = gaussian(call.count, ncclFloat32, 5);
    Bytes out = in;
    if (rank == 1) std::ranges::fill(out, 0);
    submit(comm, request_of(call, in.data(), out.data(), stream.get()), call.scheme);
    stream.synchronize();
    EXPECT_EQ(out, in);
    const terseStats_t stats = stats_of(comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_COLLECTIVE], 1u);
    EXPECT_EQ(stats.state_bytes, 0u);
    EXPECT_EQ(stats.calls, 0u);
    release_communicator(comm, false);
  });
}

// There is no asking the other ranks then.
TEST(LearnedCalls, CannotBeginWhileAGraphIsRecorded) {
  const Scheme scheme = parse_scheme("learned4");
  IdleCommunicator c(scheme);
  c.backend.recorded = 1;
  float data[1] = {};
  const Request r{.collective = Collective::kAllReduce,
                  .send = data,
                  .recv = data,
                  .count = 1,
                  .stream = reinterpret_cast<cudaStream_t>(data)};
  const auto call = [&] { terse::submit(c.state, r, route(c.state, r, scheme)); };
  try {
    call();
    ADD_FAILURE() << "no error";
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidUsage);
    EXPECT_NE(e.message.find("learned4:block=128,round=nearest keeps memory between calls, and is "
                             "used for the first time while a graph is recorded; use it once"),
              std::string::npos)
        << e.message;
  }
  const CodebookKind kind{r.collective, 1, codec::Dtype::kFloat32, scheme.spec, scheme.learn};
  c.state.memory().codebooks().make(kind, c.state.memory().stream_sets().of(nullptr));
  EXPECT_THROW(call(), Error) << "not on all ranks yet";
  c.state.memory().codebooks().agree(kind);
  call();
  EXPECT_EQ(c.state.memory().codebooks().find(kind)->calls, 0u)
      << "what is recorded does not count";
}

// Where the levels are as they were when a call was recorded before, what is enqueued may wait for
// what the program does later.
TEST(LearnedCalls, AreRecordedWithoutWaitingUnlessTheLevelsWereFitted) {
  const Scheme scheme = parse_scheme("learned4");
  IdleCommunicator c(scheme);
  const CodebookKind kind{Collective::kAllReduce, 1, codec::Dtype::kFloat32, scheme.spec,
                          scheme.learn};
  c.state.memory().codebooks().make(
      kind, c.state.memory().stream_sets().of(nullptr));  // the track of eager calls
  c.state.memory().codebooks().agree(kind);
  c.backend.recorded = 1;
  float data[1] = {};
  const Request r{.collective = kind.collective,
                  .send = data,
                  .recv = data,
                  .count = 1,
                  .stream = reinterpret_cast<cudaStream_t>(data)};
  const auto waits_of_a_call = [&] {
    const size_t before = c.backend.waits;
    terse::submit(c.state, r, route(c.state, r, scheme));
    return c.backend.waits - before;
  };
  EXPECT_GT(waits_of_a_call(), plan::kLanes) << "the levels are copied";
  for (int call = 0; call < 2; ++call) EXPECT_EQ(waits_of_a_call(), 0u);
  ++c.state.memory().codebooks().find(kind)->fits;
  EXPECT_GT(waits_of_a_call(), plan::kLanes) << "and again";
  EXPECT_EQ(waits_of_a_call(), 0u);
}

class CountingBackend final : public IdleBackend {
 public:
  void* allocate(size_t bytes) override {
    if (refuses) throw Error(ncclSystemError, "no memory");
    made.assign(bytes / sizeof(float), -1.0f);
    return made.data();
  }
  void upload(Stream, void* to, const void* from, size_t bytes) override {
    if (fails) throw Error(ncclSystemError, "no upload");
    std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(to));
  }
  void release(void* memory) noexcept override { released += memory == made.data(); }
  std::vector<float> made;
  bool refuses = false, fails = false;
  int released = 0;
};

TEST(Codebooks, BeginAsUniformLevels) {
  CountingBackend backend;
  StreamSet track(backend, nullptr);
  const CodebookKind kind{
      Collective::kAllReduce, 7, codec::Dtype::kFloat32, {.bits = 5}, {.calls = {}}};
  {
    const Settings settings;
    Codebooks codebooks(backend, settings);
    EXPECT_EQ(codebooks.find(kind), nullptr);
    backend.refuses = true;
    EXPECT_THROW(codebooks.make(kind, track), Error);
    backend.refuses = false, backend.fails = true;
    EXPECT_THROW(codebooks.make(kind, track), Error);
    EXPECT_EQ(backend.released, 1);
    EXPECT_EQ(codebooks.bytes(), 0u);
    backend.fails = false;
    codebooks.make(kind, track);
    EXPECT_TRUE(std::ranges::equal(
        backend.made, std::span(codec::uniform_codebook(5), codec::codebook_floats(5))));
    EXPECT_EQ(codebooks.find(kind), nullptr) << "not on all ranks yet";
    codebooks.agree(kind);
    EXPECT_EQ(codebooks.find(kind)->table, backend.made.data());
    EXPECT_EQ(codebooks.bytes(), codec::codebook_bytes(5));
    backend.made[0] = 0.5f;
    codebooks.make(kind, track);
    EXPECT_EQ(backend.made[0], 0.5f) << "it is there";
    CodebookKind other = kind;
    other.learn = {};
    EXPECT_EQ(codebooks.find(other), nullptr);
    EXPECT_EQ(backend.released, 1);
  }
  EXPECT_EQ(backend.released, 2);
}

// A rank that has a table which others lack would keep levels that these do not have.
TEST(Codebooks, ThatNotAllRanksHaveBeginAnewWhereLevelsAreGiven) {
  CountingBackend backend;
  StreamSet track(backend, nullptr);
  const CodebookKind kind{
      Collective::kAllReduce, 7, codec::Dtype::kFloat32, {.bits = 2}, {.calls = {}}};
  const Levels fitting{.collective = kind.collective,
                       .count = kind.count,
                       .dtype = kind.dtype,
                       .spec = kind.spec,
                       .calls = 5,
                       .fits = 1,
                       .at = {0, 0.25f, 0.5f, 1}};
  Settings settings;
  settings.levels = {fitting};
  Codebooks codebooks(backend, settings);
  codebooks.make(kind, track);
  EXPECT_EQ(backend.made[1], 0.25f);
  codebooks.give({});
  EXPECT_EQ(backend.released, 1);
  EXPECT_EQ(codebooks.bytes(), 0u);
  codebooks.make(kind, track);
  EXPECT_EQ(backend.made[1], codec::uniform_codebook(2)[1]);
  codebooks.agree(kind);
  EXPECT_EQ(codebooks.find(kind)->calls, 0u);
  codebooks.give({fitting});
  EXPECT_EQ(backend.made[1], 0.25f) << "of what all ranks have the levels are given";
  EXPECT_EQ(backend.released, 1);
}

}  // namespace
}  // namespace terse::test
