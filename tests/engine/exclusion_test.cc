// Excluded elements get what native NCCL gives, all others what they get without exclusions.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "client_stats.h"
#include "policy/settings.h"
#include "ranks.h"
#include "terse_client.h"
#include "trials.h"

namespace terse::test {
namespace {

using plan::Collective;
using Ranges = std::vector<terseRange_t>;

bool has_shards(const Call& call) { return call.collective != Collective::kAllReduce; }

size_t whole(const Call& call, int ranks) { return call.count * (has_shards(call) ? ranks : 1); }

// Up to `most` ranges; some reach over the shards of several ranks.
Ranges random_ranges(std::mt19937& random, size_t elements, size_t most) {
  Ranges ranges;
  for (size_t first = random() % elements; ranges.size() < most && first < elements;) {
    const size_t longest = std::max<size_t>(1, elements / (1 + random() % 20));
    const size_t count = std::min(1 + random() % longest, elements - first);
    ranges.push_back({first, count});
    first += count + random() % (elements / 4 + 1);
  }
  return ranges;
}

bool excluded(const Ranges& ranges, size_t element) {
  return std::ranges::any_of(ranges, [&](const terseRange_t& r) {
    return element >= r.first && element - r.first < r.count;
  });
}

// Small whole numbers, of which every sum of a few is exact in any order and type; the average of
// two, four or eight of them as well.
Bytes whole_numbers(const Call& call, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<float> values(count);
  for (float& x : values) x = static_cast<float>(static_cast<int>(random() % 9) - 4);
  return bytes_of(values, call.datatype);
}

struct Case {
  Call call;
  int ranks;
  bool in_place, null_stream;
  Ranges ranges;
};

Case random_case(std::mt19937& random) {
  static const char* const kSchemes[] = {"int4", "int8:round=stochastic",
                                         "minmax4:block=1024,round=shift", "int4:algo=oneshot",
                                         "int3:algo=twoshot,block=32"};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  Case c;
  c.call.collective = static_cast<Collective>(random() % 3);
  c.call.scheme = parse_scheme(kSchemes[random() % std::size(kSchemes)]);
  c.call.datatype = kTypes[random() % 3];
  c.call.op = random() % 2 ? ncclSum : ncclAvg;
  c.call.count = 1 + random() % (random() % 4 == 0 ? 60'000 : 3'000);
  c.ranks = 1 << random() % 4;
  if (c.call.op == ncclSum) c.ranks = 1 + static_cast<int>(random() % 8);
  c.in_place = random() % 2;
  c.null_stream = random() % 2;
  c.ranges = random_ranges(random, whole(c.call, c.ranks), 1 + random() % 6);
  return c;
}

std::string describe(const Case& c) {
  std::string text =
      fmt::format("{} {} count {} type {} op {} ranks {}{}:", name(c.call.collective),
                  print_scheme(c.call.scheme), c.call.count, static_cast<int>(c.call.datatype),
                  static_cast<int>(c.call.op), c.ranks, c.in_place ? " in place" : "");
  for (const terseRange_t& r : c.ranges) text += fmt::format(" {}+{}", r.first, r.count);
  return text;
}

size_t elements(const Ranges& ranges) {
  size_t sum = 0;
  for (const terseRange_t& r : ranges) sum += r.count;
  return sum;
}

// Whether what stays exact, and all of the message as it is packed, are no fewer bytes than it has:
// then NCCL gets the call as it is. An algorithm that is named is not given up; those here are
// AllReduce's.
bool stays_native(const Case& c) {
  const bool is_taken = c.call.collective == Collective::kAllReduce;
  if (is_taken && c.call.scheme.algorithm != plan::Algo{}) return false;
  const size_t size = datatype_size(c.call.datatype), count = whole(c.call, c.ranks);
  return size * elements(c.ranges) + codec::body_size(c.call.scheme.spec, count) >= size * count;
}

// A rank's buffers: apart, or one in the other as NCCL has it in place.
struct Buffers {
  Buffers(const Case& c, int rank, const Bytes& sent)
      : send(sent), recv(recv_count(c.call, c.ranks) * datatype_size(c.call.datatype)) {
    in = send.data();
    out = recv.data();
    if (!c.in_place) return;
    const size_t own = rank * c.call.count * datatype_size(c.call.datatype);
    if (c.call.collective == Collective::kAllGather) {
      in = recv.data() + own;
      std::ranges::copy(sent, in);
    } else {
      out = send.data() + (has_shards(c.call) ? own : 0);
    }
  }
  Bytes send, recv;
  char *in, *out;
};

class Checker {
 public:
  explicit Checker(Case the_case) : c_(std::move(the_case)) {
    for (int r = 0; r < c_.ranks; ++r)
      sent_.push_back(whole_numbers(c_.call, send_count(c_.call, c_.ranks), 7 + r));
    truth_ = exact(c_.call, sent_);
    Call call = c_.call;
    if (stays_native(c_)) c_.ranges = {{0, whole(c_.call, c_.ranks)}};
    if (c_.ranks > 1) call.ordinal = next_ordinal();  // one rank alone copies
    for (; call.sequence < 2; ++call.sequence)
      wanted_.push_back(c_.ranks > 1 ? expected(call, sent_) : sent_);
  }

