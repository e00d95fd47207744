#include "fused_calls.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <stdexcept>

#include "cpu_kernels.h"
#include "fused_memory.h"
#include "plan/fuse.h"
#include "simt/flags.h"
#include "support.h"

namespace terse::kernels {
namespace {

using oracle::Bytes;

constexpr size_t kAlign = kMemoryAlignment;

// A rank's window. Areas have the same places in all calls: one for what is pushed, one for what is
// shared, and one with two slots.
struct Window {
  Window(size_t pushed, size_t shared, size_t slot)
      : bytes(kWindowHeaderBytes + pushed + shared + 2 * slot + kAlign, 0xa5),
        begin(aligned(bytes, 0)),
        areas{begin + kWindowHeaderBytes, begin + kWindowHeaderBytes + pushed,
              begin + kWindowHeaderBytes + pushed + shared},
        end(areas[2] + 2 * slot) {
    std::memset(begin, 0, kWindowHeaderBytes);
  }

  WindowHeader& header() const { return *reinterpret_cast<WindowHeader*>(begin); }

  Bytes bytes;
  char* begin;
  char* areas[3];
  char* end;
};

size_t up(size_t bytes) { return (bytes + kAlign - 1) / kAlign * kAlign; }

class Windows {
 public:
  Windows(const std::vector<plan::Fusion>& calls, int ranks) {
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
    for (int rank = 0; rank < ranks; ++rank) windows_.emplace_back(pushed, shared, slot_);
  }

  const Window& of(int rank) const { return windows_[static_cast<size_t>(rank)]; }
  size_t slot_bytes() const { return slot_; }

  // Where what is pushed, or shared, is in the rank's window.
  char* area(const plan::Fused& call, bool shared, int rank) const {
    return of(rank).areas[call.alternates() ? 2 : shared];
  }

  std::deque<Window>& all() { return windows_; }

  // The parts that kernels may touch: of so many units.
  void add_to(simt::Machine& machine, uint32_t units, bool are_filled = false) const {
    for (size_t rank = 0; rank < windows_.size(); ++rank) {
      const Window& w = windows_[rank];
      const auto add = [&](auto& first, const char* what) {
        machine.windows.push_back({&first, units * sizeof first,
                                   "rank " + std::to_string(rank) + "'s " + what,
                                   units * sizeof first});
      };
      add(w.header().unit[0], "units");
      add(w.header().flag[0][0], "flags of pushes");
      add(w.header().flag[1][0], "flags of shares");
      const auto bytes = static_cast<size_t>(w.end - w.areas[0]);
      machine.windows.push_back(
          {w.areas[0], bytes, "rank " + std::to_string(rank) + "'s areas", are_filled ? bytes : 0});
    }
  }

 private:
  size_t slot_ = 0;
  std::deque<Window> windows_;
};

// A call on one rank, as a kernel.
class FusedRank {
 public:
  FusedRank(const FusedRun& run, size_t number, int rank, const plan::Fused& fused,
            const Windows& windows, uint32_t max_warps, const uint32_t* abort)
      : memory_(make_memory(run, number, rank)),
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
    for (Bytes& bytes : memory_.bytes)
      allowed_.emplace_back(bytes.data(), bytes.size(), simt::Access::kReadWrite, "buffer");
    allowed_.emplace_back(memory_.fingerprints.data(), memory_.fingerprints.size(),
                          simt::Access::kReadOnly, "fingerprints");
  }

  Exchange& exchange() { return batch_.exchange; }
  const FusedBatch& batch() const { return batch_; }

  simt::Kernel kernel(const simt::Launch& launch) const {
    const CpuFused make = cpu_fused_kernel(batch_.kernel);
    if (make == nullptr) throw std::logic_error("no kernel for this format");
    return make(batch_.batch, batch_.exchange, launch);
  }

  void clear_result() { std::memset(memory_.recv, 0, memory_.recv_bytes); }

  Bytes finish() {
    for (const plan::Copy& c : fused_.copies) binder_.copy(c);
    return result(memory_);
  }

 private:
  Memory memory_;
  Binder binder_;
  const plan::Fused& fused_;
  FusedBatch batch_{};
  std::deque<simt::Memory> allowed_;
};

plan::Fusion fusion_of(const FusedCall& call, int ranks) {
  plan::Fusion fusion = plan::fuse(
      call.collective, [&](const plan::Shape& s) { return build(call, s); }, shape_of(call, ranks),
      SIZE_MAX);
  if (fusion.by_rank.empty()) throw std::logic_error("not fused " + fusion.reason);
  return fusion;
}

}  // namespace

