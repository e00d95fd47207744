// Fused calls: all ranks at once, in windows that they write into, give the bytes of the plans that
// are not fused, in whatever order threads go on and flags arrive; and what would read or write too
// early is noticed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "cpu_kernels.h"
#include "expect_noticed.h"
#include "fused_machine.h"
#include "simt/fault.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Dtype;
using codec::Random;
using codec::Rounding;
using codec::Spec;
using plan::Collective;

const Spec kInt8 = codec::make_spec({codec::kSymmetric, Rounding::kStochastic}, 8, 128);
const Spec kInt4 = codec::make_spec({codec::kSymmetric, Rounding::kNearest}, 4, 32);

TEST(Fused, AnAllReduceGivesThePlansBytes) {
  const FusedRun run{3, {{Collective::kAllReduce, "twoshot", kInt8, Dtype::kFloat32, 3000}}};
  EXPECT_EQ(by_kernels(run, {}).results, by_plans(run));
}

void expect_the_plans_bytes(const FusedRun& run, Random& random, int schedules) {
  SCOPED_TRACE(describe(run));
  const Results expected = by_plans(run);
  for (int i = 0; i < schedules; ++i) {
    const Schedule schedule{.seed = random.next(),
                            .first_epoch = static_cast<uint32_t>(-random.below(4))};
    ASSERT_EQ(by_kernels(run, schedule).results, expected);
  }
}

std::vector<Spec> fused_specs(size_t block) {
  std::vector<Spec> specs = codec::every_spec(block);
  std::erase_if(specs, [](const Spec& spec) {
    return spec.hadamard != 0 ||
           cpu_fused_kernel({.spec = spec, .raw = Dtype::kFloat32}) == nullptr;
  });
  return specs;
}

// Every format, rounding and type, in each kind of call.
TEST(Fused, EveryFormatGivesThePlansBytes) {
  Random random(3);
  size_t formats = 0;
  for (const Spec& spec : fused_specs(64))
    for (const Dtype dtype : codec::kAllDtypes) {
      if (spec.bits == 16 && dtype != Dtype::kFloat32) continue;
      ++formats;
      const size_t kind = random.below(kFusedKinds);
      const int ranks = static_cast<int>(2 + random.below(3));
      expect_the_plans_bytes({ranks, {call_of(kind, spec, dtype, 1100 + random.below(300), ranks)}},
                             random, 2);
      if (HasFatalFailure()) return;
    }
  EXPECT_GE(formats, 60u);
}

FusedRun some_run(Random& random) {
  return kernels::some_run(random, fused_specs,
                           {std::begin(codec::kAllDtypes), std::end(codec::kAllDtypes)});
}

// Calls of other sizes, formats and kinds follow each other in the same windows. TERSE_FUSED_RUNS
// and TERSE_FUSED_SEED are for longer runs by hand.
TEST(Fused, CallsOneAfterAnotherGiveThePlansBytes) {
  const auto setting = [](const char* name, uint64_t usual) {
    const char* const text = std::getenv(name);
    return text != nullptr ? std::strtoull(text, nullptr, 10) : usual;
  };
  Random random(setting("TERSE_FUSED_SEED", 17));
  const uint64_t runs = setting("TERSE_FUSED_RUNS", 120);
  for (uint64_t i = 0; i < runs; ++i) {
    expect_the_plans_bytes(some_run(random), random, 2);
    if (HasFatalFailure()) return;
  }
}

