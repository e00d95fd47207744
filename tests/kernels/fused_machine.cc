#include "fused_machine.h"

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "cpu_kernels.h"
#include "fused_ranks.h"
#include "simt/flags.h"

namespace terse::kernels {
namespace {

using oracle::Bytes;

// The parts that kernels may touch: of so many units.
void add_to(simt::Machine& machine, Windows& windows, uint32_t units, bool are_filled = false) {
  for (size_t rank = 0; rank < windows.all().size(); ++rank) {
    const Window& w = windows.all()[rank];
    const auto add = [&](auto& first, size_t count, const char* what) {
      machine.windows.push_back({&first, count * sizeof first,
                                 "rank " + std::to_string(rank) + "'s " + what,
                                 count * sizeof first});
    };
    add(w.header().unit[0], units, "units");
    add(w.header().flag[0][0], units, "flags of first meetings");
    add(w.header().flag[1][0], units, "flags of second meetings");
    add(w.header().gives_up, 1, "end");
    add(w.header().from, 1, "calls");
    const auto bytes = static_cast<size_t>(w.end - w.areas[0]);
    machine.windows.push_back(
        {w.areas[0], bytes, "rank " + std::to_string(rank) + "'s areas", are_filled ? bytes : 0});
  }
}

// Allows kernels the buffers of a call.
void allow(const Memory& memory, std::deque<simt::Memory>& allowed) {
  for (const Storage& bytes : memory.bytes)
    allowed.emplace_back(bytes.data(), bytes.size(), simt::Access::kReadWrite, "buffer");
  allowed.emplace_back(memory.fingerprints.data(), memory.fingerprints.size(),
                       simt::Access::kReadOnly, "fingerprints");
}

simt::Kernel kernel_of(const FusedRank& rank, const simt::Launch& launch) {
  const CpuFused make = cpu_fused_kernel(rank.batch().kernel);
  if (make == nullptr) throw std::logic_error("no kernel for this format");
  return make(rank.batch().batch, rank.batch().exchange, launch);
}

// Kernel that names an exchange's call as one in steps, by that number.
simt::Kernel name_in_steps(const Exchange& exchange, uint64_t number) {
  CallInSteps named{
      .ranks = exchange.ranks, .self = exchange.self, .number = number, .call = exchange.call};
  std::ranges::copy(exchange.window, named.window);
  return cpu_name_in_steps(named, {.threads = 32});
}

}  // namespace

codec::CallHeader header_of(size_t number, int rank) {
  codec::CallHeader header{};
  header.word[codec::CallHeader::kMark] = 1;
  header.word[codec::CallHeader::kSender] = static_cast<uint32_t>(rank);
  header.word[codec::CallHeader::kCount] = static_cast<uint32_t>(number);
  return header;
}

void name(Exchange& exchange, const codec::CallHeader& call) {
  exchange.call = call;
  exchange.digest = codec::digest(call);
}

Outcome by_kernels(const FusedRun& run, const Schedule& schedule) {
  const std::vector<plan::Fusion> fusions = fusions_of(run);
  Windows windows(fusions, run.ranks);
  const uint32_t units = schedule.blocks * kWarps;
  std::vector<uint32_t> aborts(static_cast<size_t>(run.ranks), 0);
  simt::Machine machine{.seed = schedule.seed};
  add_to(machine, windows, units);
  machine.windows.push_back({aborts.data(), aborts.size() * sizeof aborts[0], "aborts",
                             aborts.size() * sizeof aborts[0]});
  uint32_t left = 0;
  machine.windows.push_back({&left, sizeof left, "ranks that have left", sizeof left});
  std::vector<codec::Mismatch> reports(static_cast<size_t>(run.ranks));
  machine.windows.push_back({reports.data(), reports.size() * sizeof reports[0], "reports",
                             reports.size() * sizeof reports[0]});
  for (int rank = 0; rank < run.ranks; ++rank) {
    WindowHeader& header = windows.of(rank).header();
    for (uint32_t unit = 0; unit < units; ++unit) {
      std::ranges::fill(header.unit[unit].epoch, schedule.first_epoch);
      for (auto& meeting : header.flag) std::ranges::fill(meeting[unit], schedule.first_epoch);
    }
  }
  std::deque<std::deque<FusedRank>> calls;
  std::deque<simt::Memory> allowed;
  machine.ranks.resize(static_cast<size_t>(run.ranks));
  for (size_t number = 0; number < run.calls.size(); ++number) {
    std::deque<FusedRank>& ranks = calls.emplace_back();
    const uint32_t blocks = 1 + codec::Random(schedule.seed + number).below(schedule.blocks);
    const simt::Launch launch{.blocks = blocks, .threads = kThreads, .planter = schedule.planter};
    for (int rank = 0; rank < run.ranks; ++rank) {
      const size_t r = static_cast<size_t>(rank);
      ranks.emplace_back(run, number, rank, fusions[number].by_rank[r], windows, units, &aborts[r]);
      allow(ranks.back().memory(), allowed);
      ranks.back().exchange().report = &reports[r];
      ranks.back().exchange().left = &left;
      name(ranks.back().exchange(), header_of(number, rank));
      ranks.back().exchange().number = static_cast<uint32_t>(number) + 1;
      if (schedule.mistake) schedule.mistake(ranks.back().exchange());
      const bool is_last = number + 1 == run.calls.size();
      const Exchange& exchange = ranks.back().exchange();
      machine.ranks[r].push_back(schedule.in_steps == r && is_last
                                     ? name_in_steps(exchange, exchange.number)
                                     : kernel_of(ranks.back(), launch));
      if (schedule.killed == r && is_last)
        machine.ranks[r].push_back(
            schedule.hosts_know
                ? simt::kernel<uint32_t>({.threads = 1},
                                         [&left, r](uint32_t&) { simt::release(&left, 1u << r); })
                : name_in_steps(exchange, kBehindAll));
    }
  }
  if (schedule.aborts || schedule.killed)
    machine.ranks.push_back({simt::kernel<uint32_t>({.threads = 1}, [&](uint32_t&) {
      for (size_t rank = 0; rank < aborts.size(); ++rank)
        if (schedule.aborts || schedule.killed == rank) simt::release(&aborts[rank], 1);
    })});
  simt::traffic = {};
  simt::run(machine);
  Outcome outcome{.reports = reports, .traffic = simt::traffic};
  for (std::deque<FusedRank>& ranks : calls) {
    std::vector<Bytes>& all = outcome.results.emplace_back();
    for (FusedRank& rank : ranks) all.push_back(rank.finish());
  }
  for (int rank = 0; rank < run.ranks; ++rank)
    outcome.given_up.push_back(windows.of(rank).header().gives_up != 0);
  return outcome;
}

Results one_by_one(const FusedRun& run, const RunFused& run_fused) {
  const std::vector<plan::Fusion> fusions = fusions_of(run);
  Windows windows(fusions, run.ranks);
  const uint32_t abort = 0;
  const simt::Launch launch{.blocks = 2, .threads = kThreads};
  std::deque<FusedRank> ranks;
  std::deque<simt::Memory> allowed;
  simt::Machine machine;
  const auto add_windows = [&](simt::Machine& to, bool are_filled) {
    add_to(to, windows, launch.blocks * kWarps, are_filled);
    to.windows.push_back({const_cast<uint32_t*>(&abort), sizeof abort, "abort", sizeof abort});
  };
  add_windows(machine, false);
  for (int rank = 0; rank < run.ranks; ++rank) {
    ranks.emplace_back(run, 0, rank, fusions[0].by_rank[static_cast<size_t>(rank)], windows,
                       launch.blocks * kWarps, &abort);
    allow(ranks.back().memory(), allowed);
    machine.ranks.push_back({kernel_of(ranks.back(), launch)});
  }
  simt::run(machine);

  std::vector<Storage> done;
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
      simt::Machine alone{.ranks = {{kernel_of(ranks[rank], launch)}}};
      add_windows(alone, true);
      simt::run(alone);
    }
    std::vector<Bytes>& all = results.emplace_back();
    for (const Window& window : windows.all()) all.emplace_back(window.begin, window.end);
    all.push_back(ranks[rank].finish());
  }
  return results;
}

}  // namespace terse::kernels
