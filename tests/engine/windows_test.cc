// Fused calls, in windows of memory that ranks of one host share: the bytes of calls in steps.
#include <gtest/gtest.h>

#include <list>
#include <random>

#include "base/error.h"
#include "own_settings.h"
#include "ranks.h"
#include "reference.h"

namespace terse::test {
namespace {

using plan::Collective;

// They are there as long as any communicator.
const Settings& with_window(size_t bytes) {
  static std::list<Settings> all;
  Settings& settings = all.emplace_back(terse::settings());
  settings.window_bytes = bytes;
  settings.fuse = Fuse::kOn;
  return settings;
}

// Makes a call on a rank, and returns what it receives.
Bytes result_of(const Call& call, const Bytes& sent, ncclComm_t comm, int ranks,
                const Settings& settings) {
  Bytes received(recv_count(call, ranks) * datatype_size(call.datatype));
  terse::submit(comm, request_of(call, sent.data(), received.data(), nullptr), call.scheme,
                settings);
  return received;
}

// Makes calls one after another; each rank has the reference's bytes, and `fused` of them are
// fused.
void expect_reference(int ranks, std::vector<Call> calls, size_t fused,
                      const Settings& settings = with_window(size_t{64} << 20)) {
  const uint64_t ordinal = next_ordinal();
  std::vector<std::vector<Bytes>> sent(calls.size()), expect(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].ordinal = ordinal;
    calls[i].sequence = i;
    for (int rank = 0; rank < ranks; ++rank)
      sent[i].push_back(gaussian(send_count(calls[i], ranks), calls[i].datatype,
                                 static_cast<unsigned>(100 * i) + static_cast<unsigned>(rank)));
    expect[i] = expected(calls[i], sent[i]);
  }
  run_ranks(ranks, [&](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = terse::communicator(comm, settings);
    for (size_t i = 0; i < calls.size(); ++i)
      EXPECT_EQ(result_of(calls[i], sent[i][static_cast<size_t>(rank)], comm, ranks, settings),
                expect[i][static_cast<size_t>(rank)])
          << plan::name(calls[i].collective) << " of " << calls[i].count << " on rank " << rank
          << ", number " << i;
    EXPECT_EQ(c->memory().windows().calls(), fused);
    release_communicator(comm, false);
  });
}

TEST(Windows, AnAllReduceGivesTheReferencesBytes) {
  expect_reference(2, {{.scheme = parse_scheme("int8"), .count = 1000}}, 1);
}

TEST(Windows, CallsOfAllKindsFollowEachOther) {
  const Collective kinds[] = {Collective::kAllReduce, Collective::kAllGather,
                              Collective::kReduceScatter, Collective::kAllToAll};
  const char* const schemes[] = {"int8", "int4:round=stochastic", "minmax8:round=shift", "bf16",
                                 "int8:own=exact"};
  std::mt19937 random(1);
  for (const int ranks : {2, 3, 5, 8}) {
    std::vector<Call> calls;
    for (int i = 0; i < 24; ++i)
      calls.push_back({.collective = kinds[random() % std::size(kinds)],
                       .scheme = parse_scheme(schemes[random() % std::size(schemes)]),
                       .count = 1 + random() % 40'000});
    expect_reference(ranks, calls, calls.size());
  }
}

TEST(Windows, GrowWithTheCalls) {
  std::vector<Call> calls;
  for (const size_t count : {1000, 1'000'000, 1000, 3'000'000})
    for (const Collective collective : {Collective::kAllReduce, Collective::kReduceScatter})
      calls.push_back({.collective = collective, .scheme = parse_scheme("int8"), .count = count});
  expect_reference(3, calls, calls.size());
}

TEST(Windows, ACallThatFindsNoRoomIsDoneInSteps) {
  const Call small{.scheme = parse_scheme("int8"), .count = 10'000};
  Call large = small;
  large.count = 1'000'000;
  expect_reference(3, {small, large, small}, 2, with_window(size_t{256} << 10));
}

TEST(Windows, AreNotMadeOfNoBytes) {
  expect_reference(2, {{.scheme = parse_scheme("int8"), .count = 1000}}, 0, with_window(0));
}

TEST(Windows, ARankThatHasLeftIsNotWaitedFor) {
  const Settings& settings = with_window(size_t{1} << 20);
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const Call call{.scheme = parse_scheme("int8"), .count = 10'000};
    const Bytes sent(call.count * sizeof(float), '\x11');
    result_of(call, sent, comm, 3, settings);
    if (rank != 1) {
      try {
        result_of(call, sent, comm, 3, settings);
        ADD_FAILURE() << "there is a result";
      } catch (const Error& e) {
        EXPECT_NE(e.message.find("rank 1 has left, for which a call waited"), std::string::npos)
            << e.message;
      }
    }
    release_communicator(comm, true);
  });
}

// What they would wait for never comes.
TEST(Windows, ARankInACallInStepsIsAMismatch) {
  const Settings& settings = with_window(size_t{256} << 10);
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const CommunicatorPointer c = terse::communicator(comm, settings);
    Call call{.scheme = parse_scheme("int8"), .count = 1'000'000};
    const Bytes sent(call.count * sizeof(float), '\x11');
    for (const size_t count : {1'000'000, 10'000}) {
      call.count = count;
      result_of(call, sent, comm, 2, settings);
    }
    call.count = rank == 0 ? 10'000 : 1'000'000;
    Bytes received(sent.size(), '\x5a');
    std::string error;
    try {
      terse::submit(comm, request_of(call, sent.data(), received.data(), nullptr), call.scheme,
                    settings);
    } catch (const Error& e) {
      error = e.message;
    }
    EXPECT_NE(error.find("AllReduce of 1000000 float32, sum"), std::string::npos) << error;
    EXPECT_EQ(received, Bytes(received.size(), '\x5a'));
    EXPECT_EQ(c->memory().windows().calls(), rank == 0 ? 2u : 1u);
    release_communicator(comm, true);
  });
}

}  // namespace
}  // namespace terse::test