  void check() {
    SCOPED_TRACE(describe(c_));
    run_ranks(c_.ranks, [&](int rank, ncclComm_t comm) { play(rank, comm); });
  }

 private:
  void play(int rank, ncclComm_t comm) const {
    const SchemeHandle scheme(c_.call.scheme);
    const HostStream stream(c_.null_stream);
    for (unsigned k = 0; k < wanted_.size(); ++k) {
      // The first call is as without exclusions.
      const Ranges ranges = k == 0 ? Ranges() : c_.ranges;
      if (k > 0) {
        ASSERT_EQ(terseCommExclude(comm, whole(c_.call, c_.ranks), ranges.data(), ranges.size()),
                  ncclSuccess)
            << terseGetLastError();
      }
      Buffers b(c_, rank, sent_[rank]);
      ASSERT_EQ(call_terse(c_.call, b.in, b.out, scheme.get(), comm, stream.get()), ncclSuccess)
          << terseGetLastError();
      ASSERT_EQ(stream.synchronize(), ncclSuccess);
      expect(rank, k, ranges, b.out);
    }
    ASSERT_EQ(terseCommRelease(comm), ncclSuccess);
  }

  void expect(int rank, unsigned k, const Ranges& ranges, const char* out) const {
    const size_t size = datatype_size(c_.call.datatype), count = recv_count(c_.call, c_.ranks);
    const size_t own = c_.call.collective == Collective::kReduceScatter ? rank * count : 0;
    const std::vector<double> got = values(Bytes(out, out + count * size), c_.call.datatype);
    for (size_t i = 0; i < count; ++i) {
      if (excluded(ranges, own + i))
        ASSERT_EQ(got[i], truth_[rank][i]) << "excluded element " << i << " of rank " << rank;
      else
        ASSERT_TRUE(std::equal(out + i * size, out + (i + 1) * size,
                               wanted_[k][rank].begin() + static_cast<ptrdiff_t>(i * size)))
            << "element " << i << " of rank " << rank << ", call " << k;
    }
  }

