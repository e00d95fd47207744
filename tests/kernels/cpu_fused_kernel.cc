#include "cpu_kernels.h"

namespace terse::kernels {

CpuFused cpu_fused_kernel(const KernelId& id) {
  KernelId packs = id;
  packs.packed_target = true;
  const auto of = [&](const Table<CpuFused>& table) { return table.find(packs); };
  switch (id.spec.bits) {
    case 4:
      return of(cpu_fused<4>());
    case 8:
      return of(cpu_fused<8>());
    case 16:
      return of(cpu_fused<16>());
    default:
      return nullptr;
  }
}

}  // namespace terse::kernels
