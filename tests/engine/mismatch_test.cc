// Ranks that are at different compressed calls get an error, and never numbers.
#include <gtest/gtest.h>

#include <functional>

#include "host_stream.h"
#include "ranks.h"
#include "reference.h"
#include "scheme_handle.h"
#include "terse_client.h"

namespace terse::test {
namespace {

constexpr size_t kLargest = 500'000;  // elements that a rank sends or receives
constexpr char kUntouched = '\x5a';

struct Buffers {
  Bytes in = Bytes(kLargest * 4, '\x11'), out = Bytes(kLargest * 4, kUntouched);

  bool untouched() const { return out == Bytes(out.size(), kUntouched); }
};

ncclResult_t make(const Call& call, Buffers& b, const terseScheme_t* scheme, ncclComm_t comm,
                  cudaStream_t stream) {
  return call_terse(call, b.in.data(), b.out.data(), scheme, comm, stream);
}

// The ranks agree on the scheme and have memory for all calls before the one that is `call` of each
// rank.
void meet(const Call& call, ncclComm_t comm) {
  Buffers warm;
  Call largest = call;
  for (const auto collective : {plan::Collective::kAllReduce, plan::Collective::kReduceScatter,
                                plan::Collective::kAllGather}) {
    largest.collective = collective;
    largest.count = collective == plan::Collective::kAllReduce ? kLargest : kLargest / 4;
    const SchemeHandle scheme(call.scheme);
    ASSERT_EQ(make(largest, warm, scheme.get(), comm, nullptr), ncclSuccess) << terseGetLastError();
  }
}

// Of ranks each of which makes a call of its own.
void expect_mismatch(const std::function<Call(int rank)>& call_of, const char* about,
                     int ranks = 2) {
  run_ranks(ranks, [&](int rank, ncclComm_t comm) {
    const Call own = call_of(rank);
    for (int other = 0; other < ranks; ++other) meet(call_of(other), comm);
    const SchemeHandle scheme(own.scheme);
    Buffers b;
    EXPECT_NE(make(own, b, scheme.get(), comm, nullptr), ncclSuccess) << about;
    EXPECT_TRUE(b.untouched()) << about << ", rank " << rank;
    const std::string error = terseGetLastError();
    EXPECT_NE(error.find(plan::name(own.collective)), std::string::npos) << error;
    EXPECT_NE(make(own, b, scheme.get(), comm, nullptr), ncclSuccess) << "the next call";
    EXPECT_TRUE(b.untouched()) << about;
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Mismatch, UnequalCountsAreAnErrorThatNamesBothCalls) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    Call call{.scheme = parse_scheme("int8"), .count = rank == 0 ? 409'600u : 409'598u};
    meet(call, comm);
    const SchemeHandle scheme(call.scheme);
    Buffers b;
    // Of itself, or of what the other rank has found before.
    EXPECT_NE(make(call, b, scheme.get(), comm, nullptr), ncclSuccess);
    const std::string error = terseGetLastError();
    for (const char* part : {"AllReduce of 409600 float32, sum", "AllReduce of 409598 float32, sum",
                             "communicator #", "different calls"})
      EXPECT_NE(error.find(part), std::string::npos) << error;
    EXPECT_TRUE(b.untouched());
    EXPECT_NE(make(call, b, scheme.get(), comm, nullptr), ncclSuccess) << "it is refused";
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// Alike, but for a format of as many bytes on one rank.
Call of_format(int rank) {
  return {.scheme = parse_scheme(rank == 0 ? "int8" : "fp8e4m3"), .count = 409'600};
}

TEST(Mismatch, OfSchemesOnWhichAllAgreeIsAnError) { expect_mismatch(of_format, "scheme"); }

// On which the ranks also meet for memory.
TEST(Mismatch, OfTheFirstCallsIsAnError) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int8"));
    const Call call{
        .scheme = parse_scheme("int8"), .op = rank == 0 ? ncclSum : ncclAvg, .count = 409'600};
    Buffers b;
    EXPECT_NE(make(call, b, scheme.get(), comm, nullptr), ncclSuccess);
    EXPECT_TRUE(b.untouched());
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Mismatch, OfOneRankOfThreeIsAnErrorOnAll) {
  expect_mismatch(
      [](int rank) {
        return Call{
            .scheme = parse_scheme("int8"), .op = rank == 2 ? ncclAvg : ncclSum, .count = 300'000};
      },
      "operation of one", 3);
}

TEST(Mismatch, OfGathersAndScattersIsAnError) {
  for (const auto collective : {plan::Collective::kAllGather, plan::Collective::kReduceScatter})
    expect_mismatch(
        [&](int rank) {
          return Call{.collective = collective,
                      .scheme = parse_scheme("int8"),
                      .count = 102'400u - 2 * static_cast<size_t>(rank)};
        },
        "count of a part");
}

// What is enqueued fails when it runs, and with it the stream; or while more of it is enqueued.
TEST(Mismatch, OnAStreamIsItsError) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const Call call = of_format(rank);
    for (const int other : {0, 1}) meet(of_format(other), comm);
    const SchemeHandle scheme(call.scheme);
    Buffers b;
    cudaStream_t stream = nullptr;
    ASSERT_EQ(hostncclStreamCreate(&stream), ncclSuccess);
    const ncclResult_t enqueued = make(call, b, scheme.get(), comm, stream);
    const ncclResult_t ended = hostncclStreamSynchronize(stream);
    EXPECT_TRUE(enqueued != ncclSuccess || ended != ncclSuccess);
    ncclResult_t state = ncclSuccess;
    while (state == ncclSuccess)  // as soon as its thread has come to it
      ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
    EXPECT_TRUE(b.untouched());
    EXPECT_NE(make(call, b, scheme.get(), comm, stream), ncclSuccess) << "it is refused";
    EXPECT_EQ(hostncclStreamDestroy(stream), ncclSuccess);
    (void)terseCommRelease(comm);  // says once more what failed
  });
}

TEST(Mismatch, InAGroupIsTheGroupsError) {
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const Call alike = of_format(0), own = of_format(rank);
    for (const int other : {0, 1}) meet(of_format(other), comm);
    const SchemeHandle first(alike.scheme), second(own.scheme);
    Buffers a, b;
    ASSERT_EQ(terseGroupStart(), ncclSuccess);
    EXPECT_EQ(make(alike, a, first.get(), comm, nullptr), ncclSuccess);
    EXPECT_EQ(make(own, b, second.get(), comm, nullptr), ncclSuccess);
    EXPECT_NE(terseGroupEnd(), ncclSuccess);
    EXPECT_TRUE(b.untouched());
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

class EachScheme : public testing::TestWithParam<const char*> {
 protected:
  Call call() const { return {.scheme = parse_scheme(GetParam()), .count = 409'600}; }
};

TEST_P(EachScheme, RefusesAnotherCount) {
  expect_mismatch(
      [&](int rank) {
        Call own = call();
        own.count -= 2 * rank;
        return own;
      },
      "count");
}

TEST_P(EachScheme, RefusesAnotherOperation) {
  expect_mismatch(
      [&](int rank) {
        Call own = call();
        own.op = rank == 0 ? ncclSum : ncclAvg;
        return own;
      },
      "operation");
}

class EachSchemeOfHalves : public EachScheme {};
TEST_P(EachSchemeOfHalves, RefusesAnotherType) {
  expect_mismatch(
      [&](int rank) {
        Call own = call();
        own.datatype = rank == 0 ? ncclFloat16 : ncclBfloat16;
        return own;
      },
      "type");
}

INSTANTIATE_TEST_SUITE_P(Mismatch, EachSchemeOfHalves,
                         testing::Values("int8", "int4", "learned4", "linear8", "exp8", "mxfp8"));

TEST_P(EachScheme, RefusesAnotherCollective) {
  expect_mismatch(
      [&](int rank) {
        Call own = call();
        if (rank == 0) return own;
        own.collective = plan::Collective::kReduceScatter;
        own.count /= 4;
        return own;
      },
      "collective");
}

INSTANTIATE_TEST_SUITE_P(Mismatch, EachScheme,
                         testing::Values("int8", "int4", "learned4", "linear8", "exp8", "bf16",
                                         "mxfp8"));

}  // namespace
}  // namespace terse::test
