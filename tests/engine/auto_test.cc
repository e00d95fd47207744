// The scheme auto, as calls: what is taken is done as if it had been asked for, on all ranks alike.
#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/error.h"
#include "engine/call/exclusion.h"
#include "engine/call/pending_group.h"
#include "engine/call/route.h"
#include "engine/comm/account.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"
#include "thrown_error.h"

namespace terse::test {
namespace {

using model::Curve;
using plan::Collective;

constexpr int kRanks = 3;

// On one node a large AllReduce is twice as fast in eight bits, and a small one is not.
model::Profile measured() {
  const auto curve = [](const char* scheme, double small, double large) {
    return Curve{Collective::kAllReduce,           codec::Dtype::kFloat32, kRanks, 1, scheme,
                 {{4096, small}, {1 << 20, large}}};
  };
  model::Profile p;
  p.name = "measured";
  p.measured = {curve("native", 0.001, 0.010), curve("int8", 0.002, 0.005),
                curve("int4", 0.002, 0.001)};
  return p;
}

// Links so slow that bytes are all that counts.
model::Profile modelled(const char* name = "modelled") {
  model::Profile p;
  p.name = name;
  p.within = {1e-6, 1e6};
  p.coding = {1e12, 1e12};
  return p;
}

Settings settings_with(model::Profile profile, const char* rules = nullptr) {
  Settings s = settings();
  s.profile = std::move(profile);
  if (rules != nullptr) s.policy = parse_policy_line(rules, 1);
  return s;
}

terseStats_t stats_of(ncclComm_t comm) { return find_communicator(comm)->current_stats(); }

Request sum_of(const Bytes& in, Bytes& out, size_t count, ncclDataType_t type = ncclFloat32) {
  return {.collective = Collective::kAllReduce,
          .send = in.data(),
          .recv = out.data(),
          .count = count,
          .datatype = type};
}

Bytes natively(const Bytes& in, size_t count, ncclComm_t comm) {
  Bytes out(in.size());
  EXPECT_EQ(ncclAllReduce(in.data(), out.data(), count, ncclFloat32, ncclSum, comm, nullptr),
            ncclSuccess);
  return out;
}

// What the scheme by itself gives.
Bytes with(const char* scheme, const Bytes& in, size_t count, ncclComm_t comm, const Settings& s) {
  Bytes out(in.size());
  submit(comm, sum_of(in, out, count), parse_scheme(scheme), s);
  return out;
}

TEST(Auto, TakesWhatIsPredictedToBeFastest) {
  const Settings own = settings_with(measured());
  struct Case {
    size_t count;
    const char* automatic;
    const char* result;  // null: native
  };
  // Between 4096 and 1048576 bytes times lie on straight lines: at 200,000 int8 gains 5 %.
  const Case cases[] = {
      {1, "auto", nullptr},      {1'000, "auto", nullptr},         {50'000, "auto", nullptr},
      {200'003, "auto", "int8"}, {262'144, "auto:bits=4", "int4"}, {400'009, "auto", "int8"}};
  next_ordinal();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    size_t bypassed = 0, compressed = 0;
    for (const Case& c : cases) {
      SCOPED_TRACE(c.count);
      const Bytes in = gaussian(c.count, ncclFloat32, 7 + static_cast<uint64_t>(rank));
      Bytes out(in.size());
      submit(comm, sum_of(in, out, c.count), parse_scheme(c.automatic), own);
      ++(c.result == nullptr ? bypassed : compressed);
      EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_AUTO], bypassed);
      EXPECT_TRUE(out == (c.result == nullptr ? natively(in, c.count, comm)
                                              : with(c.result, in, c.count, comm, own)));
      if (c.result != nullptr) ++compressed;
      EXPECT_EQ(stats_of(comm).calls, compressed);
    }
    release_communicator(comm, false);
  });
}

