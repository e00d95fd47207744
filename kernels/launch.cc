#include "kernels/launch.h"

#include <algorithm>
#include <array>

#include "kernels/call_header_kernel.h"
#include "kernels/checksum_kernel.h"
#include "kernels/compare_kernel.h"
#include "kernels/device.h"
#include "kernels/device/partial_sums.h"
#include "kernels/device/tuning.h"
#include "kernels/fused_kernels.h"
#include "kernels/increment.h"
#include "kernels/kernels.h"
#include "kernels/learning_kernels.h"
#include "kernels/window_kernels.h"

namespace terse::cuda {
namespace {

using kernels::Kernel;
using kernels::Table;
using Stage = codec::Learning::Stage;

constexpr uint32_t kWarp = uint32_t{1} << kernels::kWarpShift;

using Tables = std::array<const Table<Kernel>*, std::size(kernels::kWidths)>;

// Tables in the order of kWidths.
const Tables& tables() {
  static const Tables all = {&kernels::kernels<2>(), &kernels::kernels<3>(), &kernels::kernels<4>(),
                             &kernels::kernels<5>(), &kernels::kernels<6>(), &kernels::kernels<7>(),
                             &kernels::kernels<8>(), &kernels::kernels<16>()};
  return all;
}

Kernel kernel_for(const kernels::KernelId& id) {
  return tables()[kernels::width_index(id.spec.bits)]->find(id);
}

// Enqueues a kernel whose thread blocks all run at once.
void launch_at_once(cudaStream_t stream, const void* kernel, uint32_t blocks, void** arguments) {
  cudaLaunchAttribute cooperative{};
  cooperative.id = cudaLaunchAttributeCooperative;
  cooperative.val.cooperative = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(blocks);
  config.blockDim = dim3(kernels::kThreads);
  config.stream = stream;
  config.attrs = &cooperative;
  config.numAttrs = 1;
  check(cudaLaunchKernelExC(&config, kernel, arguments), "cudaLaunchKernelExC");
}

cudaError_t load(const void* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel);
}

// Returns true if a launch failed because the library has no code for the device.
bool lacks_code(cudaError_t result) {
  constexpr cudaError_t kAll[] = {cudaErrorNoKernelImageForDevice, cudaErrorInvalidDeviceFunction,
                                  cudaErrorInvalidKernelImage,     cudaErrorInvalidPtx,
                                  cudaErrorUnsupportedPtxVersion,  cudaErrorJitCompilerNotFound};
  return std::ranges::find(kAll, result) != std::end(kAll);
}

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, device), "cudaDeviceGetAttribute");
  return value;
}

// A kernel whose only parameter is a Work.
template <class Work>
void launch_with(cudaStream_t stream, const void* kernel, uint64_t thread_blocks, const Work& work,
                 uint32_t threads = kernels::kThreads) {
  if (thread_blocks == 0) return;
  void* arguments[] = {const_cast<Work*>(&work)};
  check(cudaLaunchKernel(kernel, dim3(static_cast<unsigned>(thread_blocks)), dim3(threads),
                         arguments, 0, stream),
        "cudaLaunchKernel");
}

}  // namespace

Launcher::Launcher(const Device& device) {
  const OnDevice on(device);
  const DuringCapture relaxed;  // code is loaded
  compute_capability_ = 10 * attribute(cudaDevAttrComputeCapabilityMajor, device.number) +
                        attribute(cudaDevAttrComputeCapabilityMinor, device.number);
  multiprocessors_ = attribute(cudaDevAttrMultiProcessorCount, device.number);
  const cudaError_t found = load(kernels::increment());
  if (lacks_code(found)) {
    forget(found);
    fail(ncclSystemError,
         "terse has no code for device {} of compute capability {}.{}, or its driver is too old: "
         "{}",
         device.number, compute_capability_ / 10, compute_capability_ % 10,
         cudaGetErrorString(found));
  }
  check(found, "cudaFuncGetAttributes");
  // All of them now. CUDA would load each at its first launch, and might wait for the device, where
  // a kernel of NCCL may be waiting for what this one is to do.
  for (const Table<Kernel>* table : tables())
    table->for_each([](Kernel kernel) {
      check(load(reinterpret_cast<const void*>(kernel)), "cudaFuncGetAttributes");
    });
  kernels::each_fused_kernel([](kernels::FusedKernel kernel) {
    check(load(reinterpret_cast<const void*>(kernel)), "cudaFuncGetAttributes");
  });
  for (const void* kernel : {kernels::check_window(), kernels::name_in_steps(),
                             kernels::call_header(), kernels::compare(), kernels::checksum(),
                             kernels::clear_learning(), kernels::learn(Stage::kWidest),
                             kernels::learn(Stage::kHistogram), kernels::learn(Stage::kFit)})
    check(load(kernel), "cudaFuncGetAttributes");
}

