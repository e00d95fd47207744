#include "fused_ranks.h"

#include <algorithm>
#include <stdexcept>

namespace terse::kernels {
namespace {

size_t up(size_t bytes) {
  return (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
}

plan::Fusion fusion_of(const FusedCall& call, int ranks) {
  plan::Fusion fusion = plan::fuse(
      call.collective, [&](const plan::Shape& s) { return build(call, s); }, shape_of(call, ranks),
      SIZE_MAX);
  if (fusion.by_rank.empty()) throw std::logic_error("not fused " + fusion.reason);
  return fusion;
}

}  // namespace

std::vector<plan::Fusion> fusions_of(const FusedRun& run) {
  std::vector<plan::Fusion> fusions;
  for (const FusedCall& call : run.calls) fusions.push_back(fusion_of(call, run.ranks));
  return fusions;
}

Windows::Windows(const std::vector<plan::Fusion>& calls, int ranks,
                 std::pmr::memory_resource* memory) {
  size_t pushed = 0, shared = 0;
  for (const plan::Fusion& call : calls) {
    const plan::Fused& any = call.by_rank.front();
    if (any.alternates()) {
      slot_ = std::max(slot_, up(any.pushed_bytes + any.shared_bytes));
    } else {
      pushed = std::max(pushed, up(any.pushed_bytes));
      shared = std::max(shared, up(any.shared_bytes));
    }
  }
  for (int rank = 0; rank < ranks; ++rank) windows_.emplace_back(pushed, shared, slot_, memory);
}

FusedRank::FusedRank(const FusedRun& run, size_t number, int rank, const plan::Fused& fused,
                     const Windows& windows, uint32_t max_warps, const uint32_t* abort,
                     std::pmr::memory_resource* memory)
    : memory_(make_memory(run, number, rank, memory)),
      binder_(run.calls[number], number, run.ranks, rank, memory_),
      fused_(fused) {
  const auto fingerprint = [this](const plan::Place& p) {
    return aligned(memory_.fingerprints, p.offset);
  };
  for (const plan::Fingerprint& f : fused.fingerprints)
    binder_.fingerprint(f, fingerprint(f.target));
  const auto in_area = [&](bool shared, int of) {
    return [begin = windows.area(fused, shared, of)](const plan::Place& p) {
      return begin + p.offset;
    };
  };
  std::vector<codec::Combine> pushes, makes, takes;
  for (const plan::Fused::Push& p : fused.pushes)
    pushes.push_back(binder_.bind(p.compute, {}, in_area(false, p.peer), fingerprint));
  for (const plan::Compute& c : fused.makes)
    makes.push_back(binder_.bind(c, in_area(false, rank), in_area(true, rank), fingerprint));
  for (const plan::Compute& c : fused.takes)
    takes.push_back(binder_.bind(c, in_area(true, rank), {}, fingerprint));
  batch_ = make_fused_batch({pushes, makes, takes}, nullptr);
  Exchange& x = batch_.exchange;
  for (int of = 0; of < run.ranks; ++of) x.window[of] = windows.of(of).begin;
  x.abort = abort;
  x.max_warps = max_warps;
  x.slot_bytes = fused.alternates() ? windows.slot_bytes() : 0;
  x.ranks = static_cast<uint32_t>(run.ranks);
  x.self = static_cast<uint32_t>(rank);
  x.pushing = fused.pushing();
  x.sharing = fused.sharing();
}

oracle::Bytes FusedRank::finish() {
  for (const plan::Copy& c : fused_.copies) binder_.copy(c);
  return result(memory_);
}

}  // namespace terse::kernels
