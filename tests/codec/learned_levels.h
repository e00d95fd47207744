// Levels for learned codecs, other than those that are equally far from each other.
#pragma once

#include <algorithm>

#include "codec/codebook.h"
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

}  // namespace terse::codec