Outcome by_kernels(const FusedRun& run, const Schedule& schedule) {
  std::vector<plan::Fusion> fusions;
  for (const FusedCall& call : run.calls) fusions.push_back(fusion_of(call, run.ranks));
  const Windows windows(fusions, run.ranks);
  const uint32_t units = schedule.blocks * kWarps;
  std::vector<uint32_t> aborts(static_cast<size_t>(run.ranks), 0);
  simt::Machine machine{.seed = schedule.seed};
  windows.add_to(machine, units);
  machine.windows.push_back({aborts.data(), aborts.size() * sizeof aborts[0], "aborts",
                             aborts.size() * sizeof aborts[0]});
  for (int rank = 0; rank < run.ranks; ++rank) {
    WindowHeader& header = windows.of(rank).header();
    for (uint32_t unit = 0; unit < units; ++unit) {
      header.unit[unit].epoch = schedule.first_epoch;
      for (auto& half : header.flag) std::ranges::fill(half[unit], schedule.first_epoch);
    }
  }
  std::deque<std::deque<FusedRank>> calls;
  machine.ranks.resize(static_cast<size_t>(run.ranks));
  for (size_t number = 0; number < run.calls.size(); ++number) {
    std::deque<FusedRank>& ranks = calls.emplace_back();
    const uint32_t blocks = 1 + codec::Random(schedule.seed + number).below(schedule.blocks);
    const simt::Launch launch{.blocks = blocks, .threads = kThreads, .planter = schedule.planter};
    for (int rank = 0; rank < run.ranks; ++rank) {
      const size_t r = static_cast<size_t>(rank);
      ranks.emplace_back(run, number, rank, fusions[number].by_rank[r], windows, units, &aborts[r]);
      if (schedule.mistake) schedule.mistake(ranks.back().exchange());
      machine.ranks[r].push_back(ranks.back().kernel(launch));
    }
  }
  if (schedule.aborts)
    machine.ranks.push_back({simt::kernel<uint32_t>({.threads = 1}, [&](uint32_t&) {
      for (uint32_t& abort : aborts) simt::release(&abort, 1);
    })});
  simt::traffic = {};
  simt::run(machine);
  Outcome outcome{.traffic = simt::traffic};
  for (std::deque<FusedRank>& ranks : calls) {
    std::vector<Bytes>& all = outcome.results.emplace_back();
    for (FusedRank& rank : ranks) all.push_back(rank.finish());
  }
  for (int rank = 0; rank < run.ranks; ++rank) {
    uint32_t given_up = 0;
    for (uint32_t unit = 0; unit < units; ++unit)
      given_up += windows.of(rank).header().unit[unit].gives_up;
    outcome.given_up.push_back(given_up);
  }
  return outcome;
}

Results one_by_one(const FusedRun& run, const RunFused& run_fused) {
  const std::vector<plan::Fusion> fusions{fusion_of(run.calls.front(), run.ranks)};
  Windows windows(fusions, run.ranks);
  const uint32_t abort = 0;
  const simt::Launch launch{.blocks = 2, .threads = kThreads};
  std::deque<FusedRank> ranks;
  simt::Machine machine;
  const auto add_to = [&](simt::Machine& to, bool are_filled) {
    windows.add_to(to, launch.blocks * kWarps, are_filled);
    to.windows.push_back({const_cast<uint32_t*>(&abort), sizeof abort, "abort", sizeof abort});
  };
  add_to(machine, false);
  for (int rank = 0; rank < run.ranks; ++rank) {
    ranks.emplace_back(run, 0, rank, fusions[0].by_rank[static_cast<size_t>(rank)], windows,
                       launch.blocks * kWarps, &abort);
    machine.ranks.push_back({ranks.back().kernel(launch)});
  }
  simt::run(machine);

  std::vector<Bytes> done;
  std::deque<simt::Memory> allowed;
  for (Window& window : windows.all()) {
    done.push_back(window.bytes);
    allowed.emplace_back(window.bytes.data(), window.bytes.size(), simt::Access::kReadWrite,
                         "window");
  }
  allowed.emplace_back(&abort, sizeof abort, simt::Access::kReadOnly, "abort");
  Results results;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (size_t of = 0; of < ranks.size(); ++of) {
      Window& window = windows.all()[of];
      std::ranges::copy(done[of], window.bytes.begin());
      for (WindowHeader::Unit& unit : window.header().unit) unit = {};
      if (of != rank) std::fill(window.areas[0], window.end, '\x5a');
    }
    ranks[rank].clear_result();
    if (run_fused) {
      run_fused(ranks[rank].batch(), launch);
    } else {
      simt::Machine alone{.ranks = {{ranks[rank].kernel(launch)}}};
      add_to(alone, true);
      simt::run(alone);
    }
    std::vector<Bytes>& all = results.emplace_back();
    for (const Window& window : windows.all()) all.emplace_back(window.begin, window.end);
    all.push_back(ranks[rank].finish());
  }
  return results;
}

}  // namespace terse::kernels
