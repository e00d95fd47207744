// Control flow: how lanes diverge and meet, what warps and blocks do together, and what is refused.
#include <gtest/gtest.h>

#include <numeric>

#include "assemble.h"
#include "simt/fault.h"

namespace terse::machine {
namespace {

using Words = std::vector<uint32_t>;

// Whatever is drawn.
Words for_every_seed(const std::vector<std::string>& lines) {
  const Words first = result(lines, 1);
  for (uint64_t seed = 2; seed < 30; ++seed) EXPECT_EQ(result(lines, seed), first);
  return first;
}

Words lanes(uint32_t (*f)(uint32_t)) {
  Words all(kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) all[lane] = f(lane);
  return all;
}

TEST(Control, GuardsChooseLanes) {
  EXPECT_EQ(for_every_seed({"S2R R2, SR_TID.X", "ISETP.LT.U32.AND P0, PT, R2, 0x3, PT",
                            "MOV R0, 0x1", "@P0 MOV R0, 0x2", "@!P0 IADD3 R0, R0, R2, RZ"}),
            lanes([](uint32_t lane) { return lane < 3 ? 2 : lane + 1; }));
}

// Each lane goes round as often as its number, and all leave together.
TEST(Control, LanesThatDivergeMeetAgain) {
  const std::vector<std::string> lines = {"S2R R2, SR_TID.X",
                                          "MOV R0, RZ",
                                          "BSSY B0, `(end)",
                                          "again:",
                                          "ISETP.GE.U32.AND P0, PT, R0, R2, PT",
                                          "@P0 BRA `(done)",
                                          "IADD3 R0, R0, 0x1, RZ",
                                          "BRA `(again)",
                                          "done:",
                                          "BSYNC B0",
                                          "end:",
                                          "SHFL.BFLY PT, R0, R0, 0x1, 0x1f"};
  EXPECT_EQ(for_every_seed(lines), lanes([](uint32_t lane) { return lane ^ 1; }));
}

// Also behind a uniform register that one of the sides writes: this is sm_90.
TEST(Control, SidesOfABranchRunInAnyOrder) {
  size_t seen = 0;
  for (uint64_t seed = 1; seed < 400; ++seed) {
    const Words all =
        result({"S2R R2, SR_TID.X", "MOV R8, 0x400", "MOV R3, 0x1", "MOV R0, RZ", "STS [R8], RZ",
                "WARPSYNC.ALL", "ISETP.LT.U32.AND P0, PT, R2, 0x10, PT", "BSSY B0, `(end)",
                "@P0 BRA `(other)", "UMOV UR6, 0x1", "STS [R8], R3", "STS [R8], RZ", "BRA `(done)",
                "other:", "LDS R0, [R8]", "done:", "BSYNC B0", "end:"},
               seed);
    seen += all[0];
  }
  EXPECT_GT(seen, 0u);
}

TEST(Control, ResultsAreThereBeforeTheyAreWaitedFor) {
  EXPECT_EQ(for_every_seed({"MOV R0, 0x3", "DEPBAR.LE SB0, 0x0, {3,1}", "DEPBAR.LE SB5, 0x1",
                            "IADD3 R0, R0, 0x1, RZ"}),
            Words(kLanes, 4));
  EXPECT_ANY_THROW(for_every_seed({"DEPBAR.LE SB6, 0x0"}));
  EXPECT_ANY_THROW(for_every_seed({"DEPBAR.LE SB0, 0x0, {6}"}));
  EXPECT_ANY_THROW(for_every_seed({"DEPBAR.LE SB0, 0x0, {1"}));
  EXPECT_ANY_THROW(for_every_seed({"DEPBAR.LE B0, 0x0"}));
}

// Who breaks out is not waited for.
TEST(Control, BreakLeavesTheOthersAlone) {
  EXPECT_EQ(
      for_every_seed({"S2R R2, SR_TID.X", "MOV R0, 0x7", "BSSY B0, `(end)",
                      "ISETP.EQ.U32.AND P0, PT, R2, 0x4, PT", "@P0 BREAK B0", "@P0 BRA `(out)",
                      "MOV R0, 0x8", "BSYNC B0", "end:", "NOP", "out:", "NOP"}),
      lanes([](uint32_t lane) { return lane == 4 ? 7u : 8u; }));
}

TEST(Control, FunctionsReturnToWhoCalled) {
  EXPECT_EQ(for_every_seed({"MOV R0, 0x1", "MOV R4, 0x40", "MOV R5, RZ", "CALL.REL.NOINC `(double)",
                            "MOV R4, 0x60", "CALL.REL.NOINC `(double)", "BRA `(end)", "double:",
                            "IADD3 R0, R0, R0, RZ", "RET.REL.NODEC R4 `(kernel)", "end:", "NOP"}),
            Words(kLanes, 4));
}

// A shuffle of lanes that have diverged: they meet before it.
TEST(Control, CollectivesGatherLanes) {
  EXPECT_EQ(for_every_seed({"S2R R2, SR_TID.X",
                            "ISETP.LT.U32.AND P0, PT, R2, 0x9, PT",
                            "MOV R6, 0xffffffff",
                            "UMOV UR4, 0xffffffff",
                            "MOV R7, 0x3",
                            "MOV R8, 0x1f",
                            "@P0 BRA `(first)",
                            "NOP",
                            "first:",
                            "BRA.DIV UR4, `(apart)",
                            "SHFL.IDX PT, R0, R2, R7, R8",
                            "BRA `(end)",
                            "apart:",
                            "WARPSYNC.COLLECTIVE R6, `(met)",
                            "SHFL.IDX P1, R0, R2, R7, R8",
                            "ENDCOLLECTIVE",
                            "met:",
                            "NOP",
                            "end:",
                            "NOP"}),
            Words(kLanes, 3));
}

TEST(Collective, ShufflesByLane) {
  const auto shuffled = [](const std::string& line) {
    return for_every_seed({"S2R R2, SR_TID.X", line});
  };
  EXPECT_EQ(shuffled("SHFL.IDX PT, R0, R2, 0x5, 0x1f"), Words(kLanes, 5));
  EXPECT_EQ(shuffled("SHFL.BFLY PT, R0, R2, 0x3, 0x1f"), lanes([](uint32_t l) { return l ^ 3; }));
  EXPECT_EQ(shuffled("SHFL.DOWN PT, R0, R2, 0x10, 0x1f"),
            lanes([](uint32_t l) { return l < 16 ? l + 16 : l; }));
  // In segments of 8 lanes.
  EXPECT_EQ(shuffled("SHFL.IDX PT, R0, R2, 0x1, 0x181f"),
            lanes([](uint32_t l) { return (l & ~7u) + 1; }));
}

TEST(Collective, CountsVotesAndFindsExtremes) {
  EXPECT_EQ(same_result({"S2R R2, SR_TID.X", "ISETP.GE.U32.AND P0, PT, R2, 0x1c, PT",
                         "VOTE.ANY R0, PT, P0"}),
            0xf0000000u);
  EXPECT_EQ(same_result({"S2R R2, SR_TID.X", "REDUX.MAX UR4, R2", "MOV R0, UR4"}), 31u);
}

// Every warp sees what the others stored before the block's barrier.
TEST(Block, MeetsAtItsBarrier) {
  const Program program =
      assemble({"S2R R2, SR_TID.X", "MOV R3, 0x400", "LEA R3, R2, R3, 0x2", "STS [R3], R2",
                "BAR.SYNC.DEFER_BLOCKING 0x0", "LOP3.LUT R4, R2, 0x7f, RZ, 0x3c, !PT",
                "MOV R3, 0x400", "LEA R3, R4, R3, 0x2", "LDS R0, [R3]", "LDC.64 R8, c[0x0][0x210]",
                "IMAD.WIDE.U32 R8, R2, 0x4, R8", "STG.E desc[UR4][R8.64], R0", "EXIT"},
               512);
  Words reversed(128);
  std::iota(reversed.rbegin(), reversed.rend(), 0);
  for (uint64_t seed = 0; seed < 20; ++seed)
    EXPECT_EQ(run_on(program, 128, {.threads = 128, .seed = seed}), reversed);
}

TEST(Block, RunsAsManyTimesAsTheLaunchSays) {
  const Program program =
      assemble({"S2R R2, SR_CTAID.X", "LDC.64 R8, c[0x0][0x210]", "LDC R3, c[0x0][0xc]",
                "IMAD.WIDE.U32 R8, R2, 0x4, R8", "STG.E desc[UR4][R8.64], R3", "EXIT"});
  EXPECT_EQ(run_on(program, 5, {.blocks = 3, .threads = 1}), (Words{3, 3, 3, 0, 0}));
}

// No GPU says what a block's barrier does that half of a warp has in one place, and half in
// another.
TEST(Fault, OfABlocksBarrierAtTwoPlacesIsNoticed) {
  const std::vector<std::string> lines = {"S2R R2, SR_TID.X",
                                          "ISETP.LT.U32.AND P0, PT, R2, 0x3, PT",
                                          "@P0 BRA `(other)",
                                          "BAR.SYNC 0x0",
                                          "EXIT",
                                          "other:",
                                          "BAR.SYNC 0x0"};
  EXPECT_NE(error_of(lines).find("two barriers"), std::string::npos);
}

TEST(Fault, OfAUniformRegisterOfSeveralValuesIsNoticed) {
  EXPECT_NE(error_of({"S2R R2, SR_TID.X", "R2UR UR4, R2"}).find("several values"),
            std::string::npos);
}

// Lanes that wait for each other at different places, for ever.
TEST(Fault, OfWaitingIsNoticed) {
  const std::string what =
      error_of({"S2R R2, SR_TID.X", "ISETP.EQ.U32.AND P0, PT, R2, 0x4, PT", "@P0 BRA `(other)",
                "WARPSYNC.ALL", "EXIT", "other:", "BAR.SYNC 0x0"});
  EXPECT_NE(what.find("waits for ever"), std::string::npos) << what;
}

TEST(Fault, OfAnEndlessLoopIsNoticed) {
  const Program program = assemble({"again:", "BRA `(again)"});
  EXPECT_THROW(run_on(program, 1, {.max_steps = 1000}), simt::Fault);
}

TEST(Fault, OfAShuffleFromALaneThatIsAwayIsNoticed) {
  EXPECT_NE(error_of({"S2R R2, SR_TID.X", "ISETP.NE.U32.AND P0, PT, R2, 0x4, PT",
                      "@P0 SHFL.IDX PT, R0, R2, 0x4, 0x1f"})
                .find("a lane that is away"),
            std::string::npos);
}

// Nothing that is not known is skipped, executed or not.
TEST(Refusal, OfWhatIsNotKnown) {
  const auto refused = [](const std::string& line) { return error_of({"EXIT", line}); };
  EXPECT_EQ(refused("FADD R0, R2, R3"), "");
  EXPECT_NE(refused("FSWZADD R0, R2, R3, NPPP").find("FSWZADD"), std::string::npos);
  EXPECT_NE(refused("FADD.SAT R0, R2, R3").find("FADD.SAT"), std::string::npos);
  EXPECT_NE(refused("FADD R0, R2.F32x2, R3").find("R2.F32x2"), std::string::npos);
  EXPECT_NE(refused("BRA `(nowhere)").find("label"), std::string::npos);
  EXPECT_NE(refused("ISETP.LT.GT.AND P0, PT, R2, R3, PT").find("LT.GT"), std::string::npos);
  EXPECT_NE(refused("SHFL PT, R0, R2, R3, R4").find("SHFL"), std::string::npos);
  EXPECT_NE(refused("MOV R0, R300").find("R300"), std::string::npos);
  EXPECT_NE(refused("ISETP.LT.AND P9, PT, R2, R3, PT").find("P9"), std::string::npos);
}

// A mark that an instruction does not have is no part of what it is known to do.
TEST(Refusal, OfMarksThatAnInstructionDoesNotHave) {
  for (const char* const line :
       {"IADD3 R0, |R3|, R2, RZ", "FADD R0, ~R2, R3", "IADD3 R0, R2.H1_H1, R3, RZ",
        "PRMT R0, -R2, 0x3210, R3", "IADD3 R0, R2, 1.5, RZ", "NOP R3, R4", "MOV.64 R0, R254"})
    EXPECT_NE(error_of({line}), "") << line;
}

TEST(Refusal, OfParametersThatDoNotFit) {
  const Program program = assemble({"EXIT"});
  const uint8_t parameters[4] = {};
  EXPECT_THROW(run(program, parameters, {}), std::invalid_argument);
}

TEST(Refusal, OfAnotherArchitecture) {
  Program program = assemble({"EXIT"});
  program.architecture = 52;
  const uint8_t parameters[8] = {};
  EXPECT_THROW(run(program, parameters, {}), std::invalid_argument);
}

}  // namespace
}  // namespace terse::machine
