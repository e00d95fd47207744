// What a call costs, as the fake runtime counts it.
#pragma once

#include <fmt/format.h>

#include <ostream>

#include "fake.h"

namespace terse::test {

struct CallCost {
  size_t launches;        // of kernels, and copies
  size_t groups;          // of NCCL
  size_t records, waits;  // of events, for events
  size_t streams;         // used
  fake::Traffic traffic;

  bool operator==(const CallCost&) const = default;
};

inline void PrintTo(const CallCost& c, std::ostream* out) {
  *out << fmt::format("{{{}, {}, {}, {}, {}, {{{}, {}}}}}", c.launches, c.groups, c.records,
                      c.waits, c.streams, c.traffic.read, c.traffic.written);
}

// Cost of what `enqueue` enqueues from this thread, and waits for.
template <class Enqueue>
CallCost cost_of(const Enqueue& enqueue) {
  auto before = fake::calls();
  const fake::Traffic traffic_before = fake::traffic();
  fake::forget_streams();
  enqueue();
  auto after = fake::calls();
  const fake::Traffic traffic = fake::traffic();
  const auto made = [&](const char* function) { return after[function] - before[function]; };
  return {
      .launches = made("cudaLaunchKernel") + made("cudaMemcpyAsync") + made("cudaMemcpy2DAsync"),
      .groups = made("ncclGroup"),
      .records = made("cudaEventRecord"),
      .waits = made("cudaStreamWaitEvent"),
      .streams = fake::streams().size(),
      .traffic = {traffic.read - traffic_before.read, traffic.written - traffic_before.written}};
}

}  // namespace terse::test
