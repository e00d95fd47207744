#include "policy/nearest.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace terse {

// Row by row; three rows are enough, as a swap looks back by two.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;  // longer than any typing error
  std::string_view best;
  if (word.size() > kLongest) return best;
  size_t least = SIZE_MAX;
  for (const std::string_view name : known) {
    const size_t distance = edit_distance(word, name);
    // Allows one error in three characters, and never the whole name.
    if (distance >= least || distance > std::max<size_t>(1, name.size() / 3)) continue;
    if (distance >= name.size()) continue;
    least = distance;
    best = name;
  }
  return best;
}

std::string hint(std::string_view word, std::span<const std::string_view> known) {
  const std::string_view meant = nearest(word, known);
  if (!meant.empty()) return fmt::format("; did you mean \"{}\"?", meant);
  std::string text = "; known are ";
  for (size_t i = 0; i < known.size(); ++i)
    text += fmt::format("{}{}", i == 0 ? "" : i + 1 < known.size() ? ", " : " and ", known[i]);
  return text;
}

}  // namespace terse
