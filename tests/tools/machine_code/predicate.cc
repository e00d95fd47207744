// What sets, reads and combines predicates.
#include "arguments.h"
#include "numbers.h"
#include "rules.h"

namespace terse::machine {
namespace {

using enum Modifier;

template <class T>
Mask compared(const Warp& warp, const Instruction& of, const Lanes<T>& a, const Lanes<T>& b) {
  if (of.has(kLT)) return where([](T x, T y) { return x < y; }, a, b);
  if (of.has(kLE)) return where([](T x, T y) { return x <= y; }, a, b);
  if (of.has(kGT)) return where([](T x, T y) { return x > y; }, a, b);
  if (of.has(kGE)) return where([](T x, T y) { return x >= y; }, a, b);
  if (of.has(kEQ)) return where([](T x, T y) { return x == y; }, a, b);
  if (of.has(kNE)) return where([](T x, T y) { return x != y; }, a, b);
  warp.fail("a comparison was expected");
}

template <class T, class From>
Lanes<T> as(const Lanes<From>& values) {
  return map([](From x) { return static_cast<T>(x); }, values);
}

void finish(Warp& warp, const Instruction& of, const Operand& to, const Operand& inverse,
            Mask value, Mask accumulated) {
  warp.set_predicate(to, combined(warp, of, value, accumulated));
  warp.set_predicate(inverse, combined(warp, of, ~value, accumulated));
}

// The comparison of upper words. Where they are equal `lower`, the lower words' result, decides.
Mask extended(const Instruction& of, Mask equal, Mask strictly, Mask lower) {
  if (of.has(kEQ)) return equal & lower;
  if (of.has(kNE)) return ~equal | lower;
  return strictly | (equal & lower);
}

template <class T>
Mask ordered(const Warp& warp, const Instruction& of, const Lanes<T>& a, const Lanes<T>& b) {
  if (of.has(kLT) || of.has(kLE)) return where([](T x, T y) { return x < y; }, a, b);
  if (of.has(kGT) || of.has(kGE)) return where([](T x, T y) { return x > y; }, a, b);
  if (of.has(kEQ) || of.has(kNE)) return 0;
  warp.fail("a comparison was expected");
}

void isetp_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &to = in.next(), &inverse = in.next();
  const Lanes<uint64_t> a = warp.wide(in.next()), b = warp.wide(in.next());
  const Mask accumulated = in.predicate();
  in.end();
  const Mask value =
      of.has(kS64) ? compared(warp, of, as<int64_t>(a), as<int64_t>(b)) : compared(warp, of, a, b);
  finish(warp, of, to, inverse, value, accumulated);
}

// ISETP p, q, a, b, accumulated, [lower]
void isetp(Warp& warp, const Instruction& of) {
  if (of.has(kU64) || of.has(kS64)) return isetp_64(warp, of);
  Arguments in(warp, of);
  const Operand &to = in.next(), &inverse = in.next();
  const Lanes<uint32_t> a = in.word(), b = in.word();
  const Mask accumulated = in.predicate();
  const bool is_signed = !of.has(kU32);
  Mask value = 0;
  if (of.has(kEX)) {
    const Mask lower = in.predicate();
    const Mask equal = where([](uint32_t x, uint32_t y) { return x == y; }, a, b);
    const Mask strictly =
        is_signed ? ordered(warp, of, as<int32_t>(a), as<int32_t>(b)) : ordered(warp, of, a, b);
    value = extended(of, equal, strictly, lower);
  } else {
    value =
        is_signed ? compared(warp, of, as<int32_t>(a), as<int32_t>(b)) : compared(warp, of, a, b);
  }
  in.end();
  finish(warp, of, to, inverse, value, accumulated);
}

// Names that end with U are also true if an operand is NaN.
template <class T>
Mask compared_reals(const Warp& warp, const Instruction& of, const Lanes<T>& a, const Lanes<T>& b) {
  const Mask unordered = where([](T x, T y) { return x != x || y != y; }, a, b);
  if (of.has(kNAN)) return unordered;
  if (of.has(kLTU)) return unordered | where([](T x, T y) { return x < y; }, a, b);
  if (of.has(kLEU)) return unordered | where([](T x, T y) { return x <= y; }, a, b);
  if (of.has(kGTU)) return unordered | where([](T x, T y) { return x > y; }, a, b);
  if (of.has(kGEU)) return unordered | where([](T x, T y) { return x >= y; }, a, b);
  if (of.has(kNEU)) return unordered | where([](T x, T y) { return x != y; }, a, b);
  return compared(warp, of, a, b) & ~unordered;
}

// FSETP and DSETP: p, q, a, b, accumulated
template <class T>
void setp(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &to = in.next(), &inverse = in.next();
  Lanes<T> a = in.get<T>(), b = in.get<T>();
  const Mask accumulated = in.predicate();
  in.end();
  if constexpr (std::is_same_v<T, float>)
    if (of.has(kFTZ)) {
      a = map(flushed, a);
      b = map(flushed, b);
    }
  finish(warp, of, to, inverse, compared_reals(warp, of, a, b), accumulated);
}

// Whether the first one is the minimum; and whether the second one is NaN, which is not known here.
void dsetp_min(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &to = in.next(), &is_nan = in.next();
  const Lanes<double> a = warp.real64(in.next()), b = warp.real64(in.next());
  const Mask accumulated = in.predicate();
  in.end();
  const Mask unknown = where([](double x, double y) { return y != y || (x == 0 && y == 0); }, a, b);
  if ((unknown & warp.executing()) != 0) warp.fail("a minimum of these is not known");
  warp.set_predicate(
      to, combined(warp, of, where([](double x, double y) { return x < y; }, a, b), accumulated));
  warp.set_predicate(is_nan, 0);
}

// PLOP3 p, q, a, b, c, table of p, table of q
void plop3(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand &to = in.next(), &other = in.next();
  const Mask a = in.predicate(), b = in.predicate(), c = in.predicate();
  for (const Operand* const target : {&to, &other})
    warp.set_predicate(*target, by_table(in.integer(), a, b, c));
  in.end();
}

Operand predicate_of(uint32_t index) { return {.kind = Kind::kPredicate, .index = index}; }

// P2R d, PR, a, mask
void p2r(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  if (in.next().kind != Kind::kPredicates) warp.fail("PR was expected");
  Lanes<uint32_t> value = in.word();
  const uint32_t mask = in.integer();
  in.end();
  for (uint32_t p = 0; p < kTruePredicate; ++p) {
    if ((mask >> p & 1) == 0) continue;
    const Mask set = warp.predicate(predicate_of(p));
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      value[lane] = (value[lane] & ~(1u << p)) | (set >> lane & 1) << p;
  }
  warp.set(to, value);
}

// R2P PR, a, mask
void r2p(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  if (in.next().kind != Kind::kPredicates) warp.fail("PR was expected");
  const Lanes<uint32_t> value = in.word();
  const uint32_t mask = in.integer();
  in.end();
  for (uint32_t p = 0; p < kTruePredicate; ++p)
    if (mask >> p & 1)
      warp.set_predicate(predicate_of(p), where([=](uint32_t x) { return x >> p & 1; }, value));
}

}  // namespace

std::span<const Rule> predicate_rules() {
  static constexpr Modifiers kReals{kLT,  kLE,  kGT,  kGE,  kEQ,  kNE, kLTU, kLEU,
                                    kGTU, kGEU, kNEU, kNAN, kAND, kOR, kXOR, kFTZ};
  static constexpr Rule kRules[] = {
      {"ISETP", {kLT, kLE, kGT, kGE, kEQ, kNE, kU32, kU64, kS64, kAND, kOR, kXOR, kEX}, isetp},
      {"FSETP", kReals, setp<float>},
      {"DSETP", kReals, setp<double>},
      {"DSETP.MIN", {kAND}, dsetp_min},
      {"PLOP3", {kLUT}, plop3},
      {"P2R", {}, p2r},
      {"R2P", {}, r2p},
  };
  return kRules;
}

}  // namespace terse::machine
