// AllGathers of differences: what every rank gets, call by call, as a plain model of it has it; and
// when calls go in full.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>

#include "codec/codec.h"
#include "ranks.h"
#include "terse_client.h"

namespace terse::test {
namespace {

using Floats = std::vector<float>;

enum class Event {
  kStep,      // weights change a little
  kNothing,   // no rank's weights change
  kOneStays,  // those of one rank do not
  kCorrupt,   // a rank's memory of another's shard is written to
  kSwitch,    // the buffer gets the weights of another layer
};

struct Case {
  int ranks;
  size_t count;
  ncclDataType_t datatype;
  std::string format;
  bool inplace;  // delta=inplace, otherwise shadow
  bool own_exact;
  uint32_t every;
  bool in_place;  // the send buffer is part of the receive buffer
  bool null_stream;
  size_t buckets;
  std::vector<std::pair<size_t, Event>> script;  // of which bucket, what is before the call
  std::optional<terseRange_t> exact = {};        // elements of the whole message

  bool is_exact(size_t shard, size_t i) const {
    const size_t element = shard * count + i;
    return exact && element >= exact->first && element - exact->first < exact->count;
  }
};

std::string scheme_of(const Case& c) {
  return fmt::format("{},delta={}{}{}", c.format, c.inplace ? "inplace" : "shadow",
                     c.every != 0 ? fmt::format(",every={}", c.every) : "",
                     c.own_exact ? "" : ",own=quantized");
}

Case some_case(std::mt19937& random, size_t most) {
  static const char* const kFormats[] = {"int4:block=2048",     "minmax4:block=128",
                                         "int8:block=64",       "int2:block=32,scale=bf16",
                                         "mxfp4:round=nearest", "nvfp4:round=nearest"};
  static constexpr ncclDataType_t kTypes[] = {ncclFloat32, ncclFloat16, ncclBfloat16};
  Case c{.ranks = 2 + static_cast<int>(random() % 5),
         .count = 1 + random() % most,
         .datatype = kTypes[random() % 3],
         .format = kFormats[random() % std::size(kFormats)],
         .inplace = random() % 2 == 0,
         .own_exact = random() % 3 != 0,
         .every = random() % 3 == 0 ? static_cast<uint32_t>(1 + random() % 4) : 0,
         .in_place = random() % 2 == 0,
         .null_stream = random() % 2 == 0,
         .buckets = 1 + random() % 3,
         .script = {}};
  for (int call = 0; call < 24; ++call)
    c.script.emplace_back(random() % c.buckets, static_cast<Event>(random() % 5));
  if (random() % 3 == 0) {
    const size_t whole = c.ranks * c.count, first = random() % whole;
    c.exact = terseRange_t{first, 1 + random() % (whole - first)};
  }
  return c;
}

Floats floats_of(const Bytes& bytes, ncclDataType_t type) {
  Floats all;
  for (const double x : values(bytes, type)) all.push_back(static_cast<float>(x));
  return all;
}

// There and back.
Floats quantized(const codec::Spec& spec, const Floats& x) {
  Bytes packed(codec::body_size(spec, x.size()));
  Floats out(x.size());
  const codec::Source raw{x.data(), codec::Dtype::kFloat32}, body{packed.data(), spec};
  codec::combine({.sources = {&raw, 1},
                  .target = {packed.data(), spec},
                  .total = x.size(),
                  .count = x.size()});
  codec::combine({.sources = {&body, 1},
                  .target = {out.data(), codec::Dtype::kFloat32},
                  .total = x.size(),
                  .count = x.size()});
  return out;
}

// One bucket as all ranks have it: weights by rank, and what is held of them.
struct Bucket {
  std::vector<Bytes> weights, base, sent;
  uint32_t calls = 0;
  bool held = false;
};

struct Expected {
  std::vector<Bytes> weights, others;  // by rank: its own, and what others get of it
  size_t corrupts = SIZE_MAX;          // the rank that writes to what it holds of the next one
};

struct Counts {
  size_t differences = 0, unchanged = 0, first = 0, others = 0, every = 0;
};

// The whole script, plainly.
class Model {
 public:
  explicit Model(const Case& c) : c_(c), spec_(parse_scheme(c.format).spec), buckets_(c.buckets) {
    for (size_t b = 0; b < c.buckets; ++b) start(buckets_[b], 100 * b);
    for (const auto& [bucket, event] : c.script) steps.push_back(play(buckets_[bucket], event));
  }

