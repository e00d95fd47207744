#include "kernels/fused_kernels.h"

namespace terse::kernels {
namespace {

using codec::Dtype;

struct OfBits {
  int bits;
  Dtype raw;
  const Table<FusedKernel>& (*table)();
};

// Casts are for fp32.
constexpr OfBits kTables[] = {
    {4, Dtype::kFloat32, fused_kernels<4, float>},
    {4, Dtype::kFloat16, fused_kernels<4, codec::half_t>},
    {4, Dtype::kBfloat16, fused_kernels<4, codec::bfloat_t>},
    {6, Dtype::kFloat32, fused_kernels<6, float>},
    {6, Dtype::kFloat16, fused_kernels<6, codec::half_t>},
    {6, Dtype::kBfloat16, fused_kernels<6, codec::bfloat_t>},
    {8, Dtype::kFloat32, fused_kernels<8, float>},
    {8, Dtype::kFloat16, fused_kernels<8, codec::half_t>},
    {8, Dtype::kBfloat16, fused_kernels<8, codec::bfloat_t>},
    {16, Dtype::kFloat32, fused_kernels<16, float>},
};

}  // namespace

FusedKernel find_fused_kernel(const KernelId& id) {
  KernelId packs = id;
  packs.packed_target = true;
  for (const OfBits& of : kTables)
    if (of.bits == id.spec.bits && of.raw == id.raw && !id.transforms)
      return of.table().find(packs);
  return nullptr;
}

void each_fused_kernel(void (*visit)(FusedKernel kernel)) {
  for (const OfBits& of : kTables) of.table().for_each(visit);
}

}  // namespace terse::kernels
