// The kernels as the CUDA module launches them, from their own source on the CPU. A kernel's handle
// is the address of the function that runs it on the executor.
#include "kernels/kernels.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <tuple>

#include "cpu_kernels.h"
#include "fake.h"
#include "kernels/call_header_kernel.h"
#include "kernels/checksum_kernel.h"
#include "kernels/compare_kernel.h"
#include "kernels/fused_kernels.h"
#include "kernels/increment.h"
#include "kernels/learning_kernels.h"
#include "kernels/window_kernels.h"

namespace terse::kernels {
namespace {

uint64_t next_seed() {
  static std::atomic<uint64_t> next{1};
  return next++;
}

// Handle of a kernel that takes a Work by value.
template <class Work>
const void* handle_of(void (*run)(const Work&, const simt::Launch&)) {
  const auto handle = reinterpret_cast<const void*>(run);
  fake::add_kernel(
      handle, {{sizeof(Work)}, [run](const void* parameter, uint32_t blocks, uint32_t threads) {
                 Work work;
                 std::memcpy(&work, parameter, sizeof work);
                 const simt::Traffic before = simt::traffic;
                 run(work, {.blocks = blocks, .threads = threads, .seed = next_seed()});
                 return fake::Traffic{simt::traffic.read - before.read,
                                      simt::traffic.written - before.written};
               }});
  return handle;
}

Kernel batch_handle_of(CpuKernel run) {
  if (run == nullptr) return nullptr;
  handle_of<Batch>(run);
  return reinterpret_cast<Kernel>(reinterpret_cast<void*>(run));
}

template <int bits>
Table<Kernel> handles() {
  const Table<CpuKernel>& all = cpu_kernels<bits>();
  Table<Kernel> table{};
  const auto convert = [](const CpuKernel(&from)[codec::kDtypes], Kernel(&to)[codec::kDtypes]) {
    std::ranges::transform(from, to, batch_handle_of);
  };
  for (const int transforms : {0, 1})
    for (size_t codec = 0; codec < codec::Codecs::kSize; ++codec) {
      convert(all.to_raw[transforms][codec], table.to_raw[transforms][codec]);
      for (int rounding = 0; rounding < codec::kRoundings; ++rounding)
        convert(all.to_packed[transforms][codec][rounding],
                table.to_packed[transforms][codec][rounding]);
    }
  return table;
}

// Handle of a kernel that waits for flags of kernels elsewhere.
template <class... Works, class Make>
const void* handle_with_flags(const void* handle, Make make) {
  const auto run = [make](const void* parameters, uint32_t blocks, uint32_t threads) {
    const char* at = static_cast<const char*>(parameters);
    const auto next = [&at]<class Work>(Work work) {
      std::memcpy(&work, at, sizeof work);
      at += sizeof work;
      return work;
    };
    const std::tuple<Works...> works{next(Works{})...};
    const simt::Traffic before = simt::traffic;
    simt::run_with_flags(std::apply(
        [&](const Works&... each) {
          return make(each...,
                      simt::Launch{.blocks = blocks, .threads = threads, .seed = next_seed()});
        },
        works));
    return fake::Traffic{simt::traffic.read - before.read, simt::traffic.written - before.written};
  };
  fake::add_kernel(handle, {{sizeof(Works)...}, run});
  return handle;
}

FusedKernel fused_handle_of(CpuFused make) {
  const auto handle = reinterpret_cast<void*>(make);
  handle_with_flags<FusedPieces, Exchange>(handle, make);
  return reinterpret_cast<FusedKernel>(handle);
}

fake::Traffic run_increment(const void* parameter, uint32_t, uint32_t) {
  uint64_t* number;
  std::memcpy(&number, parameter, sizeof number);
  ++*number;
  return {sizeof *number, sizeof *number};
}

}  // namespace

template <int bits>
const Table<Kernel>& kernels() {
  static const Table<Kernel> table = handles<bits>();
  return table;
}

template const Table<Kernel>& kernels<2>();
template const Table<Kernel>& kernels<3>();
template const Table<Kernel>& kernels<4>();
template const Table<Kernel>& kernels<5>();
template const Table<Kernel>& kernels<6>();
template const Table<Kernel>& kernels<7>();
template const Table<Kernel>& kernels<8>();
template const Table<Kernel>& kernels<16>();

const void* increment() {
  const auto handle = reinterpret_cast<const void*>(&run_increment);
  static const bool added = [&] {
    fake::add_kernel(handle, {{sizeof(uint64_t*)}, run_increment});
    return true;
  }();
  (void)added;
  return handle;
}

FusedKernel find_fused_kernel(const KernelId& id) {
  const CpuFused make = id.transforms ? nullptr : cpu_fused_kernel(id);
  return make == nullptr ? nullptr : fused_handle_of(make);
}

// They are made when they are found.
void each_fused_kernel(void (*)(FusedKernel)) {}

const void* check_window() {
  return handle_with_flags<WindowCheck>(reinterpret_cast<const void*>(cpu_check_window),
                                        cpu_check_window);
}
const void* name_in_steps() {
  return handle_with_flags<CallInSteps>(reinterpret_cast<const void*>(cpu_name_in_steps),
                                        cpu_name_in_steps);
}

const void* call_header() { return handle_of<codec::HeaderWork>(cpu_call_header); }
const void* compare() { return handle_of<codec::Comparison>(cpu_compare); }
const void* checksum() { return handle_of<codec::Checksum>(cpu_checksum); }
const void* clear_learning() { return handle_of<codec::Learning>(cpu_clear_learning); }

// One for all stages: the work tells which.
const void* learn(codec::Learning::Stage) { return handle_of<codec::Learning>(cpu_learn); }

}  // namespace terse::kernels
