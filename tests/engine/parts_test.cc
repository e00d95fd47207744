// The parts of a communicator, each by its own rules.
#include <gtest/gtest.h>

#include "engine/comm/agreed.h"
#include "engine/comm/counters.h"
#include "engine/comm/exclusions.h"
#include "engine/comm/mailbox.h"
#include "engine/comm/reservations.h"
#include "idle.h"

namespace terse::test {
namespace {

using plan::Collective;

TEST(Agreed, IsOnASchemeWithAllRanksOrWithOnePeer) {
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

TEST(Agreed, HasANumberOnceAllHaveAgreed) {
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
TEST(Agreed, DrawsByWhoLeads) {
  const auto drawn = [](uint64_t ordinal, uint64_t leader) {
    Agreed agreed;
    agreed.conclude(ordinal, leader, 77);
    EXPECT_EQ(agreed.ordinal(), ordinal);
    return agreed.drawn();
  };
  EXPECT_EQ(drawn(5, 0), 5u);
  EXPECT_EQ(drawn(0, 1), uint64_t{1} << 32);
  EXPECT_NE(drawn(1, 2), drawn(1, 3));
}

// So that a meeting that fails takes no number away from those that follow.
TEST(Agreed, ProposesTheSameNumberAgain) {
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

TEST(Counters, NumberCallsAndBatchesOfMessages) {
  Counters c;
  c.add({.calls = 1, .sent = {{10, 4}, {3, 1}}, .scratch_bytes = 500, .of_all_ranks = true});
  c.add({.calls = 5, .sent = {{20, 0}, {6, 0}}, .scratch_bytes = 200, .of_all_ranks = false});
  EXPECT_EQ(c.sequence(), 2u);
  EXPECT_EQ(c.collectives(), 1u);
  const terseStats_t& s = c.stats();
  EXPECT_EQ(s.size, sizeof s);
  EXPECT_EQ(s.calls, 6u);
  EXPECT_EQ(s.raw_bytes, 30u);
  EXPECT_EQ(s.raw_off_node_bytes, 4u);
  EXPECT_EQ(s.wire_bytes, 9u);
  EXPECT_EQ(s.wire_off_node_bytes, 1u);
  EXPECT_EQ(s.scratch_bytes, 500u);
  c.add_native(TERSE_BYPASS_SMALL, {40, 8});
  EXPECT_EQ(s.bypasses[TERSE_BYPASS_SMALL], 1u);
  EXPECT_EQ(s.native_bytes, 40u);
  EXPECT_EQ(s.native_off_node_bytes, 8u);
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
  Mailbox mailbox(backend, 3, 2);
  mailbox.say(std::string_view("me"));
  EXPECT_EQ(mailbox.read({}), 0) << "nothing came from rank 0";
  std::memcpy(mailbox.slot(0), mailbox.own(), mailbox.slot_bytes());
  std::memcpy(mailbox.slot(1), mailbox.own(), mailbox.slot_bytes());
  EXPECT_EQ(mailbox.read({}), 2);
  EXPECT_EQ(mailbox.read(1), std::nullopt) << "of the peer alone";
  std::memcpy(mailbox.slot(2), mailbox.own(), mailbox.slot_bytes());
  std::memcpy(mailbox.slot(2) + 1, "it", 2);
  EXPECT_EQ(mailbox.read({}), std::nullopt);
  EXPECT_EQ(std::string_view(mailbox.words(1).data(), 2), "me");
  EXPECT_EQ(std::string_view(mailbox.words(2).data(), 2), "it");
  mailbox.say(std::string_view("me"));
  EXPECT_EQ(mailbox.read({}), 0) << "what was said before does not stay";
  backend.ends = false;
  EXPECT_FALSE(mailbox.has_ended());
}

}  // namespace
}  // namespace terse::test
