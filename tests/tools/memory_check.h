// The check of memory as its definition has it (FORMAT.md, section 5).
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

// Of words that are numbered from `first`; the last one is filled up with zeros.
inline uint64_t memory_check(const void* data, size_t bytes, uint64_t first = 0) {
  uint64_t sum = 0;
  for (size_t at = 0; at < bytes; at += 4) {
    uint32_t word = 0;
    std::memcpy(&word, static_cast<const char*>(data) + at, std::min<size_t>(4, bytes - at));
    const uint32_t scattered = static_cast<uint32_t>(first + at / 4) * 0x9E3779B9;
    sum += uint64_t{word ^ 0x9E3779B9} * ((scattered ^ scattered >> 16) | 1);
  }
  return sum;
}

// Of the first, the middle and the last 16 KiB, where there are more; the middle one begins at half
// of where the last one does; both begin at whole words.
inline uint64_t sample_check(const void* data, size_t bytes) {
  constexpr size_t kSample = 16384;
  if (bytes <= 3 * kSample) return memory_check(data, bytes);
  const char* const at = static_cast<const char*>(data);
  const size_t last = (bytes - kSample) & ~size_t{3}, middle = (last / 2) & ~size_t{3};
  return memory_check(at, kSample) + memory_check(at + middle, kSample, kSample / 4) +
         memory_check(at + last, bytes - last, 2 * kSample / 4);
}