  Case c_;
  std::vector<Bytes> sent_;
  std::vector<std::vector<double>> truth_;
  std::vector<std::vector<Bytes>> wanted_;  // by call, by rank
};

TEST(Exclusions, AreExactAndLeaveTheRestAsItIs) {
  std::mt19937 random(41);
  for (int trial = 0; trial < trials(40, 10) && !testing::Test::HasFailure(); ++trial)
    Checker(random_case(random)).check();
}

// What stays exact is sent beside the codes of all: that may be more than NCCL has to send.
TEST(Exclusions, OfMostOfAMessageLeaveItToNccl) {
  constexpr size_t kCount = 4'096;
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    struct Case {
      const char* scheme;
      size_t exact;
      bool stays_native;
    };
    // Of 4 bytes an element int8 leaves 2.94 to what is exact, and int4 3.44.
    const Case cases[] = {{"int8", kCount * 73 / 100, false},
                          {"int8", kCount * 75 / 100, true},
                          {"int4", kCount * 75 / 100, false},
                          {"int4", kCount, true},
                          {"int8:algo=twoshot", kCount, false}};
    size_t natively = 0;
    for (const Case& c : cases) {
      SCOPED_TRACE(c.scheme);
      const terseRange_t range{0, c.exact};
      ASSERT_EQ(terseCommExclude(comm, kCount, &range, 1), ncclSuccess) << terseGetLastError();
      std::vector<float> data(kCount);
      for (size_t i = 0; i < kCount; ++i) data[i] = static_cast<float>(i % 97 + rank);
      const SchemeHandle scheme(parse_scheme(c.scheme));
      ASSERT_EQ(terseAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclSum, scheme.get(),
                               comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
      size_t exact = 0;
      for (size_t i = 0; i < kCount; ++i) exact += data[i] == static_cast<float>(2 * (i % 97) + 1);
      EXPECT_EQ(exact == kCount, c.stays_native || c.exact == kCount);
      EXPECT_GE(exact, c.exact);
      natively += c.stays_native;
      const terseStats_t stats = client_stats(comm);
      EXPECT_EQ(stats.bypasses[TERSE_BYPASS_EXACT], natively);
    }
    terseCommRelease(comm);
  });
}

TEST(Exclusions, OfSeveralChunks) {
  std::mt19937 random(42);
  for (int collective = 0; collective < 3 && !testing::Test::HasFailure(); ++collective) {
    Case c = random_case(random);
    c.call.collective = static_cast<Collective>(collective);
    c.call.count = 1'500'007;
    c.ranks = 2;
    c.ranges = random_ranges(random, whole(c.call, c.ranks), 5);
    Checker(c).check();
  }
}

// Only messages of that size, and none after they are taken back.
TEST(Exclusions, AreForMessagesOfTheirSize) {
  constexpr size_t kCount = 5'000;
  const Call call{.scheme = parse_scheme("int2"), .count = kCount, .ordinal = next_ordinal()};
  const std::vector<Bytes> sent = {gaussian(kCount, ncclFloat32, 1),
                                   gaussian(kCount, ncclFloat32, 2)};
  const Bytes want = expected(call, sent)[0];
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(call.scheme);
    const terseRange_t most{0, kCount * 3 / 4};
    const auto differs = [&] {
      Bytes out(kCount * 4);
      EXPECT_EQ(call_terse(call, sent[rank].data(), out.data(), scheme.get(), comm, nullptr),
                ncclSuccess);
      return out != want;
    };
    for (const size_t other : {kCount - 1, kCount + 1, 2 * kCount}) {
      const terseRange_t some{0, kCount - 1};
      ASSERT_EQ(terseCommExclude(comm, other, &some, 1), ncclSuccess) << terseGetLastError();
    }
    EXPECT_FALSE(differs());
    ASSERT_EQ(terseCommExclude(comm, kCount, &most, 1), ncclSuccess);
    EXPECT_TRUE(differs());
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.wire_bytes % stats.raw_bytes, stats.wire_bytes);
    EXPECT_GT(stats.wire_bytes,
              stats.raw_bytes / 3);  // the second call's bytes travel natively too
    ASSERT_EQ(terseCommExclude(comm, kCount, nullptr, 0), ncclSuccess);
    EXPECT_FALSE(differs());
    terseCommRelease(comm);
  });
}

// While a rank still waits for another one, it must not quantize in place what is to travel
// exactly.
TEST(Exclusions, InPlaceBesideALateRank) {
  constexpr size_t kCount = 3'000;
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int2"));
    const terseRange_t most{0, 2 * kCount * 9 / 10};  // of all, the call would be NCCL's
    ASSERT_EQ(terseCommExclude(comm, 2 * kCount, &most, 1), ncclSuccess);
    std::vector<float> data(2 * kCount);
    for (int k = 0; k < 2; ++k) {  // the first call also makes the ranks meet
      float* const own = data.data() + rank * kCount;
      for (size_t i = 0; i < kCount; ++i) own[i] = static_cast<float>(i % 31 + rank);
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));
      ASSERT_EQ(terseAllGather(own, data.data(), kCount, ncclFloat32, scheme.get(), comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
      for (size_t i = 0; i < most.count; ++i)
        ASSERT_EQ(data[i], static_cast<float>(i % kCount % 31 + i / kCount)) << i;
    }
    terseCommRelease(comm);
  });
}

// Ranks that have agreed before wait for one that writes a checkpoint: for ten times as long.
TEST(Exclusions, WaitForALateRank) {
  const std::chrono::seconds timeout(settings().timeout_seconds);
  if (timeout.count() > 2) GTEST_SKIP() << "with a short TERSE_TIMEOUT";
  constexpr size_t kCount = 100'000;
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int4"));
    std::vector<float> data(kCount, 1);
    const auto sum = [&] {
      ASSERT_EQ(terseAllReduce(data.data(), data.data(), kCount, ncclFloat32, ncclAvg, scheme.get(),
                               comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
    };
    sum();
    if (rank == 0) std::this_thread::sleep_for(2 * timeout);
    const terseRange_t some{0, 10};
    ASSERT_EQ(terseCommExclude(comm, kCount, &some, 1), ncclSuccess) << terseGetLastError();
    sum();
    EXPECT_EQ(data, std::vector<float>(kCount, 1));
    terseCommRelease(comm);
  });
}

