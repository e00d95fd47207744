#include "cpu_kernels.h"
#include "kernels/device/window_check.h"

namespace terse::kernels {

CpuFused cpu_fused_kernel(const KernelId& id) {
  KernelId packs = id;
  packs.packed_target = true;
  const auto of = [&](const Table<CpuFused>& table) { return table.find(packs); };
  switch (id.spec.bits) {
    case 4:
      return of(cpu_fused<4>());
    case 6:
      return of(cpu_fused<6>());
    case 8:
      return of(cpu_fused<8>());
    case 16:
      return of(cpu_fused<16>());
    default:
      return nullptr;
  }
}

simt::Kernel cpu_check_window(const WindowCheck& work, const simt::Launch& launch) {
  return simt::kernel<uint32_t>(launch, [work](uint32_t& vote) { check_window(work, vote); });
}

simt::Kernel cpu_name_in_steps(const CallInSteps& work, const simt::Launch& launch) {
  return simt::kernel<uint32_t>(launch, [work](uint32_t&) { name_in_steps(work); });
}

}  // namespace terse::kernels
