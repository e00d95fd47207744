// The machine code of fused kernels against their source on the SIMT executor: on each rank, whose
// peers have done their parts already, the same bytes in all windows and in the result.
#include <gtest/gtest.h>

#include <set>

#include "cpu_kernels.h"
#include "fused_machine.h"
#include "kernel_listings.h"
#include "machine_kernels.h"
#include "support.h"

namespace terse::kernels {
namespace {

using codec::Dtype;
using codec::Spec;
using plan::Collective;

void expect_the_sources_bytes(const FusedRun& run) {
  SCOPED_TRACE(codec::describe(run.calls.front().spec));
  const Results found = one_by_one(run, machine_fused), expected = one_by_one(run, {});
  for (size_t rank = 0; rank < expected.size(); ++rank)
    for (size_t memory = 0; memory < expected[rank].size(); ++memory)
      ASSERT_EQ(found[rank][memory], expected[rank][memory]) << "rank " << rank << ", " << memory;
}

TEST(MachineCode, OfAFusedAllReduceGivesTheSourcesBytes) {
  const Spec spec = codec::make_spec({codec::kSymmetric, codec::Rounding::kStochastic}, 8, 128);
  expect_the_sources_bytes(
      {3, {{Collective::kAllReduce, "twoshot", spec, Dtype::kBfloat16, 7000}}});
}

// Every kernel that is compiled, in a call of some kind, warps and thread blocks as units.
TEST(MachineCode, OfEveryFusedKernelGivesTheSourcesBytes) {
  const FusedCall kinds[] = {{Collective::kAllReduce, "oneshot", {}},
                             {Collective::kAllReduce, "twoshot", {}},
                             {Collective::kAllGather, "direct", {}},
                             {Collective::kReduceScatter, "direct", {}}};
  std::set<std::string> run;
  size_t number = 0;
  for (const size_t block : {128, 2048})
    for (const Spec& spec : codec::every_spec(block))
      for (const Dtype dtype : codec::kAllDtypes) {
        const KernelId id{.spec = spec, .raw = dtype, .packed_target = true};
        if (spec.hadamard != 0 || cpu_fused_kernel(id) == nullptr) continue;
        if (!machine::has_kernel(fused_name(id))) continue;
        run.insert(fused_name(id));
        FusedCall call = kinds[number++ % std::size(kinds)];
        call.spec = spec;
        call.dtype = dtype;
        call.count = 4096 + 700 + number;
        expect_the_sources_bytes({2, {call}});
        if (HasFatalFailure()) return;
      }
  EXPECT_EQ(run.size(), machine::kernel_names().size());
}

// Instructions an element of a two-shot AllReduce on 8 ranks. The kernels that do its parts
// take 36.7 and 49.4 (budgets.json: 7/8 of an encode, 1/8 of a sum of 8 that is encoded, a decode);
// the rest is for the flags, and for copies of what is shared.
TEST(MachineCode, OfAFusedAllReduceTakesWhatItsPartsTake) {
  const auto taken = [](int bits, codec::Rounding rounding) {
    const Spec spec = codec::make_spec({codec::kSymmetric, rounding}, bits, 128);
    const auto issued_for = [&](size_t count) {
      const uint64_t before = issued;
      one_by_one({8, {{Collective::kAllReduce, "twoshot", spec, Dtype::kBfloat16, count}}},
                 machine_fused);
      return static_cast<double>(issued - before);
    };
    constexpr size_t kLess = 8 * 8192, kMore = 2 * kLess;
    return 32 * (issued_for(kMore) - issued_for(kLess)) / (8 * (kMore - kLess));
  };
  EXPECT_NEAR(taken(8, codec::Rounding::kNearest), 40.5, 0.03 * 40.5);
  EXPECT_NEAR(taken(4, codec::Rounding::kStochastic), 53.3, 0.03 * 53.3);
}

}  // namespace
}  // namespace terse::kernels
