// Levels for learned codecs, other than those that are equally far from each other.
#pragma once

#include <algorithm>
#include <cstring>

#include "codec/codebook.h"
#include "codec/learning.h"
#include "support.h"

namespace terse::codec {

// Those that Gaussian data would have: quantiles, from 0 to 1.
inline Floats gaussian_levels(int bits) {
  Floats x = gaussian(1 << 14, 61);
  std::ranges::sort(x);
  const size_t n = codebook_levels(bits), last = x.size() - 1;
  Floats levels;
  for (size_t i = 0; i < n; ++i)
    levels.push_back((x[i * last / (n - 1)] - x.front()) / (x.back() - x.front()));
  return levels;
}

// Any that ascend; now and then some are the same.
inline Floats some_levels(int bits, Random& random) {
  Floats levels(codebook_levels(bits));
  for (float& level : levels) level = static_cast<float>(random.uniform());
  std::ranges::sort(levels);
  if (random.below(2)) levels.front() = 0.0f, levels.back() = 1.0f;
  if (random.below(3) == 0) levels[levels.size() / 2] = levels[levels.size() / 2 - 1];
  return levels;
}

inline Floats table_of(int bits, const Floats& levels) {
  Floats table(codebook_floats(bits));
  std::ranges::copy(levels, table.begin());
  for (size_t i = 0; i < levels.size(); ++i) complete_codebook(table.data(), bits, i);
  return table;
}

// Of levels that are fitted to the elements, by all stages.
inline Floats fitted_table(const Floats& x, uint32_t block, int bits, Rounding rounding) {
  using enum Learning::Stage;
  LearningState state;
  std::memset(static_cast<void*>(&state), 0xab, sizeof state);
  Floats table(codebook_floats(bits));
  for (const Learning::Stage stage : {kWidest, kHistogram, kFit})
    learn({stage, Dtype::kFloat32, static_cast<uint8_t>(bits), rounding, block, x.size(), x.data(),
           &state, table.data()});
  return table;
}

// Calls see(spec, table) for each learned codec, on blocks of up to 32 * `most` elements: at first
// with the levels of Gaussian data, then with any, `repeats` times in all. The oracle knows them.
template <class See>
void for_each_learned(int repeats, size_t most, Random& random, const See& see) {
  for (int repeat = 0; repeat < repeats; ++repeat) {
    for (const Spec& spec : every_spec(32 * (1 + random.below(most)))) {
      if (!descriptor(spec.codec).codebook) continue;
      const Floats levels =
          repeat == 0 ? gaussian_levels(spec.bits) : some_levels(spec.bits, random);
      const oracle::WithLevels told(levels);
      see(spec, table_of(spec.bits, levels));
    }
  }
}

}  // namespace terse::codec