// A communicator that a rank has not come to in time does not begin anew: NCCL still waits for it.
TEST(Exclusions, WaitForALateRankThatIsGivenUp) {
  const std::chrono::seconds timeout(settings().timeout_seconds);
  if (timeout.count() > 2) GTEST_SKIP() << "with a short TERSE_TIMEOUT";
  std::atomic<bool> over = false;
  run_ranks(2, [&](int rank, ncclComm_t whole) {
    ncclComm_t comm = nullptr;
    ASSERT_EQ(ncclCommSplit(whole, 0, rank, &comm, nullptr), ncclSuccess);
    const SchemeHandle scheme(parse_scheme("int4"));
    std::vector<float> data(5000, 1);
    const auto sum = [&] {
      return terseAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
                            scheme.get(), comm, nullptr);
    };
    if (rank == 0) {
      EXPECT_NE(sum(), ncclSuccess);
      EXPECT_EQ(terseCommRelease(comm), ncclInvalidUsage);
      EXPECT_NE(std::string(terseGetLastError()).find("to be aborted"), std::string::npos);
      EXPECT_NE(sum(), ncclSuccess) << "it is refused as before";
      over = true;
    }
    while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(terseCommAbort(comm), ncclSuccess);
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
}

// Several communicators of one thread, in one group.
TEST(Exclusions, InAGroup) {
  constexpr int kRanks = 3;
  constexpr size_t kCount = 4'000;
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess);
  next_ordinal();
  const terseRange_t range{100, 50};
  std::vector<std::thread> threads;
  for (ncclComm_t comm : comms)
    threads.emplace_back(
        [=] { EXPECT_EQ(terseCommExclude(comm, kCount, &range, 1), ncclSuccess); });
  for (std::thread& thread : threads) thread.join();
  const SchemeHandle scheme(parse_scheme("int4"));
  std::vector<std::vector<float>> data(kRanks, std::vector<float>(kCount));
  for (int r = 0; r < kRanks; ++r)
    for (size_t i = 0; i < kCount; ++i) data[r][i] = static_cast<float>(i % 13 + r);
  terseGroupStart();
  EXPECT_EQ(terseCommExclude(comms[0], kCount, &range, 1), ncclInvalidUsage);
  for (int r = 0; r < kRanks; ++r)
    terseAllReduce(data[r].data(), data[r].data(), kCount, ncclFloat32, ncclSum, scheme.get(),
                   comms[r], nullptr);
  ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
  size_t inexact = 0;
  for (size_t i = 0; i < kCount; ++i) {
    const float sum = static_cast<float>(3 * (i % 13) + 3);
    if (i >= 100 && i < 150) {
      for (int r = 0; r < kRanks; ++r) EXPECT_EQ(data[r][i], sum) << i;
    } else {
      inexact += data[0][i] != sum;
    }
  }
  EXPECT_GT(inexact, kCount / 10);
  for (ncclComm_t comm : comms) {
    terseCommRelease(comm);
    ncclCommDestroy(comm);
  }
}

// Beside calls that are compressed, differences and messages.
TEST(Exclusions, InAGroupOfWhichOneCallIsNcclsForThem) {
  constexpr size_t kCount = 3'000;
  next_ordinal();
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int4")), delta(parse_scheme("int4:delta=shadow"));
    const terseRange_t everything{0, kCount}, all_shards{0, 3 * kCount};
    ASSERT_EQ(terseCommExclude(comm, kCount, &everything, 1), ncclSuccess) << terseGetLastError();
    ASSERT_EQ(terseCommExclude(comm, 3 * kCount, &all_shards, 1), ncclSuccess);
    const auto value = [](size_t i, int of) { return static_cast<float>(i % 13 + of); };
    for (int round = 0; round < 3; ++round) {
      std::vector<float> exact(kCount), other(kCount + 1), own(kCount), all(3 * kCount),
          got(kCount + 1);
      for (size_t i = 0; i < kCount; ++i) exact[i] = other[i] = own[i] = value(i, rank);
      terseGroupStart();
      terseAllReduce(exact.data(), exact.data(), kCount, ncclFloat32, ncclSum, scheme.get(), comm,
                     nullptr);
      terseAllReduce(other.data(), other.data(), kCount + 1, ncclFloat32, ncclSum, scheme.get(),
                     comm, nullptr);
      terseAllGather(own.data(), all.data(), kCount, ncclFloat32, delta.get(), comm, nullptr);
      terseSend(own.data(), kCount, ncclFloat32, (rank + 1) % 3, scheme.get(), comm, nullptr);
      terseRecv(got.data(), kCount, ncclFloat32, (rank + 2) % 3, scheme.get(), comm, nullptr);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      size_t inexact = 0;
      for (size_t i = 0; i < kCount; ++i) {
        const float sum = 3 * value(i, 1);
        ASSERT_EQ(exact[i], sum) << i;
        ASSERT_NEAR(other[i], sum, 4) << i;
        ASSERT_NEAR(got[i], value(i, (rank + 2) % 3), 2) << i;
        for (int r = 0; r < 3; ++r) ASSERT_EQ(all[r * kCount + i], value(i, r)) << i;
        inexact += other[i] != sum;
      }
      EXPECT_GT(inexact, kCount / 10);
    }
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_EXACT], 6u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 0u);
    terseCommRelease(comm);
  });
}