// A program may count its steps by seeds: what is taken is found once, and has each call's own.
TEST(Auto, ChoosesOnceForAllSeeds) {
  const Settings own = settings_with(measured());
  Chooser chooser;
  const auto choice = [&](const char* text) {
    return &chooser.of(&*own.profile, parse_scheme(text),
                       {Collective::kAllReduce, 400'009, codec::Dtype::kFloat32, kRanks, 0},
                       {plan::kHostChunks, plan::topology_of(std::array<uint64_t, kRanks>{})});
  };
  const Prediction* const first = choice("auto:seed=1");
  EXPECT_EQ(first->scheme, parse_scheme("int8"));
  EXPECT_EQ(choice("auto:seed=2"), first);
  EXPECT_EQ(choice("auto"), first);
  EXPECT_NE(choice("auto:bits=4,seed=1"), first);
  next_ordinal();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in = gaussian(400'009, ncclFloat32, 3 + static_cast<uint64_t>(rank));
    Bytes out(in.size());
    const Request request = sum_of(in, out, 400'009);
    submit(comm, request, parse_scheme("auto:seed=1"), own);  // the ranks have met
    Communicator& c = *find_communicator(comm);
    for (const char* seed : {"1", "2"}) {
      const Route way = route(c, request, parse_scheme(std::string("auto:seed=") + seed));
      EXPECT_EQ(way.compressed().scheme, parse_scheme(std::string("int8:seed=") + seed));
    }
    EXPECT_EQ(route(c, request, parse_scheme("auto")).compressed().scheme, parse_scheme("int8"));
    release_communicator(comm, false);
  });
}

// Of calls of one kind some may name the scheme that auto chooses.
TEST(Auto, ReportsWhatItPredictedWhereItHasChosenAllCalls) {
  Settings own = settings_with(measured());
  own.meter = 1;
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in = gaussian(400'009, ncclFloat32, 3 + static_cast<uint64_t>(rank));
    Bytes out(in.size());
    const Request request = sum_of(in, out, 400'009);
    for (const char* scheme : {"auto", "auto", "int8"}) {
      submit(comm, request, parse_scheme(scheme), own);
      EXPECT_GT(stats_of(comm).timed_calls, 0u);  // which reads the times
      const report::Communicator account = account_of(*find_communicator(comm), true);
      ASSERT_EQ(account.rows.size(), 1u);
      EXPECT_EQ(account.rows[0].times.predicted > 0, scheme == std::string("auto"));
    }
    release_communicator(comm, false);
  });
}

// Which auto does not know of, whatever algorithm it has taken.
TEST(Auto, LeavesToNcclWhatStaysExact) {
  const Settings own = settings_with(modelled());
  constexpr size_t kCount = 100'003;
  next_ordinal();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in = gaussian(kCount, ncclFloat32, 3 + static_cast<uint64_t>(rank));
    Bytes out(in.size());
    submit(comm, sum_of(in, out, kCount), parse_scheme("auto:bits=4"), own);
    EXPECT_EQ(stats_of(comm).calls, 1u);
    const terseRange_t everything{0, kCount};
    exclude(comm, kCount, &everything, 1, own);
    submit(comm, sum_of(in, out, kCount), parse_scheme("auto:bits=4"), own);
    EXPECT_EQ(stats_of(comm).calls, 1u);
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_EXACT], 1u);
    EXPECT_TRUE(out == natively(in, kCount, comm));
    release_communicator(comm, false);
  });
}

// The ranks have not told each other anything yet, and cannot within the group.
TEST(Auto, MayBeTheFirstInAGroup) {
  const Settings own = settings_with(modelled());
  constexpr size_t kCount = 100'003;
  next_ordinal();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in = gaussian(kCount, ncclFloat32, 3 + static_cast<uint64_t>(rank));
    Bytes first(in.size()), second(in.size()), integers(8);
    group_start();
    submit(comm, sum_of(in, first, kCount), parse_scheme("auto:error=0.2"), own);
    submit(comm, sum_of(in, second, kCount), parse_scheme("int8"), own);
    submit(comm, sum_of(in, integers, 2, ncclInt32), parse_scheme("auto"), own);
    group_end();
    EXPECT_EQ(stats_of(comm).calls, 2u);
    EXPECT_EQ(stats_of(comm).bypasses[TERSE_BYPASS_DTYPE], 1u);
    EXPECT_TRUE(second == with("int8", in, kCount, comm, own));
    EXPECT_TRUE(first == with("int4", in, kCount, comm, own));
    release_communicator(comm, false);
  });
}

