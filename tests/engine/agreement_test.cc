// The parts of a communicator, each by its own rules.
#include <gtest/gtest.h>

#include <set>

#include "engine/comm/agreed.h"
#include "engine/comm/control_buffer.h"
#include "engine/comm/counters.h"
#include "engine/comm/exclusions.h"
#include "engine/comm/reservations.h"
#include "engine/comm/shadows.h"
#include "idle.h"

namespace terse::test {
namespace {

using plan::Collective;

TEST(Agreements, IsOnASchemeWithAllRanksOrWithOnePeer) {
  Agreed agreed;
  const Scheme a = parse_scheme("int8"), b = parse_scheme("int4");
  agreed.add(a, {});
  agreed.add(b, 3);
  EXPECT_TRUE(agreed.has(a, {}));
  EXPECT_TRUE(agreed.has(a, 5)) << "what serves all serves two";
  EXPECT_TRUE(agreed.has(b, 3));
  EXPECT_FALSE(agreed.has(b, 5));
  EXPECT_FALSE(agreed.has(b, {}));
}

TEST(Agreements, IsOnSchemesWhateverTheirSeeds) {
  Agreed agreed;
  agreed.add(parse_scheme("int8:round=stochastic,seed=1"), {});
  agreed.add(parse_scheme("int4:round=stochastic"), 3);
  for (const char* scheme : {"int8:round=stochastic", "int8:round=stochastic,seed=2"})
    EXPECT_TRUE(agreed.has(parse_scheme(scheme), {})) << scheme;
  const Scheme seeded = parse_scheme("int4:round=stochastic,seed=7");
  EXPECT_TRUE(agreed.has(seeded, 3));
  EXPECT_FALSE(agreed.has(seeded, 2));
  EXPECT_FALSE(agreed.has(parse_scheme("int8:seed=1"), {}));
}

TEST(Agreements, HasANumberOnceAllHaveAgreed) {
  Agreed agreed;
  agreed.begin();
  EXPECT_TRUE(agreed.introduced());
  EXPECT_EQ(agreed.number(), std::nullopt);
  agreed.withdraw();
  EXPECT_FALSE(agreed.introduced());
  agreed.begin();
  agreed.conclude(0, 0, 77);
  EXPECT_TRUE(agreed.introduced());
  EXPECT_EQ(agreed.number(), 0u);
  EXPECT_EQ(agreed.identity(), 77u);
}

// Communicators that different processes lead have the same numbers, and differ in what is drawn.
TEST(Agreements, DrawsByWhoLeads) {
  const auto drawn = [](uint64_t ordinal, uint64_t leader) {
    Agreed agreed;
    agreed.conclude(ordinal, leader, 77);
    EXPECT_EQ(agreed.ordinal(), ordinal);
    return agreed.rng_stream();
  };
  EXPECT_EQ(drawn(5, 0), 5u);
  EXPECT_EQ(drawn(0, 1), uint64_t{1} << 32);
  EXPECT_NE(drawn(1, 2), drawn(1, 3));
}

// So that a meeting that fails takes no number away from those that follow.
TEST(Agreements, ProposesTheSameNumberAgain) {
  Agreed agreed;
  uint64_t next = 4;
  const auto count = [&] { return next++; };
  EXPECT_EQ(agreed.propose(count), 4u);
  EXPECT_EQ(agreed.propose(count), 4u);
  EXPECT_EQ(next, 5u);
}

TEST(Reservations, CoverWhatIsNoMoreThanBefore) {
  Reservations r;
  EXPECT_TRUE(r.cover({}));
  EXPECT_FALSE(r.cover({.scratch = 1}));
  r.add({.scratch = 100, .exact = 10});
  r.add({.scratch = 50, .exact = 20});
  EXPECT_TRUE(r.cover({.scratch = 100, .exact = 20}));
  EXPECT_FALSE(r.cover({.scratch = 101, .exact = 20}));
  EXPECT_FALSE(r.cover({.scratch = 100, .exact = 21}));
  EXPECT_EQ(r.scratch(), 100u);
}

// 0 calls at first, then 1, 3, 7, as far as 1023; from the beginning again after a success.
TEST(Reservations, AreAskedForEverMoreSeldom) {
  Reservations r;
  const auto skipped = [&] {
    size_t calls = 0;
    while (r.skips()) ++calls;
    return calls;
  };
  for (int times = 0; times < 2; ++times) {
    EXPECT_EQ(skipped(), 0u);
    EXPECT_TRUE(r.refused()) << "it is news";
    EXPECT_EQ(skipped(), 0u);
    for (size_t k = 1; k < 13; ++k) {
      EXPECT_FALSE(r.refused());
      EXPECT_EQ(skipped(), k < 10 ? (size_t{1} << k) - 1 : 1023u);
    }
    r.granted();
  }
}

// One rank's side of AllGathers in ever new sizes.
class NewKinds {
 public:
  static ShadowKind kind(size_t count) {
    return {count, codec::Dtype::kFloat32, {}, {.base = plan::Base::kShadow}};
  }