void Launcher::combine(cudaStream_t stream, const std::vector<codec::Combine>& works,
                       const uint64_t* replays) const {
  kernels::make_batches(
      works, replays,
      [&](const kernels::KernelId& id, const kernels::Batch& batch) { launch(stream, id, batch); });
}

void Launcher::launch(cudaStream_t stream, const kernels::KernelId& id,
                      const kernels::Batch& batch) const {
  const kernels::Tuning& tuning = kernels::tuning_for(compute_capability_, id.spec.bits);
  const uint64_t most = uint64_t{1} * multiprocessors_ * tuning.thread_blocks_per_sm;
  const uint64_t wanted = kernels::thread_blocks(batch);
  void* arguments[] = {const_cast<kernels::Batch*>(&batch)};
  check(cudaLaunchKernel(reinterpret_cast<const void*>(kernel_for(id)),
                         dim3(static_cast<unsigned>(std::min(wanted, most))),
                         dim3(kernels::kThreads), arguments, 0, stream),
        "cudaLaunchKernel");
}

void Launcher::increment(cudaStream_t stream, uint64_t* number) const {
  void* arguments[] = {&number};
  check(cudaLaunchKernel(kernels::increment(), dim3(1), dim3(1), arguments, 0, stream),
        "cudaLaunchKernel");
}

void Launcher::compare(cudaStream_t stream, const codec::Comparison& work) const {
  launch_with(stream, kernels::compare(), kernels::thread_blocks(work), work);
}

void Launcher::checksum(cudaStream_t stream, const codec::Checksum& work) const {
  launch_with(stream, kernels::checksum(), kernels::thread_blocks(work), work);
}

void Launcher::learn(cudaStream_t stream, const codec::Learning& work) const {
  if (work.stage == Stage::kWidest) launch_with(stream, kernels::clear_learning(), 1, work);
  // Each has a histogram of its own: no more than there is room for at once.
  const uint64_t each = uint64_t{work.block} * kernels::kWarps;
  const uint64_t wanted = work.stage == Stage::kFit ? 1 : (work.count + each - 1) / each;
  const uint64_t most = uint64_t{4} * multiprocessors_;
  launch_with(stream, kernels::learn(work.stage), std::min(wanted, most), work);
}

void Launcher::run(cudaStream_t stream, const codec::HeaderWork& work) const {
  launch_with(stream, kernels::call_header(), 1, work, kWarp);
}

uint32_t Launcher::fused_blocks() const {
  return std::min(static_cast<uint32_t>(multiprocessors_), kernels::kMaxFusedBlocks);
}

void Launcher::fuse(cudaStream_t stream, const kernels::FusedBatch& fused,
                    uint32_t max_blocks) const {
  const uint32_t each = fused.batch.geometry.whole ? 1 : kernels::kWarps;  // tiles of a lap
  const uint32_t wanted = (fused.exchange.tiles + each - 1) / each;
  void* arguments[] = {const_cast<kernels::FusedPieces*>(&fused.batch),
                       const_cast<kernels::Exchange*>(&fused.exchange)};
  launch_at_once(stream, reinterpret_cast<const void*>(kernels::find_fused_kernel(fused.kernel)),
                 std::min(wanted, max_blocks), arguments);
}

void Launcher::check_window(cudaStream_t stream, const kernels::WindowCheck& work,
                            uint32_t blocks) const {
  void* arguments[] = {const_cast<kernels::WindowCheck*>(&work)};
  launch_at_once(stream, kernels::check_window(), blocks, arguments);
}

void Launcher::name_in_steps(cudaStream_t stream, const kernels::CallInSteps& work) const {
  launch_with(stream, kernels::name_in_steps(), 1, work, kWarp);
}

}  // namespace terse::cuda