// Calls of one communicator that go together, of which some have exclusions.
TEST(Exclusions, BesideCallsWithoutThem) {
  constexpr size_t kCounts[] = {3'000, 4'000, 5'000, 3'000};
  const terseRange_t range{1'000, 500};
  next_ordinal();
  run_ranks(3, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme(parse_scheme("int2"));
    ASSERT_EQ(terseCommExclude(comm, 3'000, &range, 1), ncclSuccess) << terseGetLastError();
    for (int round = 0; round < 3; ++round) {
      std::vector<std::vector<float>> data;
      for (const size_t count : kCounts) {
        data.emplace_back(count);
        for (size_t i = 0; i < count; ++i) data.back()[i] = static_cast<float>(i % 13 + rank);
      }
      terseGroupStart();
      for (auto& d : data)
        terseAllReduce(d.data(), d.data(), d.size(), ncclFloat32, ncclSum, scheme.get(), comm,
                       nullptr);
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
      for (const auto& d : data) {
        size_t inexact = 0;
        for (size_t i = 0; i < d.size(); ++i) {
          const float sum = static_cast<float>(3 * (i % 13) + 3);
          if (d.size() == 3'000 && i >= 1'000 && i < 1'500)
            ASSERT_EQ(d[i], sum) << i;
          else
            inexact += d[i] != sum;
        }
        EXPECT_GT(inexact, d.size() / 10) << d.size();
      }
    }
    terseCommRelease(comm);
  });
}

// An error on every rank, also where only one is wrong, and nothing has changed.
TEST(Exclusions, ThatCannotBeAreErrors) {
  const struct {
    size_t elements;
    Ranges of_rank_1;
    ncclResult_t result;
    const char* cause;
  } kCases[] = {
      {100, {{0, 10}, {20, 6}}, ncclInvalidUsage, "rank 0 excludes other ranges than this rank"},
      {100, {}, ncclInvalidUsage, "rank 0 excludes other ranges"},
      {0, {{0, 1}}, ncclInvalidArgument, "of no elements"},
      {100, {{0, 0}}, ncclInvalidArgument, "range 0 has no elements"},
      {100, {{99, 2}}, ncclInvalidArgument, "range 0, elements 99 to 100, is beyond"},
      {100, {{5, static_cast<size_t>(-1)}}, ncclInvalidArgument, "beyond"},
      {100, {{static_cast<size_t>(-1), 2}}, ncclInvalidArgument, "beyond"},
      {100, {{10, 5}, {14, 1}}, ncclInvalidArgument, "range 1 begins at element 14"},
      {100, {{10, 5}, {2, 1}}, ncclInvalidArgument, "range 1 begins at element 2"},
  };
  for (const auto& k : kCases)
    run_ranks(3, [&](int rank, ncclComm_t comm) {
      const Ranges good = {{0, 10}, {20, 5}};
      const Ranges& mine = rank == 1 ? k.of_rank_1 : good;
      const size_t elements = rank == 1 ? k.elements : 100;
      const ncclResult_t result = terseCommExclude(comm, elements, mine.data(), mine.size());
      const std::string message = terseGetLastError();
      EXPECT_EQ(result, rank == 1 ? k.result : ncclInvalidUsage) << message;
      EXPECT_NE(message.find(rank == 1 ? k.cause : "rank 1 excludes other ranges"),
                std::string::npos)
          << message;
      EXPECT_NE(message.find(fmt::format("rank {} of 3", rank)), std::string::npos) << message;
      terseCommRelease(comm);
    });
  EXPECT_EQ(terseCommExclude(nullptr, 1, nullptr, 0), ncclInvalidArgument);
  run_ranks(1, [](int, ncclComm_t comm) {
    EXPECT_EQ(terseCommExclude(comm, 5, nullptr, 2), ncclInvalidArgument);
    terseCommRelease(comm);
  });
}

}  // namespace
}  // namespace terse::test
