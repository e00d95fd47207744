#include "cpu_kernels.h"
#include "kernels/device/call_header.h"
#include "kernels/device/checksum.h"
#include "kernels/device/difference.h"
#include "kernels/device/fit.h"
#include "kernels/device/learning.h"

namespace terse::kernels {
namespace {

struct NothingShared {};

}  // namespace

CpuKernel cpu_kernel(const KernelId& id) {
  // In the order of kWidths.
  static const Table<CpuKernel>* const tables[] = {
      &cpu_kernels<2>(), &cpu_kernels<3>(), &cpu_kernels<4>(), &cpu_kernels<5>(),
      &cpu_kernels<6>(), &cpu_kernels<7>(), &cpu_kernels<8>(), &cpu_kernels<16>()};
  return tables[width_index(id.spec.bits)]->find(id);
}

void cpu_call_header(const codec::HeaderWork& work, const simt::Launch& launch) {
  simt::run<NothingShared>(launch, [&](NothingShared&) { compare_calls(work); });
}

void cpu_compare(const codec::Comparison& work, const simt::Launch& launch) {
  simt::run<DifferenceSum::Shared>(
      launch, [&](DifferenceSum::Shared& shared) { difference(work, shared); });
}

void cpu_checksum(const codec::Checksum& work, const simt::Launch& launch) {
  simt::run<ChecksumSum::Shared>(launch,
                                 [&](ChecksumSum::Shared& shared) { checksum(work, shared); });
}

void cpu_clear_learning(const codec::Learning& work, const simt::Launch& launch) {
  simt::run<NothingShared>(launch, [&](NothingShared&) { clear(*work.state); });
}

void cpu_learn(const codec::Learning& work, const simt::Launch& launch) {
  switch (work.stage) {
    case codec::Learning::Stage::kWidest:
      return simt::run<NothingShared>(launch, [&](NothingShared&) { find_widest(work); });
    case codec::Learning::Stage::kHistogram:
      return simt::run<HistogramShared>(
          launch, [&](HistogramShared& shared) { add_to_histogram(work, shared); });
    case codec::Learning::Stage::kFit:
      return simt::run<FitShared>(launch, [&](FitShared& shared) { fit(work, shared); });
  }
}

}  // namespace terse::kernels
