// The fused kernels of one number of bits, TERSE_BITS.
#include "cpu_kernels.h"
#include "kernels/device/fill_table.h"
#include "kernels/device/fused.h"

namespace terse::kernels {
namespace {

template <class F>
simt::Kernel make(const FusedPieces& batch, const Exchange& exchange, const simt::Launch& launch) {
  using Memory = FusedShared<InWindows<F>>;
  return simt::kernel<Memory>(
      launch, [batch, exchange](Memory& shared) { fused<F>(batch, exchange, shared); });
}

struct MakeCpuFused {
  template <class F, bool packed_target>
  static constexpr CpuFused entry() {
    if constexpr (packed_target && kFuses<F>)
      return &make<F>;
    else
      return nullptr;
  }
};

}  // namespace

template <>
const Table<CpuFused>& cpu_fused<TERSE_BITS>() {
  static constexpr Table<CpuFused> kTable = TableOf<MakeCpuFused, TERSE_BITS>::make();
  return kTable;
}

}  // namespace terse::kernels
