#include "fused_calls.h"

#include <algorithm>

#include "specs.h"

namespace terse::kernels {

using codec::Dtype;
using codec::Random;
using codec::Spec;
using plan::Collective;

FusedCall call_of(size_t kind, const Spec& spec, Dtype dtype, size_t count, int ranks) {
  const size_t all = count * static_cast<size_t>(ranks);
  switch (kind) {
    case 0:
      return {Collective::kAllReduce, "oneshot", spec, dtype, count};
    case 1:
      return {Collective::kAllReduce, "twoshot", spec, dtype, all};
    case 2:
      return {Collective::kAllGather, "direct", spec, dtype, count};
    case 3:
      return {Collective::kReduceScatter, "direct", spec, dtype, count};
    case 4:
      return {Collective::kAllToAll, "direct", spec, dtype, count};
    default:
      return {Collective::kAllGather, "direct", spec, dtype, count, false, true};
  }
}

std::string describe(const FusedRun& run) {
  std::string text = std::to_string(run.ranks) + " ranks";
  for (const FusedCall& c : run.calls)
    text += "; " + std::string(name(c.collective)) + " " + c.algorithm + " " +
            codec::describe(c.spec) + " of " + codec::name_of(c.dtype) + " x" +
            std::to_string(c.count) + " block " + std::to_string(c.spec.block) + " at " +
            std::to_string(c.offset) + (c.in_place ? " in place" : "") +
            (c.own_exact ? " own exact" : "");
  return text;
}

FusedRun some_run(Random& random, const Specs& all_specs, const std::vector<Dtype>& dtypes) {
  static constexpr size_t kBlocks[] = {32, 96, 128, 1024, 2048, 4096};
  static constexpr size_t kCounts[] = {1, 31, 100, 700, 1500, 5000};
  FusedRun run{static_cast<int>(2 + random.below(7)), {}, random.next()};
  const size_t calls = 1 + random.below(4);
  for (size_t i = 0; i < calls; ++i) {
    const std::vector<Spec> specs = all_specs(kBlocks[random.below(std::size(kBlocks))]);
    const Spec spec = specs[random.below(specs.size())];
    const Dtype dtype = spec.bits == 16 ? Dtype::kFloat32 : dtypes[random.below(dtypes.size())];
    const size_t most = kCounts[random.below(std::size(kCounts))] / static_cast<size_t>(run.ranks);
    FusedCall call =
        call_of(random.below(kFusedKinds), spec, dtype, 1 + random.below(most + 1), run.ranks);
    call.in_place = call.collective != Collective::kAllToAll && random.below(3) == 0;
    call.offset = random.below(3) == 0 ? random.below(16) : 0;
    call.average = random.below(3) == 0;
    call.premultiply = random.below(3) == 0 ? 0.75f : 1;
    run.calls.push_back(call);
  }
  return run;
}

std::string find_torn(const FusedRun& run, const Results& found, const Results& expected) {
  const Results old = before(run);
  for (size_t call = 0; call < found.size(); ++call) {
    if (run.calls[call].own_exact) continue;
    const size_t element = codec::dtype_size(run.calls[call].dtype);
    for (size_t rank = 0; rank < found[call].size(); ++rank) {
      const oracle::Bytes& bytes = found[call][rank];
      for (size_t at = 0; at < bytes.size(); at += element) {
        const auto is_of = [&](const Results& results) {
          return std::equal(&bytes[at], &bytes[at] + element, &results[call][rank][at]);
        };
        if (!is_of(expected) && !is_of(old))
          return "call " + std::to_string(call) + ", rank " + std::to_string(rank) + ", byte " +
                 std::to_string(at);
      }
    }
  }
  return "";
}

}  // namespace terse::kernels