  Shadow& call(const ShadowKind& kind) {
    shadows.begin_round();
    while (const ShadowKind* const old = shadows.superfluous(kind)) shadows.drop(*old);
    shadows.note(kind);
    const size_t count = shadows.count(kind);
    return shadows.renew(kind, nullptr, kBytes, InFull::kFirst, count);
  }

  static constexpr size_t kBytes = 8;
  IdleBackend backend;
  Shadows shadows{backend, 2};
};

TEST(Shadows, KindsThatDoNotComeBackAreForgotten) {
  NewKinds k;
  Shadow& kept = k.call(k.kind(1));
  k.shadows.use(k.kind(1), kept, false);
  const size_t last = 3 * Shadows::kMaxKinds;
  for (size_t count = 2; count <= last; ++count) {
    k.call(k.kind(count));
    ASSERT_LE(k.shadows.kinds(), Shadows::kMaxKinds + 1);
  }
  EXPECT_EQ(k.shadows.count(k.kind(1)), 1u) << "of which there were differences";
  EXPECT_EQ(k.shadows.count(k.kind(2)), 0u);
  EXPECT_EQ(k.shadows.count(k.kind(last)), 1u);
  EXPECT_EQ(k.shadows.bytes(), k.shadows.kinds() * NewKinds::kBytes) << "the others' is free";
  EXPECT_EQ(k.call(k.kind(2)).id, 1u) << "as at first";
}

// What is asked for again and again is not the oldest, though nothing comes of it.
TEST(Shadows, KindsThatAreGivenUpStaySoWhileTheyComeBack) {
  NewKinds k;
  const ShadowKind given_up = k.kind(1);
  k.call(given_up);
  while (!k.shadows.gave_up(given_up)) {
    k.shadows.begin_round();
    k.shadows.renew(given_up, nullptr, NewKinds::kBytes, InFull::kOthers, 1);
  }
  k.shadows.free(given_up);
  for (size_t count = 2; count <= 2 * Shadows::kMaxKinds; ++count) {
    k.shadows.note(given_up);
    k.call(k.kind(count));
  }
  EXPECT_TRUE(k.shadows.gave_up(given_up));
  for (size_t count = 1; count <= Shadows::kMaxKinds; ++count) k.call(k.kind(count + 100'000));
  EXPECT_FALSE(k.shadows.gave_up(given_up)) << "it is tried again";
}

// A group may have more of them than are kept.
TEST(Shadows, KindsOfOneRoundAreAllThere) {
  NewKinds k;
  k.shadows.begin_round();
  const size_t many = Shadows::kMaxKinds + 10;
  for (size_t count = 1; count <= many; ++count) {
    EXPECT_EQ(k.shadows.superfluous(k.kind(count)), nullptr);
    k.shadows.note(k.kind(count));
  }
  EXPECT_EQ(k.shadows.kinds(), many);
  k.call(k.kind(many + 1));
  EXPECT_EQ(k.shadows.kinds(), Shadows::kMaxKinds);
}

// Those that NCCL has done after all: they are no reason to give up the kind either.
TEST(Shadows, CallsThatAreTakenBackAreNotCounted) {
  NewKinds k;
  Shadows& s = k.shadows;
  const ShadowKind kind = k.kind(1);
  Shadow& shadow = k.call(kind);
  EXPECT_EQ(s.in_full(InFull::kFirst), 1u);
  const auto take_back = [&](plan::Gathers gathers) {
    s.take_back(kind, &shadow, gathers);
    EXPECT_EQ(shadow.id, 0u);
    EXPECT_TRUE(shadow.fell_back);
  };
  take_back(plan::Gathers::kInFull);
  for (int call = 0; call < 100; ++call)
    for (const InFull why : {InFull::kOthers, InFull::kMemory, InFull::kEvery}) {
      EXPECT_EQ(&s.renew(kind, &shadow, NewKinds::kBytes, why, 1), &shadow);
      EXPECT_NE(shadow.id, 0u);
      EXPECT_FALSE(shadow.fell_back);
      take_back(plan::Gathers::kInFull);
    }
  EXPECT_FALSE(s.gave_up(kind));
  for (const bool unchanged : {false, true}) {
    s.renew(kind, &shadow, NewKinds::kBytes, InFull::kOthers, 1);
    s.use(kind, shadow, unchanged);
    take_back(unchanged ? plan::Gathers::kNothing : plan::Gathers::kDifferences);
  }
  s.pass_by(kind, nullptr);
  EXPECT_EQ(s.in_full(InFull::kNonfinite), 1u);
  s.take_back(kind, nullptr, plan::Gathers::kInFull);
  for (const InFull why : {InFull::kFirst, InFull::kEvery, InFull::kMemory, InFull::kNonfinite})
    EXPECT_EQ(s.in_full(why), 0u) << static_cast<int>(why);
  EXPECT_EQ(s.in_full(InFull::kOthers), 2u) << "these were not";
  EXPECT_EQ(s.differences(), 0u);
  EXPECT_EQ(s.unchanged(), 0u);
}

// Of a group's calls another one went well since: there is no failure to take back.
TEST(Shadows, FailuresAreTakenBackOnce) {
  NewKinds k;
  const ShadowKind kind = k.kind(1);
  Shadow &one = k.call(kind), &other = k.call(kind);
  k.shadows.renew(kind, &one, NewKinds::kBytes, InFull::kOthers, 2);
  k.shadows.use(kind, other, false);
  k.shadows.take_back(kind, &one, plan::Gathers::kInFull);
  EXPECT_FALSE(k.shadows.gave_up(kind));
}

// Weights that begin at zero are near to nothing at their first steps.
TEST(Shadows, OfWhatHasChangedWhollyAreFreedInTime) {
  NewKinds k;
  const ShadowKind kind = k.kind(1);
  constexpr int kLayers = 8;
  for (int i = 0; i < kLayers; ++i) k.call(kind);  // that never come back
  std::vector<Shadow*> layers;
  for (int i = 0; i < kLayers; ++i) layers.push_back(&k.call(kind));
  int steps = 0;
  for (; !k.shadows.has_stale(kind); ++steps)
    for (Shadow* layer : layers) k.shadows.use(kind, *layer, false);
  EXPECT_GT(steps, 100);
  EXPECT_LT(steps, 200);
  for (; k.shadows.count(kind) != kLayers; ++steps) {
    for (Shadow* layer : layers) k.shadows.use(kind, *layer, false);
    k.shadows.free_stale(kind);
  }
  EXPECT_LT(steps, 400);
  EXPECT_EQ(k.shadows.bytes(), kLayers * NewKinds::kBytes);
  for (; steps != 2000; ++steps)
    for (Shadow* layer : layers) k.shadows.use(kind, *layer, false);
  EXPECT_FALSE(k.shadows.has_stale(kind));
}

TEST(Shadows, HaveAtMostAQuarterMoreRoomThanTheyNeed) {
  constexpr size_t kDoublings = 20;
  std::set<size_t> rooms;
  for (size_t bytes = 1; bytes <= size_t{1} << kDoublings; ++bytes) {
    const size_t room = shadow_room(bytes);
    ASSERT_GE(room, bytes);
    ASSERT_LE(room, bytes + bytes / 4);
    ASSERT_EQ(shadow_room(room), room);
    rooms.insert(room);
  }
  EXPECT_LE(rooms.size(), 4 * kDoublings + 1);
}

// As much as that, or just enough; and that much is told.
TEST(Shadows, TakeWhatThereIs) {
  struct PoorBackend final : IdleBackend {
    void* allocate(size_t bytes) override {
      if (bytes > most) throw Error(ncclSystemError, "no memory");
      return IdleBackend::allocate(bytes);
    }
    size_t most = 0;
  } backend;
  constexpr size_t kBytes = 9001;
  for (const size_t most : {kBytes - 1, kBytes, shadow_room(kBytes)}) {
    backend.most = most;
    Shadows shadows(backend, 2);
    const Shadow& shadow = shadows.renew(NewKinds::kind(1), nullptr, kBytes, InFull::kFirst, 0);
    EXPECT_EQ(shadow.memory == nullptr, most < kBytes);
    EXPECT_EQ(shadow.id == 0, most < kBytes);
    EXPECT_EQ(shadows.bytes(), most < kBytes ? 0 : most);
  }
}

TEST(Counters, NumberCallsAndBatchesOfMessages) {
  Counters c;
  c.add({.calls = 1, .sent = {{10, 4, 2}, {4, 3, 1}}, .scratch_bytes = 500, .of_all_ranks = true});
  c.add({.calls = 5, .sent = {{20}, {6}}, .scratch_bytes = 200, .of_all_ranks = false});
  EXPECT_EQ(c.sequence(), 2u);
  EXPECT_EQ(c.collectives(), 1u);
  c.add_native(TERSE_BYPASS_SMALL, {40, 8, 7});
  const terseStats_t s = c.stats();
  EXPECT_EQ(s.size, sizeof s);
  EXPECT_EQ(s.calls, 6u);
  EXPECT_EQ(s.raw_bytes, 30u);
  EXPECT_EQ(s.raw_off_node_bytes, 4u);
  EXPECT_EQ(s.raw_off_pod_bytes, 2u);
  EXPECT_EQ(s.wire_bytes, 10u);
  EXPECT_EQ(s.wire_off_node_bytes, 3u);
  EXPECT_EQ(s.wire_off_pod_bytes, 1u);
  EXPECT_EQ(s.scratch_bytes, 500u);
  EXPECT_EQ(s.bypasses[TERSE_BYPASS_SMALL], 1u);
  EXPECT_EQ(s.native_bytes, 40u);
  EXPECT_EQ(s.native_off_node_bytes, 8u);
  EXPECT_EQ(s.native_off_pod_bytes, 7u);
  EXPECT_EQ(c.sequence(), 2u);
}

TEST(Exclusions, AreThoseOfTheWholeMessage) {
  Exclusions e;
  e.set(800, {{10, 5}});
  EXPECT_EQ(e.of(Collective::kAllReduce, 800, 8).size(), 1u);
  EXPECT_EQ(e.of(Collective::kAllGather, 100, 8).size(), 1u);
  EXPECT_TRUE(e.of(Collective::kAllGather, 800, 8).empty());
  EXPECT_TRUE(e.of(Collective::kBroadcast, 800, 8).empty());
  e.set(800, {});
  EXPECT_TRUE(e.of(Collective::kAllReduce, 800, 8).empty());
}

// Memory that is memory, in which NCCL would move the words.
class WordsBackend : public IdleBackend {
 public:
  void* allocate(size_t bytes) override { return memory.assign(bytes, 0), memory.data(); }
  void upload(Stream, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(Stream, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  std::vector<char> memory;
};

TEST(Mailboxes, HoldTheWordsOfEachRank) {
  WordsBackend backend;
  ControlBuffer control_buffer(backend, 3, 2);
  control_buffer.post(std::string_view("me"));
  EXPECT_EQ(control_buffer.read(), 0) << "nothing came from rank 0";
  std::memcpy(control_buffer.slot(0), control_buffer.own(), control_buffer.slot_bytes());
  std::memcpy(control_buffer.slot(1), control_buffer.own(), control_buffer.slot_bytes());
  EXPECT_EQ(control_buffer.read(), 2);
  std::memcpy(control_buffer.slot(2), control_buffer.own(), control_buffer.slot_bytes());
  std::memcpy(control_buffer.slot(2) + 1, "it", 2);
  EXPECT_EQ(control_buffer.read(), std::nullopt);
  EXPECT_EQ(std::string_view(control_buffer.received(1).data(), 2), "me");
  EXPECT_EQ(std::string_view(control_buffer.received(2).data(), 2), "it");
  control_buffer.post(std::string_view("me"));
  EXPECT_EQ(control_buffer.read(), 0) << "what was said before does not stay";
  backend.ends = false;
  EXPECT_FALSE(control_buffer.has_ended());
}

}  // namespace
}  // namespace terse::test
