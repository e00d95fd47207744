#include "checksum.h"
#include "cpu_kernels.h"
#include "difference.h"

namespace terse::kernels {

CpuKernel cpu_kernel(const KernelId& id) {
  // In the order of kWidths.
  static const Table<CpuKernel>* const tables[] = {
      &cpu_kernels<2>(), &cpu_kernels<3>(), &cpu_kernels<4>(), &cpu_kernels<5>(),
      &cpu_kernels<6>(), &cpu_kernels<7>(), &cpu_kernels<8>(), &cpu_kernels<16>()};
  return tables[width_index(id.spec.bits)]->find(id);
}

void cpu_compare(const codec::Comparison& work, const simt::Launch& launch) {
  simt::run<DifferenceSum::Shared>(
      launch, [&](DifferenceSum::Shared& shared) { difference(work, shared); });
}

void cpu_checksum(const codec::Checksum& work, const simt::Launch& launch) {
  simt::run<ChecksumSum::Shared>(launch,
                                 [&](ChecksumSum::Shared& shared) { checksum(work, shared); });
}

void cpu_sum_checks(const codec::Checksum& work, const simt::Launch& launch) {
  simt::run<ChecksumSum::Shared>(launch,
                                 [&](ChecksumSum::Shared& shared) { sum_checks(work, shared); });
}

}  // namespace terse::kernels
