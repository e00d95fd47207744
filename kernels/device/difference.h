// How far one buffer is from another, in parts: each thread block gives the part of the elements
// that are its own, and the host adds the parts up.
#pragma once

#include "codec/difference.h"
#include "kernels/arch/arch.h"
#include "kernels/arch/block_reduction.h"
#include "kernels/device/batch.h"
#include "kernels/device/vec8.h"

namespace terse::kernels {

static_assert(kThreads >= codec::kDifferenceParts);
using DifferenceSum = simt::BlockReduction<codec::Difference, kThreads>;

// Compares vectors of 8 at any address, one in each row: loads all of them before it uses any.
template <class T, Access access>
TERSE_DEVICE void include_rows(const codec::Comparison& work, uint64_t first, uint64_t step,
                               codec::Difference& mine) {
  const auto at = [](const void* data, uint64_t vec8) {
    return static_cast<const uint8_t*>(data) + vec8 * kVec8 * sizeof(T);
  };
  Vec8<T> value[kRows], exact[kRows];
  uint32_t n[kRows];
  TERSE_UNROLL
  for (uint32_t j = 0; j < kRows; ++j) {
    const uint64_t vec8 = first + j * step, element = vec8 * kVec8;
    const uint64_t left = element < work.count ? work.count - element : 0;
    n[j] = access == Access::kWhole || left > kVec8 ? kVec8 : static_cast<uint32_t>(left);
    value[j] = load_vec8<T, access>(at(work.value, vec8), n[j]);
    exact[j] = load_vec8<T, access>(at(work.exact, vec8), n[j]);
  }
  TERSE_UNROLL
  for (uint32_t j = 0; j < kRows; ++j) {
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i)
      if (i < n[j]) codec::include(mine, element(value[j], i), element(exact[j], i));
  }
}

// The part of the elements that are this thread's.
template <class T>
TERSE_DEVICE codec::Difference own_difference(const codec::Comparison& work) {
  const uint64_t step = uint64_t{simt::grid_size()} * kThreads;
  const bool aligned = is_aligned<Quad>(work.value) && is_aligned<Quad>(work.exact);
  const uint64_t whole = aligned ? work.count / kVec8 : 0;
  codec::Difference mine;
  uint64_t vec8 = uint64_t{simt::block_index()} * kThreads + simt::thread_index();
  for (; vec8 + (kRows - 1) * step < whole; vec8 += kRows * step)
    include_rows<T, Access::kWhole>(work, vec8, step, mine);
  for (; vec8 * kVec8 < work.count; vec8 += kRows * step)
    include_rows<T, Access::kAny>(work, vec8, step, mine);
  return mine;
}

TERSE_DEVICE codec::Difference own_difference_of(const codec::Comparison& work) {
  switch (work.dtype) {
    case codec::Dtype::kFloat32:
      return own_difference<float>(work);
    case codec::Dtype::kFloat16:
      return own_difference<codec::half_t>(work);
    case codec::Dtype::kBfloat16:
      break;
  }
  return own_difference<codec::bfloat_t>(work);
}

// Runs on up to kDifferenceParts blocks of kThreads threads.
TERSE_DEVICE void difference(const codec::Comparison& work, DifferenceSum::Shared& shared) {
  const codec::Difference mine = own_difference_of(work);
  codec::Difference sum = DifferenceSum::reduce(
      shared, mine,
      [](codec::Difference& d, const codec::Difference& more) { codec::include(d, more); });
  if (simt::thread_index() != 0) sum = {};  // of the parts that no thread block has
  const uint32_t number = simt::block_index() + simt::thread_index() * simt::grid_size();
  if (number >= codec::kDifferenceParts) return;
  codec::Difference& part = work.parts[number];
  simt::store(&part.squares, sum.squares);
  simt::store(&part.exact_squares, sum.exact_squares);
  simt::store(&part.largest, sum.largest);
  simt::store(&part.lost, sum.lost);
  simt::store(&part.spread, sum.spread);
}

}  // namespace terse::kernels
