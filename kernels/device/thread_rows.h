// A thread's rows of a tile: which vectors of 8 it has, and statistics over the teams that share a
// block.
#pragma once

#include "kernels/arch/arch.h"
#include "kernels/device/batch.h"

namespace terse::kernels {

// Positions of a thread's vectors of 8 in a tile, which begins with a block: the same in every
// tile. In a whole tile every thread has all its vectors; in one with `left` elements, those beyond
// the end of the block or the piece have no elements.
class Rows {
 public:
  TERSE_DEVICE explicit Rows(const Geometry& g) : g_(g) {
    const uint32_t thread = g.whole ? simt::thread_index() : simt::thread_index() % simt::kWarp;
    member_ = thread & ((1u << g.team_shift) - 1);
    team_ = thread >> g.team_shift;
    at_ = team_ * g.block + member_ * kVec8;
  }

  // The first element of the vec8 in row j, and its block.
  TERSE_DEVICE uint32_t at(uint32_t j) const {
    uint32_t at = at_;
    TERSE_UNROLL
    for (uint32_t bit = 0; bit < kRowBits; ++bit)
      if (j >> bit & 1) at += g_.row_stride[bit];
    return at;
  }

  TERSE_DEVICE uint32_t block(uint32_t j) const {
    return (j >> g_.rows_shift) * g_.blocks_per_row + team_;
  }

  // How many elements it has, 0 to 8.
  TERSE_DEVICE uint32_t elements(uint32_t j, uint32_t left) const {
    const uint32_t first = at(j);
    if (vec8(j) >= g_.vectors || first >= left) return 0;
    return left - first < kVec8 ? left - first : kVec8;
  }

  // Every thread is answerable for one row's block: for its parameters.
  TERSE_DEVICE uint32_t own_row() const { return member_ % kRows; }

  TERSE_DEVICE bool has_own_block(uint32_t left) const {
    return block(own_row()) * g_.block < left;
  }

  // Returns true on one thread of each block.
  TERSE_DEVICE bool leads() const { return member_ < kRows && row_of_block(member_) == 0; }

 private:
  TERSE_DEVICE uint32_t row_of_block(uint32_t j) const { return j & ((1u << g_.rows_shift) - 1); }

  TERSE_DEVICE uint32_t vec8(uint32_t j) const {
    return (row_of_block(j) << g_.team_shift) + member_;
  }

  const Geometry& g_;
  uint32_t member_, team_;  // of a team; which team
  uint32_t at_;
};

// Teams have a thread for each row.
static_assert(codec::kMinBlock / kVec8 >= kRows);

// A sum over a block's elements: statistics like others.
struct Total {
  uint32_t sum = 0;
};

TERSE_DEVICE void merge(Total& total, const Total& other) { total.sum += other.sum; }

// Statistics that warps exchange when all threads are one team.
template <class Stats>
struct Shared {
  static constexpr size_t kWords = sizeof(Stats) < 4 ? 1 : sizeof(Stats) / 4;
  uint32_t words[kThreads / simt::kWarp][kWords];
};

// Statistics as words, which is what threads can exchange.
template <class Stats>
struct Words {
  uint32_t w[sizeof(Stats) / 4];
};

template <class Stats>
TERSE_DEVICE Words<Stats> to_words(const Stats& stats) {
  Words<Stats> words;
  memcpy(&words, &stats, sizeof(Stats));
  return words;
}

template <class Stats>
TERSE_DEVICE Stats from_words(const Words<Stats>& words) {
  Stats stats;
  memcpy(static_cast<void*>(&stats), &words, sizeof(Stats));
  return stats;
}

template <class T>
TERSE_DEVICE T shuffle_xor(const T& value, uint32_t distance) {
  Words<T> words = to_words(value);
  TERSE_UNROLL
  for (uint32_t& w : words.w) w = simt::shuffle_xor(w, distance);
  return from_words(words);
}

// `condition ? a : b`, in registers.
template <class T>
TERSE_DEVICE T select(bool condition, const T& a, const T& b) {
  Words<T> words = to_words(a);
  const Words<T> others = to_words(b);
  TERSE_UNROLL
  for (size_t i = 0; i < sizeof(T) / 4; ++i) words.w[i] = condition ? words.w[i] : others.w[i];
  return from_words(words);
}

// Returns the value of the thread that is responsible for row j.
template <class T>
TERSE_DEVICE T of_row(uint32_t j, const T& value) {
  const uint32_t lane = simt::thread_index() % simt::kWarp;
  Words<T> words = to_words(value);
  TERSE_UNROLL
  for (uint32_t& w : words.w) w = simt::shuffle(w, lane / kRows * kRows + j);
  return from_words(words);
}

// Gives every lane its own row's statistics of its team's `lanes` lanes. First lanes halve the rows
// between them, until each has one.
template <class Stats>
TERSE_DEVICE Stats share_in_warp(uint32_t lanes, Stats (&stats)[kRows]) {
  const uint32_t lane = simt::thread_index() % simt::kWarp;
  TERSE_UNROLL
  for (uint32_t distance = 1, rows = kRows / 2; rows > 0; distance *= 2, rows /= 2) {
    const bool odd = lane & distance;
    TERSE_UNROLL
    for (uint32_t k = 0; k < rows; ++k) {
      const Stats even_row = stats[2 * k], odd_row = stats[2 * k + 1];
      stats[k] = select(odd, odd_row, even_row);
      merge(stats[k], shuffle_xor(select(odd, even_row, odd_row), distance));
    }
  }
  for (uint32_t distance = kRows; distance < lanes; distance *= 2)
    merge(stats[0], shuffle_xor(stats[0], distance));
  return stats[0];
}

// Gives every thread the statistics of its team of 2^warps_shift warps, whose lanes agree already.
template <class Stats, class Larger>
TERSE_DEVICE void share_in_block(uint32_t warps_shift, Stats& stats, Shared<Larger>& shared) {
  static_assert(Shared<Stats>::kWords <= Shared<Larger>::kWords);
  const uint32_t warp = simt::thread_index() / simt::kWarp;
  if (simt::thread_index() % simt::kWarp == 0) {
    const Words<Stats> words = to_words(stats);
    TERSE_UNROLL
    for (size_t i = 0; i < Shared<Stats>::kWords; ++i)
      simt::shared_store(shared.words[warp][i], words.w[i]);
  }
  simt::sync_block();
  stats = {};
  const uint32_t first = warp >> warps_shift << warps_shift;
  for (uint32_t other = first; other < first + (1u << warps_shift); ++other) {
    Words<Stats> words;
    TERSE_UNROLL
    for (size_t i = 0; i < Shared<Stats>::kWords; ++i)
      words.w[i] = simt::shared_load(shared.words[other][i]);
    const Stats others = from_words(words);
    merge(stats, others);
  }
  simt::sync_block();  // before the next tile's statistics take the place
}

// Gives every thread the statistics of its own row's block.
template <class Stats, class Larger>
TERSE_DEVICE Stats share_stats(const Geometry& g, Stats (&stats)[kRows], Shared<Larger>& shared) {
  TERSE_UNROLL
  for (uint32_t shift = 0; (1u << shift) < kRows; ++shift) {
    if (shift >= g.rows_shift) break;
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      if (j >> shift & 1) continue;
      merge(stats[j], stats[j | 1u << shift]);
      stats[j | 1u << shift] = stats[j];
    }
  }
  Stats own = share_in_warp(g.whole ? simt::kWarp : 1u << g.team_shift, stats);
  if (g.whole) share_in_block(g.team_shift - kWarpShift, own, shared);
  return own;
}

}  // namespace terse::kernels
