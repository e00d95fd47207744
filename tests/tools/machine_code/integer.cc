// Arithmetic and logic on integers.
#include <algorithm>
#include <bit>

#include "arguments.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;
using Words = Lanes<uint32_t>;
using Wides = Lanes<uint64_t>;

int32_t as_signed(uint32_t x) { return static_cast<int32_t>(x); }
uint32_t low(uint64_t x) { return static_cast<uint32_t>(x); }
uint32_t high(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
uint64_t joined(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

void add_carries(Wides& sum, Mask carries) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) sum[lane] += (carries & bit(lane)) != 0;
}

// IADD3 d, [carry, [second carry]], a, b, c, [carry in, [carry in]]
void iadd3(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand* const carry = in.next_predicate();
  const Operand* const second = in.next_predicate();
  Wides sum = warp.addend(in.next());
  for (int i = 0; i < 2; ++i)
    sum = map([](uint64_t a, uint64_t b) { return a + b; }, sum, warp.addend(in.next()));
  if (of.has(kX) == in.empty()) warp.fail("carries and X go together");
  while (!in.empty()) add_carries(sum, in.predicate());
  warp.set(to, map(low, sum));
  if (carry) warp.set_predicate(*carry, where([](uint64_t x) { return high(x) > 0; }, sum));
  if (second) warp.set_predicate(*second, where([](uint64_t x) { return high(x) > 1; }, sum));
}

void iadd_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Wides a = warp.wide(in.next()), b = warp.wide(in.next());
  in.end();
  warp.set(to, map([](uint64_t x, uint64_t y) { return x + y; }, a, b));
}

void viadd(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.word(), b = in.word();
  in.end();
  warp.set(to, map([](uint32_t x, uint32_t y) { return x + y; }, a, b));
}

// IMAD d, a, b, c, [carry in]
void imad(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.word(), b = in.word();
  Wides sum = warp.addend(in.next());
  sum = map([](uint32_t x, uint32_t y, uint64_t z) { return x * y + z; }, a, b, sum);
  if (of.has(kX)) add_carries(sum, in.predicate());
  in.end();
  warp.set(to, map(low, sum));
}

Wides products(const Instruction& of, const Words& a, const Words& b) {
  if (of.has(kU32)) return map([](uint32_t x, uint32_t y) { return uint64_t{x} * y; }, a, b);
  return map([](uint32_t x,
                uint32_t y) { return static_cast<uint64_t>(int64_t{as_signed(x)} * as_signed(y)); },
             a, b);
}

Wides wide_sum(Warp& warp, const Instruction& of, Arguments& in) {
  const Words a = in.word(), b = in.word();
  const Wides c = warp.wide(in.next());
  in.end();
  return map([](uint64_t x, uint64_t y) { return x + y; }, products(of, a, b), c);
}

void imad_wide(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  warp.set(to, wide_sum(warp, of, in));
}

void imad_hi(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  warp.set(to, map(high, wide_sum(warp, of, in)));
}

// LEA d, [carry], a, b, shift: (a << shift) + b
void lea(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand* const carry = in.next_predicate();
  const Words a = in.plain();
  const Wides b = warp.addend(in.next());
  const uint32_t shift = in.integer();
  in.end();
  const Wides sum = map([=](uint32_t x, uint64_t y) { return uint64_t{x << shift} + y; }, a, b);
  warp.set(to, map(low, sum));
  if (carry) warp.set_predicate(*carry, where([](uint64_t x) { return high(x) > 0; }, sum));
}

// LEA.HI d, [carry], a, b, c, shift, [carry in]: the upper half of (c, a) << shift, and b
void lea_hi(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand* const carry = in.next_predicate();
  const Words a = in.plain();
  const Wides b = warp.addend(in.next());
  const Words c = in.plain();
  const uint32_t shift = in.integer();
  Wides sum = map(
      [=](uint32_t x, uint64_t y, uint32_t z) { return high(joined(x, z) << shift) + y; }, a, b, c);
  if (of.has(kX)) add_carries(sum, in.predicate());
  in.end();
  warp.set(to, map(low, sum));
  if (carry) warp.set_predicate(*carry, where([](uint64_t x) { return high(x) > 0; }, sum));
}

void lea_hi_sx32(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.plain(), b = in.word();
  const uint32_t shift = in.integer();
  in.end();
  warp.set(to, map(
                   [=](uint32_t x, uint32_t y) {
                     const uint64_t extended = static_cast<uint64_t>(int64_t{as_signed(x)});
                     return high(extended << shift) + y;
                   },
                   a, b));
}

// Shifts (b, a) as 64 bits. Without W a longer distance counts as the longest.
void shf(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.plain(), distance = in.plain(), b = in.plain();
  in.end();
  const bool wraps = of.has(kW), left = of.has(kL), upper = of.has(kHI);
  const bool is_signed = of.has(kS32) || of.has(kS64);
  const uint32_t longest = of.has(kU64) || of.has(kS64) ? 64 : 32;
  warp.set(to, map(
                   [=](uint32_t x, uint32_t n, uint32_t y) {
                     n = wraps ? n & (longest - 1) : std::min(n, longest);
                     const uint64_t both = joined(x, y);
                     const uint64_t sign = is_signed && (both >> 63) != 0 ? ~uint64_t{0} : 0;
                     const uint64_t shifted = left      ? n == 64 ? 0 : both << n
                                              : n == 64 ? sign
                                              : n == 0  ? both
                                                        : both >> n | sign << (64 - n);
                     return upper ? high(shifted) : low(shifted);
                   },
                   a, distance, b));
}

