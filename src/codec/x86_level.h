// The level of x86-64 that a processor has, of those that there are tables for. A compiler may use
// all that the psABI lists for a level, and not every compiler can ask for all of that by name.
#pragma once

#include <cstdint>

namespace terse::codec {

// Words in which a processor and its system describe themselves.
struct X86Words {
  uint32_t leaf1_ecx, leaf7_ebx, extended_ecx;  // of cpuid's leaves 1, 7 and 0x80000001
  uint32_t xcr0;                                // the registers that the system saves
};

template <class... Bit>
constexpr uint32_t bits_at(Bit... bit) {
  return (... | (uint32_t{1} << bit));
}

constexpr uint32_t kX86Osxsave = bits_at(27);  // in leaf1_ecx: xcr0 can be read

// Those of x86-64-v2: SSE3, SSSE3, CMPXCHG16B, SSE4.1, SSE4.2, POPCNT; LAHF. Those of x86-64-v3:
// FMA, MOVBE, OSXSAVE, AVX, F16C; BMI1, AVX2, BMI2; LZCNT; the registers of SSE and AVX.
constexpr X86Words kX86V3 = {bits_at(0, 9, 13, 19, 20, 23) | bits_at(12, 22, 27, 28, 29),
                             bits_at(3, 5, 8), bits_at(0, 5), bits_at(1, 2)};
// Besides those: AVX-512 F, DQ, CD, BW, VL; the registers of AVX-512.
constexpr X86Words kX86V4 = {0, bits_at(16, 17, 28, 30, 31), 0, bits_at(5, 6, 7)};

constexpr bool has_all(uint32_t word, uint32_t needed) { return (word & needed) == needed; }

constexpr bool has_all(const X86Words& words, const X86Words& needed) {
  return has_all(words.leaf1_ecx, needed.leaf1_ecx) && has_all(words.leaf7_ebx, needed.leaf7_ebx) &&
         has_all(words.extended_ecx, needed.extended_ecx) && has_all(words.xcr0, needed.xcr0);
}

// 4, 3, or 1 for anything less.
constexpr int x86_level(const X86Words& words) {
  if (!has_all(words, kX86V3)) return 1;
  return has_all(words, kX86V4) ? 4 : 3;
}

}  // namespace terse::codec
