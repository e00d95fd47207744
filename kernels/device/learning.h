// The first two stages of learning (codec/learning.h): a warp looks at a block of elements at a
// time, and once more when it knows where that lies.
#pragma once

#include "codec/learning.h"
#include "kernels/arch/arch.h"
#include "kernels/device/batch.h"
#include "kernels/device/thread_rows.h"
#include "kernels/device/vec8.h"

namespace terse::kernels {

// f(element) for those of a block that are this lane's.
template <class T, class Function>
TERSE_DEVICE void for_own_elements(const uint8_t* block, uint32_t n, const Function& f) {
  for (uint32_t at = simt::thread_index() % simt::kWarp * kVec8; at < n;
       at += simt::kWarp * kVec8) {
    const uint32_t elements = n - at < kVec8 ? n - at : kVec8;
    const Vec8<T> vec8 = load_vec8<T, Access::kAny>(block + at * sizeof(T), elements);
    TERSE_UNROLL
    for (uint32_t i = 0; i < kVec8; ++i)
      if (i < elements) f(element(vec8, i));
  }
}

// f(a block's elements, how many, their extent) for the warp's blocks.
template <class T, class Function>
TERSE_DEVICE void for_own_blocks(const codec::Learning& work, const Function& f) {
  const uint64_t warp = uint64_t{simt::block_index()} * kWarps + simt::thread_index() / simt::kWarp;
  const uint64_t step = uint64_t{simt::grid_size()} * kWarps * work.block;
  for (uint64_t first = warp * work.block; first < work.count; first += step) {
    const uint8_t* const data = static_cast<const uint8_t*>(work.data) + first * sizeof(T);
    const uint64_t left = work.count - first;
    const uint32_t n = left < work.block ? static_cast<uint32_t>(left) : work.block;
    codec::Learned::Stats extent;
    for_own_elements<T>(data, n, [&](float x) { codec::observe(extent, x); });
    TERSE_UNROLL
    for (uint32_t distance = simt::kWarp / 2; distance != 0; distance /= 2)
      codec::merge(extent, shuffle_xor(extent, distance));
    f(data, n, extent);
  }
}

// f(an element of the work's type)
template <class Function>
TERSE_DEVICE void as_dtype(codec::Dtype dtype, const Function& f) {
  switch (dtype) {
    case codec::Dtype::kFloat32:
      return f(float{});
    case codec::Dtype::kFloat16:
      return f(codec::half_t{});
    case codec::Dtype::kBfloat16:
      break;
  }
  f(codec::bfloat_t{});
}

// Makes the state one of no elements. By one thread block.
TERSE_DEVICE void clear(codec::LearningState& state) {
  if (simt::thread_index() == 0) simt::store(&state.widest, uint32_t{0});
  for (uint32_t i = simt::thread_index(); i < codec::kBins; i += kThreads)
    simt::store(&state.bins[i], uint64_t{0});
}

// Runs on any number of blocks of kThreads threads.
TERSE_DEVICE void find_widest(const codec::Learning& work) {
  uint32_t widest = 0;
  as_dtype(work.dtype, [&](auto type) {
    for_own_blocks<decltype(type)>(
        work, [&](const uint8_t*, uint32_t, const codec::Learned::Stats& extent) {
          const uint32_t range = codec::range_bits(extent);
          widest = widest < range ? range : widest;
        });
  });
  if (simt::thread_index() % simt::kWarp == 0 && widest != 0)
    simt::atomic_max(&work.state->widest, widest);
}

struct HistogramShared {
  uint64_t bins[codec::kBins];
};

TERSE_DEVICE void add_to_histogram(const codec::Learning& work, HistogramShared& shared) {
  for (uint32_t i = simt::thread_index(); i < codec::kBins; i += kThreads)
    simt::shared_store(shared.bins[i], uint64_t{0});
  simt::sync_block();
  const uint32_t widest = simt::load(&work.state->widest);
  as_dtype(work.dtype, [&](auto type) {
    using T = decltype(type);
    for_own_blocks<T>(
        work, [&](const uint8_t* data, uint32_t n, const codec::Learned::Stats& extent) {
          const uint32_t weight = codec::element_weight(codec::range_bits(extent), widest);
          if (weight == 0) return;
          const codec::Bins bins(extent);
          for_own_elements<T>(data, n, [&](float x) {
            simt::shared_atomic_add(shared.bins[bins.of(x)], uint64_t{weight});
          });
        });
  });
  simt::sync_block();
  for (uint32_t i = simt::thread_index(); i < codec::kBins; i += kThreads) {
    const uint64_t weight = simt::shared_load(shared.bins[i]);
    if (weight != 0) simt::atomic_add(&work.state->bins[i], weight);
  }
}

}  // namespace terse::kernels
