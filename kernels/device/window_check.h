// A check of windows: whether all that ranks store at each other arrives, before the flag behind
// it; and the name of a call that a rank does in steps, for peers that wait in a fused one.
#pragma once

#include "kernels/device/meetings.h"
#include "kernels/device/window_work.h"

namespace terse::kernels {

// Words of all areas, of one rank.
constexpr uint32_t kCheckedWords = 2 * WindowCheck::kWords;

struct CheckedWord {
  uint64_t* at;
  uint64_t value;
};

// Word `number` of those that `writer` stores at `owner`.
TERSE_DEVICE CheckedWord checked_word(const WindowCheck& check, uint32_t owner, uint32_t writer,
                                      uint32_t number, uint32_t round) {
  const uint32_t area = number / kCheckedWords, word = number % kCheckedWords;
  const uint64_t place =
      (uint64_t{writer} * WindowCheck::kWords + word % WindowCheck::kWords) * sizeof(uint64_t);
  const bool at_end = word >= WindowCheck::kWords;
  const uint64_t offset = at_end ? check.area_bytes - sizeof(uint64_t) - place : place;
  uint64_t value = check.key[owner] * (2 * offset + 1) + check.key[writer] + number;
  value = (value ^ value >> 29) * 0xbf58476d1ce4e5b9u + round;
  char* const begin = check.exchange.window[owner] + check.area[area];
  return {reinterpret_cast<uint64_t*>(begin + offset), value};
}

// Ends a check that is in vain, so that the rank's own words count as wrong.
TERSE_DEVICE void give_up(const WindowCheck& check, const Meetings& meetings, const Unit& unit) {
  if (unit.thread() == 0) simt::store(&check.wrong[check.exchange.self], uint32_t{1});
  meetings.give_up();
}

// Runs on the first thread block, of which there are as many as fused calls have.
TERSE_DEVICE void check_window(const WindowCheck& check, uint32_t& vote) {
  if (simt::block_index() != 0) return;
  const Exchange& exchange = check.exchange;
  const Unit unit(true);
  const Meetings meetings(unit, exchange, vote);
  const uint32_t self = exchange.self, words = check.areas * kCheckedWords;
  uint32_t epoch = 0;  // nobody has used the window before
  TERSE_NO_UNROLL
  for (uint32_t round = 1; round <= WindowCheck::kRounds; ++round) {
    ++epoch;
    TERSE_NO_UNROLL
    for (uint32_t i = unit.thread(); i < words * exchange.ranks; i += unit.threads()) {
      const uint32_t peer = i / words;
      const CheckedWord word = checked_word(check, peer, self, i % words, round);
      if (peer != self) simt::store(word.at, word.value);
    }
    if (!meetings.meet(Meeting::kFirst, epoch, epoch)) return give_up(check, meetings, unit);
    TERSE_NO_UNROLL
    for (uint32_t peer = 0; peer < exchange.ranks; ++peer) {
      bool is_wrong = false;
      TERSE_NO_UNROLL
      for (uint32_t i = unit.thread(); i < words && unit.thread() < simt::kWarp; i += simt::kWarp) {
        const CheckedWord word = checked_word(check, self, peer, i, round);
        is_wrong |= peer != self && simt::load(word.at) != word.value;
      }
      const bool any = simt::ballot(is_wrong) != 0;
      if (any && unit.thread() == 0) simt::store(&check.wrong[peer], uint32_t{1});
    }
    if (!meetings.meet(Meeting::kSecond, epoch, epoch)) return give_up(check, meetings, unit);
  }
  if (unit.thread() != 0) return;
  WindowHeader::Unit& state = meetings.header(self)->unit[0];
  simt::store(&state.epoch[0], epoch);
  simt::store(&state.epoch[1], epoch);
}

// Runs on one warp.
TERSE_DEVICE void name_in_steps(const CallInSteps& named) {
  const uint32_t peer = simt::thread_index();
  if (peer >= named.ranks || peer == named.self) return;
  WindowHeader::FromRank& there =
      reinterpret_cast<WindowHeader*>(named.window[peer])->from[named.self];
  TERSE_UNROLL
  for (uint32_t i = 0; i < codec::CallHeader::kWords; ++i)
    simt::store(&there.in_steps.word[i], named.call.word[i]);
  simt::release(&there.number_in_steps, named.number);
}

}  // namespace terse::kernels