  std::vector<Expected> steps;
  Counts counts;

 private:
  void start(Bucket& b, size_t seed) {
    b.weights.clear();
    for (int r = 0; r < c_.ranks; ++r)
      b.weights.push_back(gaussian(c_.count, c_.datatype, static_cast<unsigned>(seed + r)));
  }

  // By a hundredth.
  void change(Bytes& weights) {
    Floats x = floats_of(weights, c_.datatype);
    for (float& w : x) w += 0.01f * normal_(random_);
    weights = bytes_of(x, c_.datatype);
  }

  Expected play(Bucket& b, Event event) {
    Expected e;
    const auto rank = static_cast<size_t>(random_() % c_.ranks);
    if (event == Event::kStep || event == Event::kOneStays)
      for (size_t r = 0; r < b.weights.size(); ++r)
        if (event == Event::kStep || r != rank) change(b.weights[r]);
    if (event == Event::kCorrupt && b.held && c_.inplace) e.corrupts = rank;
    // In the receive buffer of the one there are now the others of it.
    if (event == Event::kSwitch && b.held && c_.inplace) start(b, random_());
    advance(b, e.corrupts != SIZE_MAX || (event == Event::kSwitch && c_.inplace));
    e.weights = b.weights;
    e.others = b.base;
    return e;
  }

  void advance(Bucket& b, bool differs) {
    const bool due = c_.every != 0 && b.calls >= c_.every;
    if (b.held && !differs && b.weights == b.sent) {
      ++counts.unchanged;
      ++b.calls;
      return;
    }
    if (!b.held || differs || due) {
      ++(!b.held ? counts.first : differs ? counts.others : counts.every);
      b.base = b.weights;
      b.calls = 0;
    } else {
      ++counts.differences;
      ++b.calls;
      for (size_t r = 0; r < b.weights.size(); ++r) b.base[r] = moved(b, r);
    }
    b.held = true;
    b.sent = b.weights;
  }

  // The base of shard r, a difference further.
  Bytes moved(const Bucket& b, size_t r) const {
    Floats base = floats_of(b.base[r], c_.datatype);
    const Floats weights = floats_of(b.weights[r], c_.datatype);
    Floats difference = weights;
    for (size_t i = 0; i < base.size(); ++i) difference[i] -= base[i];
    const Floats step = quantized(spec_, difference);
    for (size_t i = 0; i < base.size(); ++i)
      base[i] = c_.is_exact(r, i) ? weights[i] : base[i] + step[i];
    return bytes_of(base, c_.datatype);
  }

  const Case& c_;
  const codec::Spec spec_;
  std::vector<Bucket> buckets_;
  std::mt19937 random_{5};
  std::normal_distribution<float> normal_;
};

// One rank's buffers.
struct Player {
  Player(const Case& c, int rank) : c(c), rank(rank), shard(c.count * datatype_size(c.datatype)) {
    for (size_t b = 0; b < c.buckets; ++b) {
      send.emplace_back(shard);
      recv.emplace_back(shard * c.ranks);
    }
  }

  char* in(size_t b) { return c.in_place ? recv[b].data() + rank * shard : send[b].data(); }

  void play(const Model& model, ncclComm_t comm) {
    const SchemeHandle scheme(scheme_of(c));
    if (c.exact) {
      ASSERT_EQ(terseCommExclude(comm, c.ranks * c.count, &*c.exact, 1), ncclSuccess);
    }
    const HostStream stream(c.null_stream);
    for (size_t k = 0; k < c.script.size(); ++k) {
      const Expected& e = model.steps[k];
      const size_t b = c.script[k].first;
      std::ranges::copy(e.weights[rank], in(b));
      if (e.corrupts == static_cast<size_t>(rank))
        recv[b][(rank + 1) % c.ranks * shard + shard / 2] ^= 1;
      ASSERT_EQ(terseAllGather(in(b), recv[b].data(), c.count, c.datatype, scheme.get(), comm,
                               stream.get()),
                ncclSuccess)
          << terseGetLastError();
      ASSERT_EQ(stream.synchronize(), ncclSuccess);
      expect(e, recv[b], k);
    }
  }

  void expect(const Expected& e, const Bytes& got, size_t call) const {
    for (int r = 0; r < c.ranks; ++r) {
      const bool own = r == rank && c.own_exact;
      const Bytes part(got.begin() + r * shard, got.begin() + (r + 1) * shard);
      ASSERT_EQ(part, own ? e.weights[r] : e.others[r]) << "call " << call << " shard " << r;
    }
  }

