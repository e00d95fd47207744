// Nodes in groups as a root sees them: digits are counted from its own, which are 0. And the shards
// of its message: for the ranks at a place one for each node none of whose digits is 0, so that the
// root's node owns none. Positions in such a row go by digit 1, then digit 2, and so on.
//
// Shards go to their owners from the lowest level up: at level i a rank whose digits below i are
// not 0, and whose others are, sends those for each other digit i. They are gathered from the
// highest level down: at level i those are sent that share the digits up to i, which are not 0.
#pragma once

#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "plan/grid.h"

namespace terse::plan {

class RootedGroups {
 public:
  RootedGroups(const Topology& t, int root)
      : grid_(grid_of_groups(t)), root_(static_cast<size_t>(root)), block_(grid_.levels(), 1) {
    for (size_t level = levels() - 1; level > 0; --level)
      block_[level - 1] = block_[level] * (radix(level) - 1);
    shards_.resize(per_row() * places());
    std::iota(shards_.begin(), shards_.end(), size_t{0});
  }

  size_t levels() const { return grid_.levels(); }
  size_t radix(size_t level) const { return grid_.radix(level); }
  size_t places() const { return grid_.places(); }

  size_t digit(size_t rank, size_t level) const {
    return (radix(level) + grid_.digit(rank, level) - grid_.digit(root_, level)) % radix(level);
  }
  // Rank that differs from another one in this digit alone.
  size_t peer(size_t rank, size_t level, size_t digit) const {
    return grid_.peer(rank, level, (digit + grid_.digit(root_, level)) % radix(level));
  }

  // Numbers of all shards; of those of a place; and of a rank's place, those whose owners share the
  // digits 1 to a level with it. These are not 0.
  std::span<const size_t> shards() const { return shards_; }
  std::span<const size_t> row(size_t place) const {
    return shards().subspan(place * per_row(), per_row());
  }
  std::span<const size_t> shards_of(size_t rank, size_t level) const {
    size_t first = 0;
    for (size_t i = 1; i <= level; ++i) first += (digit(rank, i) - 1) * block_[i];
    return row(digit(rank, 0)).subspan(first, block_[level]);
  }
  size_t per_row() const { return block_.front(); }

  // Returns true if a rank has the shards_of() a level from the way down to their owners.
  bool is_on_the_way(size_t rank, size_t level) const {
    return has_digits(rank, level) && has_roots_digits(rank, level + 1);
  }
  // Returns true if a rank sends when shards are gathered on a level; and if it receives.
  bool gives(size_t rank, size_t level) const { return has_digits(rank, level); }
  bool lacks(size_t rank, size_t level) const {
    return has_digits(rank, level - 1) && !is_on_the_way(rank, level - 1);
  }

 private:
  // Returns true if no digit from 1 to a level is the root's.
  bool has_digits(size_t rank, size_t level) const {
    for (size_t i = 1; i <= level; ++i)
      if (digit(rank, i) == 0) return false;
    return true;
  }
  // Returns true if all digits from a level on are the root's.
  bool has_roots_digits(size_t rank, size_t level) const {
    for (size_t i = level; i < levels(); ++i)
      if (digit(rank, i) != 0) return false;
    return true;
  }

  const Grid grid_;
  const size_t root_;
  std::vector<size_t> block_;  // by level: number of shards_of()
  std::vector<size_t> shards_;
};

}  // namespace terse::plan