// Several laps of each unit, which are warps, and thread blocks.
TEST(Fused, UnitsHaveTilesEnough) {
  Random random(5);
  for (const size_t block : {128, 4096})
    for (size_t kind = 0; kind < kFusedKinds; ++kind) {
      Spec spec = kInt8;
      spec.block = static_cast<uint16_t>(block);
      expect_the_plans_bytes({2, {call_of(kind, spec, Dtype::kFloat32, 13'000, 2)}}, random, 2);
    }
}

// A warp that the kernel before did not have uses the slot that the others do.
TEST(Fused, AllWarpsUseTheSlotWhoseTurnItIs) {
  Random random(12);
  for (const size_t kind : {0, 2, 3}) {
    FusedRun run{3, {}};
    for (int i = 0; i < 5; ++i) run.calls.push_back(call_of(kind, kInt8, Dtype::kFloat32, 6000, 3));
    expect_the_plans_bytes(run, random, 8);
  }
}

TEST(Fused, SixteenRanksWriteIntoEachOthersWindows) {
  Random random(6);
  for (size_t kind = 0; kind < kFusedKinds; ++kind)
    expect_the_plans_bytes({16, {call_of(kind, kInt4, Dtype::kBfloat16, 40, 16)}}, random, 1);
}

// Memory an element, of bf16 in int8 on 8 ranks: the raw elements are read and the result written
// once, 4 bytes; each of 8.25 bits is written to the window of who sums it, read there, written to
// all windows, and read: the sum's own share once more, to be copied. Four threads read a block's
// scale.
TEST(Fused, ReadsAndWritesTheDataOnce) {
  const Spec spec = codec::make_spec({codec::kSymmetric, Rounding::kNearest}, 8, 128);
  constexpr double kRanks = 8, kOthers = (kRanks - 1) / kRanks;
  constexpr double kWritten = 1 + 0.25 / 8, kRead = 1 + 4 * 0.25 / 8, kState = 0.02;
  constexpr size_t kCount = 8 * 8192;
  const FusedRun run{8, {{Collective::kAllReduce, "twoshot", spec, Dtype::kBfloat16, kCount}}};
  const simt::Traffic traffic = by_kernels(run, {}).traffic;
  EXPECT_NEAR(static_cast<double>(traffic.read) / (kRanks * kCount),
              2 + kRead * kOthers + kWritten / kRanks + kRead, kState);
  EXPECT_NEAR(static_cast<double>(traffic.written) / (kRanks * kCount),
              2 + kWritten * kOthers + kWritten, kState);
}

// An element of an aborted call is as the call gives it, or as it was; and nobody waits for ever,
// nor writes what a peer still reads.
TEST(Fused, AnAbortedCallWritesItsResultOrNothing) {
  Random random(8);
  std::ptrdiff_t given_up = 0;
  for (int i = 0; i < 150; ++i) {
    const FusedRun run = some_run(random);
    SCOPED_TRACE(describe(run));
    const Results expected = by_plans(run);
    // All calls have one header, by which a call is taken for another one.
    const auto name_alike = [](Exchange& x) { name(x, header_of(0, static_cast<int>(x.self))); };
    const Outcome outcome =
        by_kernels(run, {.seed = random.next(), .aborts = true, .mistake = name_alike});
    given_up += std::ranges::count(outcome.given_up, true);
    ASSERT_EQ(find_torn(run, outcome.results, expected), "");
  }
  EXPECT_GT(given_up, 20);
}

// A run of one call of which a rank has another count than the others.
struct MismatchedRun {
  FusedRun run;
  size_t other;  // rank

  Schedule schedule(uint64_t seed) const {
    return {.seed = seed, .mistake = [other = other](Exchange& x) {
              codec::CallHeader call = header_of(0, static_cast<int>(x.self));
              call.word[codec::CallHeader::kCount] = x.self == other ? 7 : 5;
              name(x, call);
            }};
  }

  // Returns what is wrong with an outcome.
  std::string fault(const Outcome& outcome) const {
    for (size_t rank = 0; rank < outcome.results[0].size(); ++rank) {
      const std::string of = " of rank " + std::to_string(rank);
      if (!outcome.given_up[rank]) return "nothing is given up" + of;
      const codec::Mismatch& report = outcome.reports[rank];
      const auto sender = report.other.word[codec::CallHeader::kSender];
      if (report.found != 1) return "there is no report" + of;
      if (report.own.word[codec::CallHeader::kCount] != (rank == other ? 7u : 5u))
        return "own call" + of;
      if (report.other.word[codec::CallHeader::kCount] != (rank == other ? 5u : 7u))
        return "call" + of;
      if (rank == other ? sender == rank : sender != other) return "sender" + of;
    }
    return "";
  }
};

MismatchedRun some_mismatch(Random& random) {
  FusedRun run = some_run(random);
  run.calls.resize(1);
  const size_t other = random.below(static_cast<uint32_t>(run.ranks));
  return {std::move(run), other};
}

TEST(Fused, ACallThatDiffersIsReportedOnAllRanksAndWritesNothing) {
  Random random(12);
  for (int i = 0; i < 100; ++i) {
    const MismatchedRun mismatch = some_mismatch(random);
    SCOPED_TRACE(describe(mismatch.run));
    const Outcome outcome = by_kernels(mismatch.run, mismatch.schedule(random.next()));
    EXPECT_EQ(mismatch.fault(outcome), "");
    const FusedCall& call = mismatch.run.calls[0];
    if (call.own_exact || call.collective == Collective::kAllToAll) continue;  // the host copies
    EXPECT_TRUE(outcome.results == before(mismatch.run));
  }
}

// Returns what is wrong with a run of whose last call one rank has named that it does it in steps.
std::string fault_beside_steps(const FusedRun& run, size_t rank, const Outcome& outcome) {
  const size_t last = run.calls.size() - 1;
  for (size_t other = 0; other < static_cast<size_t>(run.ranks); ++other) {
    const std::string of = " of rank " + std::to_string(other);
    const codec::Mismatch& report = outcome.reports[other];
    if (report.found != (other == rank ? 0u : 1u)) return "report" + of;
    if (other == rank) continue;
    if (report.own != header_of(last, static_cast<int>(other))) return "own call" + of;
    if (report.other != header_of(last, static_cast<int>(rank))) return "call" + of;
    if (!outcome.given_up[other]) return "nothing is given up" + of;
  }
  Results expected = by_plans(run), results = outcome.results;
  expected.pop_back();
  results.pop_back();
  return results == expected ? "" : "the calls before it";
}

// What its peers wait for never comes.
TEST(Fused, ACallThatOneRankDoesInStepsEndsOnTheOthers) {
  Random random(14);
  for (int i = 0; i < 60; ++i) {
    const FusedRun run = some_run(random);
    SCOPED_TRACE(describe(run));
    const size_t rank = random.below(static_cast<uint32_t>(run.ranks));
    const Outcome outcome = by_kernels(run, {.seed = random.next(), .in_steps = rank});
    EXPECT_EQ(fault_beside_steps(run, rank, outcome), "");
  }
}

// Whichever of its units have raised their flags, and at whom.
TEST(Fused, ARankThatIsKilledInACallIsReportedByAllThatHaveNoResult) {
  Random random(15);
  size_t killed_in_a_call = 0;
  for (int i = 0; i < 150; ++i) {
    const FusedRun run = some_run(random);
    SCOPED_TRACE(describe(run));
    const size_t victim = random.below(static_cast<uint32_t>(run.ranks));
    const Outcome outcome =
        by_kernels(run, {.seed = random.next(), .killed = victim, .hosts_know = i % 2 != 0});
    const Results expected = by_plans(run);
    ASSERT_EQ(find_torn(run, outcome.results, expected), "");
    for (size_t rank = 0; rank < static_cast<size_t>(run.ranks); ++rank) {
      if (rank == victim) continue;
      EXPECT_EQ(outcome.reports[rank].found, 0u);
      EXPECT_EQ(outcome.reports[rank].left, outcome.given_up[rank] ? victim + 1 : 0);
      killed_in_a_call += outcome.given_up[rank];
      for (size_t call = 0; call < run.calls.size(); ++call) {
        const bool has_result = !outcome.given_up[rank] && !run.calls[call].own_exact;
        if (has_result) {
          EXPECT_EQ(outcome.results[call][rank], expected[call][rank]);
        }
      }
    }
  }
  EXPECT_GT(killed_in_a_call, 50u);
}

// Returns true if a run is a Fault, or without its results.
bool is_noticed(const FusedRun& run, const Schedule& schedule, const Results& expected) {
  try {
    return by_kernels(run, schedule).results != expected;
  } catch (const simt::Fault&) {
    return true;
  }
}

// Mistakes in what a kernel is given, in each of which the ranks read or write too early.
TEST(Fused, NoMistakeInItsParametersGoesUnnoticed) {
  struct Mistake {
    const char* what;
    std::vector<const char*> algorithms;
    std::function<void(Exchange&)> make;
  };
  const auto unit = [](Exchange& x) -> WindowHeader::Unit& {
    return reinterpret_cast<WindowHeader*>(x.window[x.self])->unit[0];
  };
  const Mistake mistakes[] = {
      {"waits for the epoch before",
       {"oneshot", "twoshot"},
       [&](Exchange& x) {
         if (x.self == 0) unit(x).epoch[0] = 9;
       }},
      {"never turns the slot", {"oneshot"}, [](Exchange& x) { x.slot_bytes = 0; }},
      {"writes into another peer's window",
       {"oneshot", "twoshot"},
       [](Exchange& x) {
         if (x.self == 0) x.window[2] = x.window[1];
       }},
      {"is another rank",
       {"oneshot", "twoshot"},
       [](Exchange& x) {
         if (x.self == 0) x.self = 1;
       }},
      {"leaves out its second half",
       {"twoshot"},
       [](Exchange& x) {
         if (x.self == 0) x.sharing = false;
       }},
  };
  for (const Mistake& mistake : mistakes)
    for (const char* algorithm : mistake.algorithms) {
      SCOPED_TRACE(std::string(algorithm) + " " + mistake.what);
      FusedRun run{3, {}};
      for (int i = 0; i < 3; ++i)
        run.calls.push_back({Collective::kAllReduce, algorithm, kInt8, Dtype::kFloat32, 500});
      const Results expected = by_plans(run);
      Schedule schedule{.first_epoch = 10};
      for (; schedule.seed < 20; ++schedule.seed) {
        schedule.mistake = {};
        ASSERT_EQ(by_kernels(run, schedule).results, expected);
        schedule.mistake = mistake.make;
        EXPECT_TRUE(is_noticed(run, schedule, expected)) << "seed " << schedule.seed;
      }
    }
}

// Mistakes of the fused kernels' own source: others have tests of their own.
simt::Planter in_fused(const simt::Planter* planter) {
  return [planter](const simt::Plant& plant, uint32_t thread) {
    const std::string site = to_string(plant.site);
    const bool is_own = site.starts_with("fused.h:") || site.starts_with("meetings.h:");
    return is_own && (*planter)(plant, thread);
  };
}

// Wherever a flag, a barrier or a place of the kernel's own is wrong.
TEST(Fused, NoMistakeInItGoesUnnoticed) {
  using enum simt::Mistake;
  Random random(11);
  std::vector<Trial> trials;
  for (int i = 0; i < 50; ++i) {
    FusedRun one = some_run(random);
    one.calls.resize(1);  // a kernel's first look may see the name
    trials.emplace_back([run = one, seed = random.next()](const auto* planter) {
      const simt::Planter here = in_fused(planter);
      const Schedule schedule{.seed = seed, .planter = &here, .in_steps = 0};
      return fault_beside_steps(run, 0, by_kernels(run, schedule)) == "";
    });
  }
  for (int i = 0; i < 30; ++i)
    trials.emplace_back(
        [mismatch = some_mismatch(random), seed = random.next()](const auto* planter) {
          const simt::Planter here = in_fused(planter);
          Schedule schedule = mismatch.schedule(seed);
          schedule.planter = &here;
          return mismatch.fault(by_kernels(mismatch.run, schedule)) == "";
        });
  for (int i = 0; i < 150; ++i) {
    const FusedRun run = some_run(random);
    trials.emplace_back([run, seed = random.next(), expected = by_plans(run)](const auto* planter) {
      const simt::Planter here = in_fused(planter);
      return by_kernels(run, {.seed = seed, .planter = &here}).results == expected;
    });
  }
  EXPECT_EQ(expect_noticed(trials),
            (std::set{kNoBarrier, kStoresFurther, kLoadsFurther, kNoRelease, kNoAcquire}));
}

}  // namespace
}  // namespace terse::kernels
