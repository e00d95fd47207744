// BlockReduction on the CPU. kernels/arch/gpu_block_reduction.h has the same interface for a GPU.
#pragma once

#include "simt/arch.h"

namespace terse::simt {

template <class T, uint32_t threads>
class BlockReduction {
  using Word = uint64_t;
  static_assert(sizeof(T) % sizeof(Word) == 0 && std::is_trivially_copyable_v<T>);
  static constexpr size_t kWords = sizeof(T) / sizeof(Word);

 public:
  struct Shared {
    Word words[threads][kWords];
  };

  // By all threads of the block; the result is thread 0's alone. include(T& sum, const T& more)
  // adds one value to another.
  template <class Include>
  static T reduce(Shared& shared, const T& value, const Include& include,
                  Site site = Site::here()) {
    Word words[kWords];
    std::memcpy(words, &value, sizeof(T));
    for (size_t i = 0; i < kWords; ++i)
      shared_store(shared.words[thread_index()][i], words[i], site);
    sync_block(site);
    T sum = value;
    for (uint32_t other = 1; thread_index() == 0 && other < threads; ++other) {
      for (size_t i = 0; i < kWords; ++i) words[i] = shared_load(shared.words[other][i], site);
      T more;
      std::memcpy(&more, words, sizeof(T));
      include(sum, more);
    }
    return sum;
  }
};

}  // namespace terse::simt
