// The kernels of cpu_kernels.h as nvcc has compiled them, interpreted.
#include "machine_kernels.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>
#include <typeinfo>

#include "cpu_kernels.h"
#include "kernel_listings.h"
#include "kernels/device/fill_table.h"
#include "machine_code/launch.h"

namespace terse::kernels {
namespace {

const std::string kNamespace = "terse::kernels::(anonymous namespace)::";

std::string type_name(const std::type_info& type) {
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(type.name(), nullptr, nullptr, nullptr), &std::free);
  return text.get();
}

template <class Parameters>
uint64_t interpret(const std::string& name, const Parameters& parameters, simt::Launch launch) {
  launch.max_steps = issue_limit;
  const auto* const bytes = reinterpret_cast<const uint8_t*>(&parameters);
  return issued +=
         machine::run(machine::kernel(kNamespace + name), {bytes, sizeof parameters}, launch);
}

// CUDA's compiler and this one write a template's types alike.
template <class F, bool packed_target>
std::string combine_name() {
  return "combine_kernel<" + type_name(typeid(F)) + ", " + (packed_target ? "true" : "false") + ">";
}

template <class F, bool packed_target>
void run(const Batch& batch, const simt::Launch& launch) {
  interpret(combine_name<F, packed_target>(), batch, launch);
}

struct MakeKernel {
  template <class F, bool packed_target>
  static constexpr CpuKernel entry() {
    return &run<F, packed_target>;
  }
};

using Name = std::string (*)();
struct MakeName {
  template <class F, bool packed_target>
  static constexpr Name entry() {
    return &combine_name<F, packed_target>;
  }
};

template <class F>
std::string fused_name() {
  return "fused_kernel<" + type_name(typeid(F)) + " >";
}
struct MakeFusedName {
  template <class F, bool packed_target>
  static constexpr Name entry() {
    return &fused_name<F>;
  }
};

template <class Entry>
using Tables = std::array<Table<Entry>, std::size(kWidths)>;

// In the order of kWidths.
template <class Make, class Entry>
constexpr Tables<Entry> tables() {
  return {TableOf<Make, 2>::make(), TableOf<Make, 3>::make(), TableOf<Make, 4>::make(),
          TableOf<Make, 5>::make(), TableOf<Make, 6>::make(), TableOf<Make, 7>::make(),
          TableOf<Make, 8>::make(), TableOf<Make, 16>::make()};
}

constinit const Tables<CpuKernel> kKernels = tables<MakeKernel, CpuKernel>();
constinit const Tables<Name> kNames = tables<MakeName, Name>();
constinit const Tables<Name> kFusedNames = tables<MakeFusedName, Name>();

std::string name_of_fused(const KernelId& id) {
  return kFusedNames[width_index(id.spec.bits)].find(id)();
}

}  // namespace

uint64_t issued = 0, issue_limit = 100'000'000;

CpuKernel cpu_kernel(const KernelId& id) { return kKernels[width_index(id.spec.bits)].find(id); }

std::string kernel_name(const KernelId& id) {
  const Name name = kNames[width_index(id.spec.bits)].find(id);
  return kNamespace + name();
}

std::string fused_name(const KernelId& id) { return kNamespace + name_of_fused(id); }

void machine_fused(const FusedBatch& batch, const simt::Launch& launch) {
  const struct {
    FusedPieces batch;
    Exchange exchange;
  } parameters{batch.batch, batch.exchange};
  interpret(name_of_fused(batch.kernel), parameters, launch);
}

void cpu_call_header(const codec::HeaderWork& work, const simt::Launch& launch) {
  interpret("call_header_kernel", work, launch);
}

void cpu_compare(const codec::Comparison& work, const simt::Launch& launch) {
  interpret("compare_kernel", work, launch);
}

void cpu_checksum(const codec::Checksum& work, const simt::Launch& launch) {
  interpret("checksum_kernel", work, launch);
}

void cpu_clear_learning(const codec::Learning& work, const simt::Launch& launch) {
  interpret("clear_kernel", work, launch);
}

void cpu_learn(const codec::Learning& work, const simt::Launch& launch) {
  switch (work.stage) {
    case codec::Learning::Stage::kWidest:
      interpret("widest_kernel", work, launch);
      return;
    case codec::Learning::Stage::kHistogram:
      interpret("histogram_kernel", work, launch);
      return;
    case codec::Learning::Stage::kFit:
      interpret("fit_kernel", work, launch);
      return;
  }
}

void machine_increment(uint64_t* number) { interpret("increment_kernel", number, {.threads = 1}); }

}  // namespace terse::kernels