// So that no call waits for all ranks again, and the first one may be recorded in a graph.
TEST(Auto, OfARuleIsAgreedOnWithTheSettings) {
  const Settings own = settings_with(modelled(), "auto");
  next_ordinal();
  run_ranks(kRanks, [&](int, ncclComm_t comm) {
    const CommunicatorPointer c = communicator(comm, own);
    Bytes data(4 * 5000);
    const Request request = sum_of(data, data, 5000);
    EXPECT_TRUE(needs_topology(*c, request));
    const Agreement settings_alone{c.get(), nullptr, nullptr};
    agree({&settings_alone, 1});
    EXPECT_FALSE(needs_topology(*c, request));
    const Route way = route(*c, request);
    EXPECT_EQ(way.compressed().scheme.spec, parse_scheme("int8").spec);
    ASSERT_TRUE(way.choice);
    EXPECT_TRUE(c->agreed().has(way.choice->automatic, {}));
    EXPECT_GT(way.choice->seconds, 0);
    release_communicator(comm, false);
  });
}

TEST(Auto, ProfilesThatDifferAreNamedOnAllRanks) {
  const Settings a = settings_with(modelled("one")), b = settings_with(modelled("another"));
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const Bytes in(4 * 1000), kept(4 * 1000, 1);
    Bytes out = kept;
    const std::string error = error_of(
        [&] { submit(comm, sum_of(in, out, 1000), parse_scheme("auto"), rank == 0 ? a : b); });
    for (const char* words : {"the profile of TERSE_PROFILE is ", "\"one ", "\"another "})
      EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_TRUE(out == kept);
    release_communicator(comm, false);
  });
}

// Of 200,000 bytes int4 is taken, and int8 gains too little: one rank would call NCCL alone.
TEST(Auto, TextsThatDifferAreNamedOnAllRanksAlsoWhereOneChoosesNative) {
  const Settings own = settings_with(measured());
  next_ordinal();
  run_ranks(kRanks, [&](int rank, ncclComm_t comm) {
    const Bytes in(4 * 50'000), kept(4 * 50'000, 1);
    Bytes out = kept;
    const Scheme scheme = parse_scheme(rank == 0 ? "auto:bits=8" : "auto:bits=4");
    const std::string error = error_of([&] { submit(comm, sum_of(in, out, 50'000), scheme, own); });
    for (const char* words : {"auto:bits=8", "auto:bits=4"})
      EXPECT_NE(error.find(words), std::string::npos) << error;
    EXPECT_TRUE(out == kept);
    release_communicator(comm, false);
  });
}

TEST(Auto, WithoutAProfileForSuchRanksIsAnError) {
  model::Profile elsewhere = modelled("elsewhere");
  elsewhere.between = elsewhere.within;
  elsewhere.within.reset();
  Settings none = settings();
  none.profile.reset();
  next_ordinal();
  run_ranks(2, [&](int rank, ncclComm_t comm) {
    const std::string me = ", rank " + std::to_string(rank) + " of 2";
    for (const auto& [given, cause] :
         {std::pair(none, std::string("auto needs a profile")),
          std::pair(settings_with(elsewhere),
                    std::string("says nothing of links within a node"))}) {
      const Settings& own = given;  // clang 14 takes no structured binding into a lambda
      const Bytes in(4 * 1000);
      Bytes out(in.size());
      const std::string error =
          error_of([&] { submit(comm, sum_of(in, out, 1000), parse_scheme("auto"), own); });
      EXPECT_NE(error.find(cause), std::string::npos) << error;
      EXPECT_NE(error.find(me), std::string::npos) << error;
      release_communicator(comm, false);  // the next one has its own settings
    }
  });
}

}  // namespace
}  // namespace terse::test
