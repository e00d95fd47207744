// The last stage of learning (codec/fit.h), by one thread block: each thread has some of the bins,
// and then some of the levels.
#pragma once

#include "codec/codebook.h"
#include "codec/learning.h"
#include "kernels/arch/arch.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

using BinSums = uint64_t[codec::kBins + 1];

struct FitShared {
  BinSums weights, moments;
  union {
    uint64_t parts[kThreads];  // the sums of each thread's bins
    double places[codec::codebook_levels(codec::kMaxBits)];
  };
};

struct SharedSums {
  const BinSums& sums;
  TERSE_DEVICE double at(uint32_t i) const {
    return static_cast<double>(simt::shared_load(sums[i]));
  }
};

struct SharedPlaces {
  const FitShared& shared;
  TERSE_DEVICE double at(uint32_t j) const { return simt::shared_load(shared.places[j]); }
};

// Adds up value(bin), by all threads.
template <class Value>
TERSE_DEVICE void add_up(BinSums& sums, FitShared& shared, const Value& value) {
  constexpr uint32_t kOwn = codec::kBins / kThreads;
  const uint32_t thread = simt::thread_index(), first = thread * kOwn;
  uint64_t part = 0;
  for (uint32_t i = first; i < first + kOwn; ++i) part += value(i);
  simt::shared_store(shared.parts[thread], part);
  simt::sync_block();
  uint64_t below = 0;
  for (uint32_t t = 0; t < thread; ++t) below += simt::shared_load(shared.parts[t]);
  for (uint32_t i = first; i < first + kOwn; ++i) {
    simt::shared_store(sums[i], below);
    below += value(i);
  }
  if (thread + 1 == kThreads) simt::shared_store(sums[codec::kBins], below);
  simt::sync_block();
}

// f(k, level) for the k-th of this thread's levels.
template <class Function>
TERSE_DEVICE void for_own_levels(uint32_t levels, const Function& f) {
  constexpr uint32_t kMax = codec::codebook_levels(codec::kMaxBits) / kThreads;
  TERSE_UNROLL
  for (uint32_t k = 0; k < kMax; ++k) {
    const uint32_t j = k * kThreads + simt::thread_index();
    if (j < levels) f(k, j);
  }
}

TERSE_DEVICE void write_table(const FitShared& shared, uint32_t levels, float* table) {
  const auto level = [&](uint32_t j) { return codec::level_of(SharedPlaces{shared}.at(j)); };
  for_own_levels(levels, [&](uint32_t, uint32_t j) {
    const float own = level(j);
    simt::store(table + j, own);
    simt::store(table + levels + j, j == 0 ? 0.0f : codec::middle_of(level(j - 1), own));
    simt::store(table + 2 * levels + j,
                j + 1 < levels ? codec::inverse_distance(own, level(j + 1)) : 0.0f);
  });
}

TERSE_DEVICE void fit(const codec::Learning& work, FitShared& shared) {
  const uint64_t* const bins = work.state->bins;
  add_up(shared.weights, shared, [=](uint32_t i) { return simt::load(bins + i); });
  const int total = codec::bits_of(simt::shared_load(shared.weights[codec::kBins]));
  if (total == 0) return;
  const auto weight = [=](uint32_t i) {
    return codec::shifted_weight(simt::load(bins + i), total);
  };
  add_up(shared.weights, shared, weight);
  add_up(shared.moments, shared, [=](uint32_t i) { return codec::density_of(weight(i)); });
  const uint32_t levels = static_cast<uint32_t>(codec::codebook_levels(work.bits));
  const SharedSums weights{shared.weights}, moments{shared.moments};
  double next[codec::codebook_levels(codec::kMaxBits) / kThreads];
  for_own_levels(levels, [&](uint32_t k, uint32_t j) {
    next[k] = codec::first_place(moments, j, levels, work.rounding);
  });
  add_up(shared.moments, shared, [=](uint32_t i) { return codec::moment_of(weight(i), i); });
  const auto place = [&](uint32_t k, uint32_t j) { simt::shared_store(shared.places[j], next[k]); };
  for_own_levels(levels, place);
  simt::sync_block();
  for (uint32_t step = 0; step < codec::kFitSteps; ++step) {
    for_own_levels(levels, [&](uint32_t k, uint32_t j) {
      next[k] =
          codec::next_place(weights, moments, SharedPlaces{shared}, j, levels, work.rounding, step);
    });
    simt::sync_block();
    for_own_levels(levels, place);
    simt::sync_block();
  }
  write_table(shared, levels, work.table);
}

}  // namespace terse::kernels
