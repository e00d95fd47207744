// BlockReduction by CUB. tests/tools/simt/block_reduction.h has the same interface for the CPU.
#pragma once

#include <cstdint>
#include <cub/block/block_reduce.cuh>

#include "kernels/arch/arch.h"

namespace terse::simt {

template <class T, uint32_t threads>
class BlockReduction {
  using Cub = cub::BlockReduce<T, threads>;

 public:
  using Shared = typename Cub::TempStorage;

  // Reduces over all threads of the block; only thread 0 has the result. include(T& sum, const T&
  // more) adds one value to another.
  template <class Include>
  static TERSE_DEVICE T reduce(Shared& shared, const T& value, const Include& include) {
    return Cub(shared).Reduce(value, [&](T sum, const T& more) {
      include(sum, more);
      return sum;
    });
  }
};

}  // namespace terse::simt
