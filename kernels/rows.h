// A thread's rows of a tile: which octets it has, and statistics over the teams that share a block.
#pragma once

#include "batch.h"
#include "leaf.h"

namespace terse::kernels {

// Where a thread's octets lie in their tile, which begins with a block. Octets beyond the block's
// or the piece's end have no elements.
struct Rows {
  uint32_t at[kRows];        // the octet's first element
  uint32_t block[kRows];     // its block
  uint32_t elements[kRows];  // 0 to 8
  bool leader[kRows];        // has the block's first octet
};

// `left` elements of the piece from the tile's first one on; with `fast` the whole tile is there.
template <bool fast>
TERSE_DEVICE Rows make_rows(const Geometry& g, uint64_t left) {
  const uint32_t thread = g.whole ? simt::thread_index() : simt::thread_index() % simt::kWarp;
  const uint32_t member = thread & ((1u << g.team_shift) - 1);
  const uint32_t team = thread >> g.team_shift;
  Rows rows;
  TERSE_UNROLL
  for (uint32_t j = 0; j < kRows; ++j) {
    const uint32_t row_of_block = j & ((1u << g.rows_shift) - 1);
    const uint32_t octet = (row_of_block << g.team_shift) + member;
    rows.block[j] = (j >> g.rows_shift) * g.blocks_per_row + team;
    rows.at[j] = rows.block[j] * g.block + octet * kOctet;
    rows.leader[j] = octet == 0;
    rows.elements[j] = octet < g.octets ? kOctet : 0;
    if constexpr (!fast) {
      if (rows.at[j] >= left) {
        rows.elements[j] = 0;
        rows.leader[j] = false;
      } else if (rows.elements[j] > left - rows.at[j]) {
        rows.elements[j] = static_cast<uint32_t>(left - rows.at[j]);
      }
    }
  }
  return rows;
}

// What the warps tell each other when all threads are one team.
template <class Stats>
struct Shared {
  static constexpr size_t kWords = sizeof(Stats) / 4;
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

// Gives every lane the statistics of its team of `lanes` lanes.
template <class Family>
TERSE_DEVICE void share_in_warp(uint32_t lanes, typename Family::Stats (&stats)[kRows]) {
  using Stats = typename Family::Stats;
  for (uint32_t distance = 1; distance < lanes; distance *= 2) {
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      Words<Stats> words = to_words(stats[j]);
      TERSE_UNROLL
      for (uint32_t& w : words.w) w = simt::shuffle_xor(w, distance);
      Family::merge(stats[j], from_words(words));
    }
  }
}

// Gives every thread the statistics of its team of 2^warps_shift warps, whose lanes agree already.
template <class Stats, class Family>
TERSE_DEVICE void share_in_block(uint32_t warps_shift, Stats& stats, Shared<Stats>& shared,
                                 Family) {
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
    Family::merge(stats, from_words(words));
  }
  simt::sync_block();  // before the next tile's statistics take the place
}

// Gives each row the statistics of its whole block.
template <class Family>
TERSE_DEVICE void share_stats(const Geometry& g, typename Family::Stats (&stats)[kRows],
                              Shared<typename Family::Stats>& shared) {
  TERSE_UNROLL
  for (uint32_t shift = 0; (1u << shift) < kRows; ++shift) {
    if (shift >= g.rows_shift) break;
    TERSE_UNROLL
    for (uint32_t j = 0; j < kRows; ++j) {
      if (j >> shift & 1) continue;
      Family::merge(stats[j], stats[j | 1u << shift]);
      stats[j | 1u << shift] = stats[j];
    }
  }
  share_in_warp<Family>(g.whole ? simt::kWarp : 1u << g.team_shift, stats);
  if (!g.whole) return;  // else all rows belong to one block
  share_in_block(g.team_shift - kWarpShift, stats[0], shared, Family{});
  TERSE_UNROLL
  for (uint32_t j = 1; j < kRows; ++j) stats[j] = stats[0];
}

}  // namespace terse::kernels