  const Case& c;
  const int rank;
  const size_t shard;
  std::vector<Bytes> send, recv;
};

std::string describe(const Case& c) {
  return fmt::format("{} ranks {} count {} type {} {}{} buckets {}", scheme_of(c), c.ranks, c.count,
                     static_cast<int>(c.datatype), c.in_place ? "in place" : "apart",
                     c.null_stream ? " null" : "", c.buckets) +
         (c.exact ? fmt::format(" exact {}+{}", c.exact->first, c.exact->count) : "");
}

void run(const Case& c) {
  SCOPED_TRACE(describe(c));
  const Model model(c);
  run_ranks(c.ranks, [&](int rank, ncclComm_t comm) {
    SCOPED_TRACE(fmt::format("{} rank {}", describe(c), rank));
    Player(c, rank).play(model, comm);
    terseStats_t stats{.size = sizeof stats};
    ASSERT_EQ(terseCommGetStats(comm, &stats), ncclSuccess);
    EXPECT_EQ(stats.delta_calls, model.counts.differences);
    EXPECT_EQ(stats.delta_unchanged, model.counts.unchanged);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], model.counts.first);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], model.counts.others);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_EVERY], model.counts.every);
    const size_t shards = c.inplace ? 1 : c.ranks;
    size_t buckets = model.counts.first;
    EXPECT_EQ(stats.state_bytes, buckets * shards * c.count * datatype_size(c.datatype));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

void run_some(int cases, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) run(some_case(random, most));
}

TEST(Delta, GivesWhatItsModelGives) { run_some(12, 2'500, 1); }
TEST(Delta, LargeOnesGiveWhatTheirModelGives) { run_some(6, 30'000, 2); }

// One rank's calls with a scheme, of whose values these tests need not know more than that all
// ranks have the same, and how near it is.
class Caller {
 public:
  Caller(int rank, int ranks, ncclComm_t comm, const char* scheme)
      : rank_(rank), ranks_(ranks), comm_(comm), scheme_(scheme) {}

  // Of what all ranks' weights are at a step; by bucket.
  static Bytes weights(size_t rank, size_t bucket, int step) {
    std::mt19937 random(static_cast<unsigned>(rank * 1000 + bucket));
    std::normal_distribution<float> normal;
    Floats all(kCount);
    for (float& x : all) x = normal(random);
    for (int s = 0; s < step; ++s)
      for (float& x : all) x += 0.001f * normal(random);
    return bytes_of(all, ncclFloat32);
  }

  void gather(Bytes& recv, size_t bucket, int step) const {
    char* const own = recv.data() + rank_ * kBytes;
    std::ranges::copy(weights(rank_, bucket, step), own);
    ASSERT_EQ(terseAllGather(own, recv.data(), kCount, ncclFloat32, scheme_.get(), comm_, nullptr),
              ncclSuccess)
        << terseGetLastError();
  }

  // The largest error of what is received.
  double error(const Bytes& recv, size_t bucket, int step) const {
    double largest = 0;
    for (int r = 0; r < ranks_; ++r) {
      const Bytes part(recv.begin() + r * kBytes, recv.begin() + (r + 1) * kBytes);
      const Floats got = floats_of(part, ncclFloat32),
                   want = floats_of(weights(r, bucket, step), ncclFloat32);
      for (size_t i = 0; i < got.size(); ++i)
        largest = std::max<double>(largest, std::fabs(got[i] - want[i]));
    }
    return largest;
  }

  terseStats_t stats() const {
    terseStats_t stats{.size = sizeof stats};
    EXPECT_EQ(terseCommGetStats(comm_, &stats), ncclSuccess);
    return stats;
  }

  static constexpr size_t kCount = 3000, kBytes = kCount * sizeof(float);

 private:
  const int rank_, ranks_;
  const ncclComm_t comm_;
  const SchemeHandle scheme_;
};

// As Megatron gathers the buckets of a group of them.
TEST(Delta, CallsOfAGroupAreEachOfTheirOwnBuffer) {
  constexpr int kRanks = 3;
  constexpr size_t kBuckets = 4;
  for (const char* scheme : {"int8:delta=inplace", "int8:delta=shadow"})
    run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
      const Caller caller(rank, kRanks, comm, scheme);
      std::vector<Bytes> recv(kBuckets, Bytes(kRanks * Caller::kBytes));
      for (int step = 0; step < 4; ++step) {
        ASSERT_EQ(terseGroupStart(), ncclSuccess);
        for (size_t b = 0; b < kBuckets; ++b) caller.gather(recv[b], b, step);
        ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
        for (size_t b = 0; b < kBuckets; ++b)
          EXPECT_LT(caller.error(recv[b], b, step), step == 0 ? 1e-30 : 5e-5) << scheme;
      }
      EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], kBuckets);
      EXPECT_EQ(caller.stats().delta_calls, 3 * kBuckets);
      EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    });
}

