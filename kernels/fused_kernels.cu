// The fused kernels of one number of bits, TERSE_BITS, for elements of TERSE_RAW.
#include <algorithm>
#include <type_traits>

#include "kernels/device/fill_table.h"
#include "kernels/device/fused.h"
#include "kernels/device/tuning.h"
#include "kernels/fused_kernels.h"

namespace terse::kernels {
namespace {

using codec::bfloat_t;
using codec::half_t;

template <class F>
constexpr int kMinFusedBlocks = std::min(kMinBlocksOf<F, true>, kMinBlocksOf<F, false>);

template <class F>
__global__ void __launch_bounds__(kThreads, kMinFusedBlocks<F>)
    fused_kernel(const __grid_constant__ FusedPieces batch,
                 const __grid_constant__ Exchange exchange) {
  __shared__ FusedShared<InWindows<F>> shared;
  fused<F>(batch, exchange, shared);
}

struct MakeFused {
  template <class F, bool packed_target>
  static constexpr FusedKernel entry() {
    if constexpr (packed_target && kFuses<F> && std::is_same_v<typename F::Raw, TERSE_RAW>)
      return &fused_kernel<F>;
    else
      return nullptr;
  }
};

}  // namespace

template <>
const Table<FusedKernel>& fused_kernels<TERSE_BITS, TERSE_RAW>() {
  static constexpr Table<FusedKernel> table = TableOf<MakeFused, TERSE_BITS>::make();
  return table;
}

}  // namespace terse::kernels
