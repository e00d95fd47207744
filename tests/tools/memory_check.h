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

// Of 16 samples of 4 KiB, where there are more: at equal distances, but that they begin at
// multiples of 16 bytes, and the last one goes to the end.
inline uint64_t sample_check(const void* data, size_t bytes) {
  if (bytes <= 65536) return memory_check(data, bytes);
  const char* const at = static_cast<const char*>(data);
  const size_t last = (bytes - 4096) & ~size_t{15};
  uint64_t sum = memory_check(at + last, bytes - last, 15 * 1024);
  for (size_t i = 0; i < 15; ++i)
    sum += memory_check(at + (last * i / 15 & ~size_t{15}), 4096, i * 1024);
  return sum;
}
