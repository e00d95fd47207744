// The kernels of one number of bits, TERSE_BITS.
#include "kernels/device/fill_table.h"
#include "kernels/device/tuning.h"
#include "kernels/kernels.h"

namespace terse::kernels {
namespace {

template <class F, bool packed_target>
__global__ void __launch_bounds__(kThreads, kMinBlocksOf<F, packed_target>)
    combine_kernel(const __grid_constant__ Batch batch) {
  __shared__ Common<F, packed_target> common;
  combine<F, packed_target>(batch, common);
}

struct MakeKernel {
  template <class F, bool packed_target>
  static constexpr Kernel entry() {
    return &combine_kernel<F, packed_target>;
  }
};

}  // namespace

template <>
const Table<Kernel>& kernels<TERSE_BITS>() {
  static constexpr Table<Kernel> table = TableOf<MakeKernel, TERSE_BITS>::make();
  return table;
}

}  // namespace terse::kernels
