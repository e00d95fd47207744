// Loads and stores: of memory of the host, of shared memory, of constants.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "arguments.h"
#include "block.h"
#include "rules.h"
#include "simt/global_memory.h"

namespace terse::machine {
namespace {

using enum Modifier;
using simt::internal::Operation;

uint32_t bytes_of(const Instruction& of) {
  if (of.has(kU8) || of.has(kS8)) return 1;
  if (of.has(kU16) || of.has(kS16)) return 2;
  return of.has(k64) ? 8 : of.has(k128) ? 16 : 4;
}

Lanes<uint64_t> place(const Warp& warp, const Operand& at, bool wide) {
  if (at.kind != Kind::kAddress) warp.fail("an address was expected");
  if (wide && at.scale != 1) warp.fail("an address is not known");
  const Operand base{.kind = Kind::kRegister, .index = at.base};
  const Operand uniform{.kind = Kind::kUniform, .index = at.uniform_base};
  const auto offset = static_cast<uint64_t>(at.value);
  if (wide && !at.base_is_32_bits)
    return map([=](uint64_t x, uint64_t y) { return x + y + offset; }, warp.wide(base),
               warp.wide(uniform));
  const Lanes<uint32_t> words = warp.word(base);
  if (wide)
    return map([=](uint32_t x, uint64_t y) { return x + y + offset; }, words, warp.wide(uniform));
  return map(
      [&](uint32_t x, uint32_t y) {
        return uint64_t{x * at.scale + y + static_cast<uint32_t>(at.value)};
      },
      words, warp.word(uniform));
}

uint8_t* global(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes,
                Operation operation) {
  const std::string why = simt::internal::why_refused(operation, address, bytes);
  if (!why.empty()) warp.fail(lane, why);
  if (operation != Operation::kStore) simt::traffic.read += bytes;
  if (operation != Operation::kLoad) simt::traffic.written += bytes;
  return reinterpret_cast<uint8_t*>(address);
}

// Calls f(lane, memory) for each lane that executes.
template <class F>
void for_each_place(Warp& warp, const Operand& at, uint32_t bytes, bool is_global,
                    Operation operation, F f) {
  const Lanes<uint64_t> places = place(warp, at, is_global);
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    if (warp.executing() & bit(lane))
      f(lane, is_global ? global(warp, lane, places[lane], bytes, operation)
                        : warp.block().shared(warp, lane, places[lane], bytes));
}

template <bool is_global>
void load(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand& at = in.next();
  in.end();
  const uint32_t bytes = bytes_of(of);
  for_each_place(warp, at, bytes, is_global, Operation::kLoad,
                 [&](uint32_t lane, const uint8_t* memory) {
                   uint32_t words[4] = {};
                   std::memcpy(words, memory, bytes);
                   if (of.has(kS8)) words[0] = static_cast<uint32_t>(int8_t(words[0]));
                   if (of.has(kS16)) words[0] = static_cast<uint32_t>(int16_t(words[0]));
                   for (uint32_t i = 0; i < std::max(bytes / 4, 1u); ++i)
                     warp.set_after(to, i, lane, words[i]);
                 });
}

template <bool is_global>
void store(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& at = in.next();
  const Operand& from = in.next();
  in.end();
  if (from.kind != Kind::kRegister) warp.fail("a register was expected");
  const uint32_t bytes = bytes_of(of);
  Lanes<uint32_t> values[4];
  for (uint32_t i = 0; i < std::max(bytes / 4, 1u); ++i) values[i] = warp.register_after(from, i);
  for_each_place(warp, at, bytes, is_global, Operation::kStore,
                 [&](uint32_t lane, uint8_t* memory) {
                   const uint32_t words[4] = {values[0][lane], values[1][lane], values[2][lane],
                                              values[3][lane]};
                   std::memcpy(memory, words, bytes);
                 });
}

template <class T, class F>
void update(Warp& warp, const Operand& at, Operation operation, F f) {
  for_each_place(warp, at, sizeof(T), true, operation, [&](uint32_t lane, uint8_t* memory) {
    T value;
    std::memcpy(&value, memory, sizeof value);
    value = f(value, lane);
    std::memcpy(memory, &value, sizeof value);
  });
}

void redg_add_64(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& at = in.next();
  const Lanes<uint64_t> value = warp.wide(in.next());
  in.end();
  update<uint64_t>(warp, at, Operation::kAtomicAdd,
                   [&](uint64_t x, uint32_t lane) { return x + value[lane]; });
}

void redg_max(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& at = in.next();
  const Lanes<uint32_t> value = in.word();
  in.end();
  update<uint32_t>(warp, at, Operation::kAtomicMax,
                   [&](uint32_t x, uint32_t lane) { return std::max(x, value[lane]); });
}

// ATOMS.CAST d, [at], expected, wanted: d says, as a number or a predicate, whether it has been
// changed.
void compare_and_swap(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand& at = in.next();
  const Lanes<uint64_t> expected = warp.wide(in.next()), wanted = warp.wide(in.next());
  in.end();
  Mask changed = 0;
  for_each_place(warp, at, 8, false, Operation::kStore, [&](uint32_t lane, uint8_t* memory) {
    uint64_t value;
    std::memcpy(&value, memory, sizeof value);
    if (value != expected[lane]) return;
    std::memcpy(memory, &wanted[lane], sizeof value);
    changed |= bit(lane);
  });
  if (to.is_predicate()) return warp.set_predicate(to, changed);
  Lanes<uint64_t> number{};
  for (uint32_t lane = 0; lane < kLanes; ++lane) number[lane] = (changed & bit(lane)) != 0;
  warp.set(to, number);
}

void load_constant(Warp& warp, const Instruction& of) {
  Arguments in(warp, of);
  const Operand& to = in.next();
  const Operand& from = in.next();
  in.end();
  if (from.kind != Kind::kConstant) warp.fail("a constant was expected");
  const uint32_t bytes = bytes_of(of);
  const Lanes<uint32_t> base = warp.word({.kind = Kind::kRegister, .index = from.base});
  const Lanes<uint32_t> uniform = warp.word({.kind = Kind::kUniform, .index = from.uniform_base});
  const auto offset = static_cast<uint32_t>(from.value);
  for (uint32_t at = 0; at < bytes; at += 8) {
    Lanes<uint64_t> values{};
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      if (!(warp.executing() & bit(lane))) continue;
      const uint32_t begin = base[lane] + uniform[lane] + offset;
      if (begin % bytes != 0) warp.fail(lane, "a misaligned constant");
      values[lane] = warp.constant(from.index, begin + at, std::min(bytes, 8u));
    }
    Operand part = to;
    if (to.index != kZeroRegister) part.index += at / 4;
    if (bytes >= 8)
      warp.set(part, values);
    else
      warp.set(part, map([](uint64_t x) { return static_cast<uint32_t>(x); }, values));
  }
}

}  // namespace

