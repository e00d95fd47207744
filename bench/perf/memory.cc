#include "memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace terse::perf {
namespace {

std::vector<double> used_memory(const Run& run) {
  std::vector<double> used;
  for (int i = 0; i < run.options.ranks_per_thread; ++i) {
    run.device.select(run.devices[static_cast<std::size_t>(i)]);
    used.push_back(static_cast<double>(run.device.used()));
  }
  run.device.select(run.devices.front());
  return used;
}

}  // namespace

void note_memory(Run* run, double MemoryUse::*step, int thread, const std::function<void()>& body) {
  if (run->options.memory_report == 0 || thread != 0) return body();
  const std::vector<double> before = used_memory(*run);
  body();
  const std::vector<double> after = used_memory(*run);
  double most = after[0] - before[0];
  for (std::size_t i = 1; i < after.size(); ++i) most = std::max(most, after[i] - before[i]);
  run->memory.*step += most;
}

MemoryUse max_memory(const Run& run, int thread) {
  const auto most = [&](double own) {
    // Memory may have become free: the other threads must not turn that into 0.
    return run.team.combine(thread, thread == 0 ? own : -1e300, Average::kMax);
  };
  return {most(run.memory.communicators), most(run.memory.buffers), most(run.memory.calls)};
}

std::string print_bytes(double bytes) {
  constexpr std::array kUnits = {" B", " KB", " MB", " GB"};
  std::size_t unit = 0;
  for (; std::abs(bytes) >= 1024 && unit + 1 < kUnits.size(); ++unit) bytes /= 1024;
  const int digits = std::abs(bytes) < 10 ? 2 : std::abs(bytes) < 100 ? 1 : 0;
  return fmt::format("{:.{}f}{}", bytes, digits, kUnits[unit]);
}

}  // namespace terse::perf
