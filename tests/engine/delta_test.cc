// AllGathers of differences: what every rank gets, call by call, as a plain model of it has it; and
// when calls go in full.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <random>
#include <utility>

#include "client_stats.h"
#include "codec/codec.h"
#include "engine/comm/shadows.h"
#include "normal.h"
#include "ranks.h"
#include "terse_client.h"
#include "trials.h"

namespace terse::test {
namespace {

using Floats = std::vector<float>;

enum class Event {
  kStep,      // weights change a little
  kNothing,   // no rank's weights change
  kOneStays,  // those of one rank do not
  kCorrupt,   // a rank's memory of another's shard is written to
  kSwitch,    // the buffer gets the weights of another layer
  kSpoil,     // a rank's weights are not all finite, in this call alone
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
                     c.own_exact ? ",own=exact" : "");
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
    c.script.emplace_back(random() % c.buckets, static_cast<Event>(random() % 6));
  if (random() % 3 == 0) {
    const size_t whole = c.ranks * c.count, first = random() % whole;
    c.exact = terseRange_t{first, 1 + random() % ((whole - first + 3) / 4)};
  }
  return c;
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
  std::optional<std::vector<Bytes>> sound = {};  // the weights, while a rank's are not
  uint32_t calls = 0;
  bool held = false, overwritten = false;  // by what was not finite
};

struct Expected {
  std::vector<Bytes> weights, others;  // by rank: its own, and what others get of it
  size_t corrupts = SIZE_MAX;          // the rank that writes to what it holds of the next one
};

struct Counts {
  size_t differences = 0, unchanged = 0, first = 0, others = 0, every = 0, nonfinite = 0;
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

  // One of them, anywhere.
  void spoil(Bucket& b, size_t rank) {
    static constexpr float kValues[] = {NAN, -NAN, INFINITY, -INFINITY};
    b.sound = b.weights;
    Floats x = floats_of(b.weights[rank], c_.datatype);
    x[random_() % x.size()] = kValues[random_() % 4];
    b.weights[rank] = bytes_of(x, c_.datatype);
  }

  Expected pass_by(Bucket& b) {
    ++counts.nonfinite;
    b.overwritten = b.held && c_.inplace;
    return {.weights = b.weights, .others = b.weights};
  }

  Expected play(Bucket& b, Event event) {
    Expected e;
    if (b.sound) b.weights = *b.sound;
    b.sound.reset();
    const auto rank = static_cast<size_t>(random_() % c_.ranks);
    if (event == Event::kStep || event == Event::kOneStays)
      for (size_t r = 0; r < b.weights.size(); ++r)
        if (event == Event::kStep || r != rank) change(b.weights[r]);
    if (event == Event::kCorrupt && b.held && c_.inplace) e.corrupts = rank;
    // In the receive buffer of the one there are now the others of it.
    if (event == Event::kSwitch && b.held && c_.inplace) start(b, random_());
    if (event == Event::kSpoil) {
      spoil(b, rank);
      return pass_by(b);
    }
    advance(b, e.corrupts != SIZE_MAX || (event == Event::kSwitch && c_.inplace));
    e.weights = b.weights;
    e.others = b.base;
    return e;
  }

  void advance(Bucket& b, bool differs) {
    const bool due = c_.every != 0 && b.calls >= c_.every;
    const bool overwritten = std::exchange(b.overwritten, false);
    if (b.held && !differs && !overwritten && b.weights == b.sent) {
      ++counts.unchanged;
      ++b.calls;
      return;
    }
    if (!b.held || differs || overwritten || due) {
      ++(!b.held       ? counts.first
         : overwritten ? counts.nonfinite
         : differs     ? counts.others
                       : counts.every);
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
  Normal normal_;
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
    const terseStats_t stats = client_stats(comm);
    EXPECT_EQ(stats.delta_calls, model.counts.differences);
    EXPECT_EQ(stats.delta_unchanged, model.counts.unchanged);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], model.counts.first);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], model.counts.others);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_EVERY], model.counts.every);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_NONFINITE], model.counts.nonfinite);
    const size_t shards = c.inplace ? 1 : c.ranks;
    size_t buckets = model.counts.first;
    EXPECT_EQ(stats.state_bytes,
              buckets * shadow_room(shards * c.count * datatype_size(c.datatype)));
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
  });
}

void run_some(int cases, size_t most, unsigned seed) {
  std::mt19937 random(seed);
  for (int i = 0; i < cases && !testing::Test::HasFailure(); ++i) run(some_case(random, most));
}

TEST(Delta, GivesWhatItsModelGives) { run_some(trials(12, 4), 2'500, 1); }
TEST(Delta, LargeOnesGiveWhatTheirModelGives) { run_some(trials(6, 4), 30'000, 2); }

}  // namespace
}  // namespace terse::test