// The forward pass gathers in one order, the backward pass in the other; buffers are anyhow.
TEST(Delta, ShadowsFollowWhatIsSentWhereverItComesTo) {
  constexpr int kRanks = 2, kLayers = 5;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int4:block=2048,delta=shadow");
    std::mt19937 random(static_cast<unsigned>(rank));  // each rank allocates in its own way
    std::vector<Bytes> recv(3, Bytes(kRanks * Caller::kBytes));
    for (int step = 0; step < 3; ++step)
      for (int i = 0; i < 2 * kLayers; ++i) {
        const size_t layer = i < kLayers ? i : 2 * kLayers - 1 - i;
        Bytes& buffer = recv[random() % recv.size()];
        caller.gather(buffer, layer, step);
        EXPECT_LT(caller.error(buffer, layer, step), step == 0 ? 1e-30 : 1e-3);
      }
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_FIRST], size_t{kLayers});
    EXPECT_EQ(caller.stats().delta_full[TERSE_FULL_OTHERS], 0u);
    EXPECT_EQ(caller.stats().delta_calls, 2u * kLayers);
    EXPECT_EQ(caller.stats().delta_unchanged, 3u * kLayers);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// A buffer that also takes gradients is never again what it was.
TEST(Delta, IsGivenUpWhereBuffersDoNotLast) {
  constexpr int kRanks = 2;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Caller caller(rank, kRanks, comm, "int4:delta=inplace");
    Bytes recv(kRanks * Caller::kBytes);
    for (int step = 0; step < 30; ++step) {
      std::ranges::fill(recv, static_cast<char>(step));
      caller.gather(recv, 0, step);
      EXPECT_EQ(caller.error(recv, 0, step), 0);
    }
    const terseStats_t stats = caller.stats();
    EXPECT_EQ(stats.delta_calls, 0u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 21u);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], 8u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

TEST(Delta, IsForAllGatherAlone) {
  run_ranks(2, [](int, ncclComm_t comm) {
    const SchemeHandle scheme("int4:delta=inplace");
    Floats data(100, 1.0f);
    ASSERT_EQ(terseAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum,
                             scheme.get(), comm, nullptr),
              ncclSuccess);
    EXPECT_EQ(data, Floats(100, 2.0f));
    terseStats_t stats{.size = sizeof stats};
    ASSERT_EQ(terseCommGetStats(comm, &stats), ncclSuccess);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_COLLECTIVE], 1u);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

// What is left out of a difference is part of the next one: over many steps the error stays that of
// one, and of bf16 itself.
TEST(Delta, ErrorsDoNotAddUp) {
  constexpr int kRanks = 2;
  constexpr size_t kElements = 20'000;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const SchemeHandle scheme("int4:block=2048,delta=inplace,own=quantized");
    std::mt19937 random(static_cast<unsigned>(rank));
    std::normal_distribution<float> normal;
    Floats weights(kElements);
    for (float& x : weights) x = 0.08f * normal(random);
    Bytes recv(kRanks * kElements * 2);
    for (int step = 0; step < 300; ++step) {
      for (float& x : weights) x += 1e-3f * normal(random);
      const Bytes sent = bytes_of(weights, ncclBfloat16);
      ASSERT_EQ(terseAllGather(sent.data(), recv.data(), kElements, ncclBfloat16, scheme.get(),
                               comm, nullptr),
                ncclSuccess)
          << terseGetLastError();
    }
    const std::vector<double> all = values(recv, ncclBfloat16);
    const std::vector<double> own(all.begin() + rank * kElements,
                                  all.begin() + (rank + 1) * kElements);
    EXPECT_LT(relative_error(own, {weights.begin(), weights.end()}), 2.5e-3);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

}  // namespace
}  // namespace terse::test