void prmt(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.plain(), which = in.plain(), b = in.plain();
  in.end();
  warp.set(to, map(
                   [](uint32_t x, uint32_t selector, uint32_t y) {
                     uint32_t word = 0;
                     for (int i = 0; i < 4; ++i) {
                       const uint32_t s = selector >> 4 * i;
                       uint32_t byte = low(joined(x, y) >> 8 * (s & 7)) & 0xff;
                       if (s & 8) byte = byte & 0x80 ? 0xff : 0;  // its sign
                       word |= byte << 8 * i;
                     }
                     return word;
                   },
                   a, which, b));
}

// LOP3 [p], d, a, b, c, table, predicate: each bit of d is the table's entry at (a, b, c).
void lop3(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand* const any = in.next_predicate();
  const Operand& to = in.next();
  const Words a = in.plain(), b = in.plain(), c = in.plain();
  const uint32_t table = in.integer();
  const Mask also = in.predicate();
  in.end();
  const Words value =
      map([=](uint32_t x, uint32_t y, uint32_t z) { return by_table(table, x, y, z); }, a, b, c);
  warp.set(to, value);
  if (any) warp.set_predicate(*any, where([](uint32_t x) { return x != 0; }, value) | also);
}

// The smaller one where the predicate is true, else the larger one.
template <class T, class Less>
Lanes<T> extremes(const Lanes<T>& a, const Lanes<T>& b, Mask smaller, Less less) {
  Lanes<T> value;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const bool first = less(a[lane], b[lane]) == ((smaller & bit(lane)) != 0);
    value[lane] = first ? a[lane] : b[lane];
  }
  return value;
}

Words word_extremes(const Instruction& of, const Words& a, const Words& b, Mask smaller) {
  if (of.has(kU32)) return extremes(a, b, smaller, std::less<uint32_t>());
  return extremes(a, b, smaller,
                  [](uint32_t x, uint32_t y) { return as_signed(x) < as_signed(y); });
}

void imnmx(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.word(), b = in.word();
  const Mask smaller = in.predicate();
  in.end();
  warp.set(to, word_extremes(of, a, b, smaller));
}

// Takes two predicates, which are PT: nothing else is known of them.
void skip_predicates(const Warp& warp, Arguments& in) {
  for (int i = 0; i < 2; ++i) {
    const Operand& each = in.next();
    if (!each.is_predicate() || each.index != kTruePredicate || each.complemented)
      warp.fail("a predicate is not known");
  }
}

// IADD3.64 d, PT, PT, a, b, c
void iadd3_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  skip_predicates(warp, in);
  const Wides a = warp.wide(in.next()), b = warp.wide(in.next()), c = warp.wide(in.next());
  in.end();
  warp.set(to, map([](uint64_t x, uint64_t y, uint64_t z) { return x + y + z; }, a, b, c));
}

// Each half as a number.
void vimnmx_u16x2(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = warp.unmarked(in.next()), b = warp.unmarked(in.next());
  const Mask smaller = in.predicate();
  in.end();
  const auto half = [&](uint32_t shift) {
    const auto part = [=](uint32_t x) { return x >> shift & 0xffff; };
    return extremes(map(part, a), map(part, b), smaller, std::less<uint32_t>());
  };
  warp.set(to,
           map([](uint32_t low, uint32_t high) { return high << 16 | low; }, half(0), half(16)));
}

// IMNMX.U64 PT, PT, d, a, b, smaller, !PT
void imnmx_u64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  skip_predicates(warp, in);
  const Operand& to = in.next();
  const Wides a = warp.wide(in.next()), b = warp.wide(in.next());
  const Mask smaller = in.predicate();
  if (in.predicate() != 0) warp.fail("a predicate is not known");
  in.end();
  warp.set(to, extremes(a, b, smaller, std::less<uint64_t>()));
}

void viaddmnmx(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.word(), b = in.word(), c = in.word();
  const Mask smaller = in.predicate();
  in.end();
  const Words sum = map([](uint32_t x, uint32_t y) { return x + y; }, a, b);
  warp.set(to, word_extremes(of, sum, c, smaller));
}

void flo(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Words a = in.word();
  in.end();
  warp.set(to, map(
                   [](uint32_t x) {
                     return x == 0 ? ~0u : 31u - static_cast<uint32_t>(std::countl_zero(x));
                   },
                   a));
}

}  // namespace

std::span<const Rule> integer_rules() {
  static constexpr Rule kRules[] = {
      {"IADD3", {kX}, iadd3},
      {"IADD.64", {}, iadd_64},
      {"IADD3.64", {}, iadd3_64},
      {"VIADD", {}, viadd},
      {"IMAD", {kX, kMOV, kU32, kIADD, kSHL}, imad},
      {"IMAD.WIDE", {kU32}, imad_wide},
      {"IMAD.HI", {kU32}, imad_hi},
      {"LEA", {}, lea},
      {"LEA.HI", {kX}, lea_hi},
      {"LEA.HI.SX32", {}, lea_hi_sx32},
      {"SHF", {kL, kR, kHI, kU32, kS32, kU64, kS64, kW}, shf},
      {"PRMT", {}, prmt},
      {"LOP3", {kLUT}, lop3},
      {"IMNMX", {kU32}, imnmx},
      {"VIMNMX", {kU32, kS32}, imnmx},
      {"VIMNMX.U16x2", {}, vimnmx_u16x2},
      {"IMNMX.U64", {}, imnmx_u64},
      {"VIADDMNMX", {kU32}, viaddmnmx},
      {"FLO.U32", {}, flo},
  };
  return kRules;
}

}  // namespace terse::machine