std::span<const Rule> memory_rules() {
  static constexpr Modifiers kGlobal{kEF, kU8, kS8, kU16, kS16, k64, k128, kSYS, kGPU, kSTRONG};
  static constexpr Modifiers kShared{kU8, kS8, kU16, kS16, k64, k128, kU};
  static constexpr Rule kRules[] = {
      {"LDG.E", kGlobal, load<true>},
      {"STG.E", kGlobal, store<true>},
      // Of any address, where kernels have no pointer to shared memory.
      {"LD.E", kGlobal, load<true>},
      {"ST.E", kGlobal, store<true>},
      {"LDS", kShared, load<false>},
      {"STS", kShared, store<false>},
      {"RED.E.ADD.64", {kSTRONG, kGPU}, redg_add_64},
      {"RED.E.MAX", {kSTRONG, kGPU}, redg_max},
      {"REDG.E.ADD.64", {kSTRONG, kGPU}, redg_add_64},
      {"REDG.E.MAX", {kSTRONG, kGPU}, redg_max},
      {"ATOMS.CAST.SPIN.64", {}, compare_and_swap},
      {"LDC", {kU8, kU16, k64}, load_constant},
      {"LDCU", {kU8, kU16, k64, k128}, load_constant},
  };
  return kRules;
}

}  // namespace terse::machine
