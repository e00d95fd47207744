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

namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

}  // namespace

std::string_view nearest(std::string_view word, std::span<const std::string_view> known) {
  constexpr size_t kLongest = 64;   // longer than any typing error
  constexpr size_t kBeginning = 3;  // characters of a name that are enough to know it by
  std::string_view best;
  if (word.size() > kLongest) return best;
  const std::string small = lower(word);
  size_t least = SIZE_MAX;
  for (const std::string_view name : known) {
    const size_t distance = edit_distance(small, lower(name));
    // Allows one error in three characters, and never the whole name.
    if (distance >= least || distance > std::max<size_t>(1, name.size() / 3)) continue;
    if (distance >= name.size()) continue;
    least = distance;
    best = name;
  }
  if (!best.empty() || word.size() < kBeginning) return best;
  const auto begins = [&](std::string_view name) { return lower(name).starts_with(small); };
  const auto longer = std::ranges::find_if(known, begins);
  return longer != known.end() ? *longer : best;
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
