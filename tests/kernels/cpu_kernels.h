// The kernels' own source, compiled for the CPU: a launch runs on the SIMT executor, and
// fused ones in its machine.
#pragma once

#include "codec/call_header.h"
#include "codec/checksum.h"
#include "codec/difference.h"
#include "codec/learning.h"
#include "kernels/device/exchange.h"
#include "kernels/device/kernel_table.h"
#include "kernels/device/window_work.h"
#include "simt/executor.h"
#include "simt/machine.h"

namespace terse::kernels {

using CpuKernel = void (*)(const Batch& batch, const simt::Launch& launch);

// The table of `bits` bits, each compiled on its own.
template <int bits>
const Table<CpuKernel>& cpu_kernels();

CpuKernel cpu_kernel(const KernelId& id);

// Makes a fused kernel for a machine.
using CpuFused = simt::Kernel (*)(const FusedPieces& batch, const Exchange& exchange,
                                  const simt::Launch& launch);

template <int bits>
const Table<CpuFused>& cpu_fused();

// Null: the format is not fused.
CpuFused cpu_fused_kernel(const KernelId& id);

simt::Kernel cpu_check_window(const WindowCheck& work, const simt::Launch& launch);
simt::Kernel cpu_name_in_steps(const CallInSteps& work, const simt::Launch& launch);

void cpu_call_header(const codec::HeaderWork& work, const simt::Launch& launch);
void cpu_compare(const codec::Comparison& work, const simt::Launch& launch);
void cpu_checksum(const codec::Checksum& work, const simt::Launch& launch);
void cpu_clear_learning(const codec::Learning& work, const simt::Launch& launch);
void cpu_learn(const codec::Learning& work, const simt::Launch& launch);

}  // namespace terse::kernels
