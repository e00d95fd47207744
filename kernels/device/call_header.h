// The comparison of calls by their headers (codec/call_header.h), by one warp.
#pragma once

#include "codec/call_header.h"
#include "kernels/arch/arch.h"

namespace terse::kernels {

TERSE_DEVICE void write_headers(const codec::HeaderWork& work) {
  for (uint32_t i = simt::thread_index(); i < codec::words_of(work); i += simt::kWarp)
    simt::store(work.memory + i, codec::first_word(work, i));
}

TERSE_DEVICE codec::CallHeader received(const codec::HeaderWork& work, uint32_t index) {
  constexpr uint32_t kWords = codec::CallHeader::kWords;
  const uint32_t* const from = work.memory + codec::begin_of(index);
  codec::CallHeader header;
  TERSE_UNROLL
  for (uint32_t i = 0; i < kWords; ++i) {
    header.word[i] = simt::load(from + i);
    if (work.agreed)
      header.word[i] =
          codec::other_word(work.own.word[i], header.word[i], simt::load(from + kWords + i));
  }
  return header;
}

// Checks received headers. If two lanes find a mismatch, the first lane reports it.
TERSE_DEVICE void check_headers(const codec::HeaderWork& work) {
  const uint32_t lane = simt::thread_index(), end = work.first + work.count;
  TERSE_NO_UNROLL
  for (uint32_t first = work.first; first < end; first += simt::kWarp) {
    const uint32_t index = first + lane < end ? first + lane : end - 1;
    const codec::CallHeader other = received(work, index);
    const uint32_t mismatches = simt::ballot(codec::differs(work.own, other));
    if (mismatches == 0) continue;
    if ((mismatches & ((uint32_t{2} << lane) - 1)) != uint32_t{1} << lane) return;
    simt::store(work.memory, uint32_t{1});
    if (!codec::is_header(other)) return;
    simt::store(work.memory + codec::CallHeader::kWords + codec::CallHeader::kFound,
                codec::found_word(work.own, other));
    if (simt::load(&work.report->found) != 0) return;
    for (uint32_t i = 0; i < codec::CallHeader::kWords; ++i) {
      simt::store(&work.report->own.word[i], work.own.word[i]);
      simt::store(&work.report->other.word[i], other.word[i]);
    }
    simt::publish(&work.report->found, uint32_t{1});
    return;
  }
}

TERSE_DEVICE void compare_calls(const codec::HeaderWork& work) {
  if (work.stage == codec::HeaderWork::Stage::kWrite)
    write_headers(work);
  else
    check_headers(work);
}

}  // namespace terse::kernels
