#include "plan/plan.h"

#include <algorithm>

#include "plan/fuse.h"

namespace terse::plan {
namespace {

// Bytes with the allocator's overhead.
template <class T>
size_t memory_of(const std::vector<T>& all) {
  constexpr size_t kOfAllocator = 16;
  return all.capacity() == 0 ? 0 : kOfAllocator + all.capacity() * sizeof(T);
}

size_t memory_of(const Step& step) {
  size_t sum = memory_of(step.after) + memory_of(step.compute) + memory_of(step.transfers) +
               memory_of(step.copies) + memory_of(step.fingerprints) + memory_of(step.learns) +
               memory_of(step.natives);
  for (const Compute& compute : step.compute) sum += memory_of(compute.inputs);
  return sum;
}

size_t memory_of(const Fused& fused) {
  size_t sum = sizeof fused + memory_of(fused.pushes) + memory_of(fused.makes) +
               memory_of(fused.takes) + memory_of(fused.copies);
  fused.each_compute([&](const Compute& compute) { sum += memory_of(compute.inputs); });
  return sum;
}

}  // namespace

size_t memory_bytes(const Plan& plan) {
  size_t sum = sizeof plan + plan.state.key.capacity() + memory_of(plan.steps) +
               memory_of(plan.buffers) + memory_of(plan.wire_to);
  for (const Step& step : plan.steps) sum += memory_of(step);
  if (plan.fused != nullptr) sum += memory_of(*plan.fused);
  if (plan.with_windows != nullptr) sum += memory_bytes(*plan.with_windows);
  return sum;
}

const Packing& Shape::packing_of(Format format) const {
  if (format == Format::kIntraPacked) return within.packing;
  if (format == Format::kOuterPacked) return outer.packing;
  return format == Format::kSumPacked ? sum.packing : packing;
}

size_t Shape::bytes(Format format, size_t elements) const {
  return format == Format::kRaw ? elements * element_bytes : packing_of(format).bytes(elements);
}

size_t Shape::code_bytes(Format format, size_t elements) const {
  return packing_of(format).codes(elements);
}

size_t Shape::quantum() const {
  return std::max({packing.quantum, within.packing.quantum, sum.packing.quantum});
}

bool Shape::draws() const {
  return packing.draws || within.packing.draws || sum.packing.draws || outer.packing.draws;
}

}  // namespace terse::plan
