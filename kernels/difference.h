// How far one buffer is from another, in parts: each thread block gives the part of the elements
// that are its own, and the host adds the parts up.
#pragma once

#include "batch.h"
#include "block_reduction.h"
#include "codec/difference.h"
#include "leaf.h"
#include "word.h"

namespace terse::kernels {

using DifferenceSum = simt::BlockReduction<codec::Difference, kThreads>;

// Buffers of any alignment.
template <class Word>
TERSE_DEVICE Word load_word(const void* data, uint64_t index) {
  const auto* at = static_cast<const uint8_t*>(data) + index * sizeof(Word);
  return load_word<Word>(at, is_aligned<Word>(at));
}

TERSE_DEVICE float load_element(const void* data, codec::Dtype dtype, uint64_t index) {
  switch (dtype) {
    case codec::Dtype::kFloat32:
      return codec::bits_float(load_word<uint32_t>(data, index));
    case codec::Dtype::kFloat16:
      return codec::to_float(codec::half_t{load_word<uint16_t>(data, index)});
    case codec::Dtype::kBfloat16:
      break;
  }
  return codec::to_float(codec::bfloat_t{load_word<uint16_t>(data, index)});
}

// By a block of kThreads threads.
TERSE_DEVICE void difference(const codec::Comparison& work, DifferenceSum::Shared& shared) {
  const uint32_t thread = simt::thread_index();
  const uint64_t step = uint64_t{simt::grid_size()} * kThreads;
  codec::Difference mine;
  for (uint64_t i = uint64_t{simt::block_index()} * kThreads + thread; i < work.count; i += step)
    codec::include(mine, load_element(work.value, work.dtype, i),
                   load_element(work.exact, work.dtype, i));
  const codec::Difference sum = DifferenceSum::reduce(
      shared, mine,
      [](codec::Difference& d, const codec::Difference& more) { codec::include(d, more); });
  if (thread != 0) return;
  codec::Difference& part = work.parts[simt::block_index()];
  simt::store(&part.squares, sum.squares);
  simt::store(&part.exact_squares, sum.exact_squares);
  simt::store(&part.largest, sum.largest);
  simt::store(&part.lost, sum.lost);
  simt::store(&part.spread, sum.spread);
}

}  // namespace terse::kernels
