// A part of host_ops.cc: checks of memory, a register of words at a time.
#pragma once

#include "codec/checksum.h"
#include "codec/container.h"
#include "codec/host/elements.h"
#include "codec/host/registers.h"

namespace terse::codec::TERSE_ISA {
namespace {

constexpr size_t kCheckedAtOnce = 2 * kLanes;
// Bytes by which memory is prefetched; the machine by itself does so later.
constexpr size_t kAhead = 3072;
using CheckedWords = uint32_t __attribute__((vector_size(kRegisterBytes)));

Seen see(const uint8_t* in, size_t words, size_t first, ExtremeBits bits) {
  CheckedWords scattered, extreme{};
  for (size_t k = 0; k < kCheckedAtOnce; ++k)
    scattered[k] = static_cast<uint32_t>(first + k) * kScatter;
  Lanes sums{};
  size_t i = 0;
  for (; i + kCheckedAtOnce <= words; i += kCheckedAtOnce) {
    const uint8_t* const at = in + i * sizeof(uint32_t);
    __builtin_prefetch(at + kAhead);
    CheckedWords word;
    std::memcpy(&word, at, sizeof word);
    const auto mixed = Lanes(word ^ kScatter), factors = Lanes(factor_of_scattered(scattered));
    sums += multiply_low(mixed, factors) + multiply_low(mixed >> 32, factors >> 32);
    extreme |= bits(word);
    scattered += static_cast<uint32_t>(kCheckedAtOnce) * kScatter;
  }
  Seen seen{0, 0};
  for (size_t k = 0; k < kCheckedAtOnce; ++k) include(seen, {k < kLanes ? sums[k] : 0, extreme[k]});
  for (; i < words; ++i) {
    const uint32_t word = read<uint32_t>(in, i);
    include(seen, {check_of_word(word, first + i), bits(word)});
  }
  return seen;
}

uint64_t check_packed(const uint8_t* in, size_t words, size_t first) {
  uint64_t sum = 0;
  for (size_t i = 0; i < words; ++i) sum += check_of_packed_word(read<uint32_t>(in, i), first + i);
  return sum;
}

}  // namespace
}  // namespace terse::codec::TERSE_ISA
