// The kernels of one number of bits, TERSE_BITS.
#include "cpu_kernels.h"

#include "kernels/device/fill_table.h"

namespace terse::kernels {
namespace {

template <class F, bool packed_target>
void run(const Batch& batch, const simt::Launch& launch) {
  using Memory = Common<F, packed_target>;
  simt::run<Memory>(launch, [&](Memory& common) { combine<F, packed_target>(batch, common); });
}

struct MakeCpuKernel {
  template <class F, bool packed_target>
  static constexpr CpuKernel entry() {
    return &run<F, packed_target>;
  }
};

}  // namespace

template <>
const Table<CpuKernel>& cpu_kernels<TERSE_BITS>() {
  static constexpr Table<CpuKernel> kTable = TableOf<MakeCpuKernel, TERSE_BITS>::make();
  return kTable;
}

}  // namespace terse::kernels
