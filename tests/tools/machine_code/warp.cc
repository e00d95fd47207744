#include "warp.h"

#include <fmt/format.h>

#include <bit>
#include <cstring>

#include "block.h"
#include "simt/fault.h"

namespace terse::machine {
namespace {

// First architecture of which both sides of a branch share uniform registers (step()).
constexpr int kSharesUniform = 100;

uint32_t real_bits(const Operand& operand) {
  return std::bit_cast<uint32_t>(static_cast<float>(operand.real));
}

template <class F>
void for_each_lane(Mask mask, F f) {
  for (; mask != 0; mask &= mask - 1) f(static_cast<uint32_t>(std::countr_zero(mask)));
}

}  // namespace

Warp::Warp(Block& block, uint32_t number, uint32_t threads)
    : block_(block), number_(number), alive_(threads == kLanes ? kAllLanes : bit(threads) - 1) {
  // Registers hold random values at first.
  for (Lanes<uint32_t>& lanes : registers_)
    for (uint32_t& value : lanes) value = static_cast<uint32_t>(block.random().next());
  for (uint32_t& value : uniform_) value = static_cast<uint32_t>(block.random().next());
  for (Mask& mask : predicates_) mask = static_cast<Mask>(block.random().next());
  for (Mask& mask : uniform_predicates_) mask = block.random().below(2) ? kAllLanes : 0;
  registers_[kZeroRegister].fill(0);
  uniform_[kZeroRegister] = 0;
  predicates_[kTruePredicate] = uniform_predicates_[kTruePredicate] = kAllLanes;
}

void Warp::fail(uint32_t lane, const std::string& what) const {
  throw simt::Fault(block_.index(), thread(lane),
                    fmt::format("{} at {:#x} {}", what, instruction_->address, instruction_->text));
}

void Warp::fail(const std::string& what) const { fail(first_lane(), what); }

uint32_t Warp::first_lane() const {
  const Mask lanes = executing_ != 0 ? executing_ : fragment_ != 0 ? fragment_ : 1;
  return static_cast<uint32_t>(std::countr_zero(lanes));
}

uint64_t Warp::constant(uint32_t bank, uint64_t offset, uint32_t bytes) const {
  const auto memory = block_.bank(bank);
  if (offset % bytes != 0 || offset + bytes > memory.size())
    fail(fmt::format("constant of {} bytes at {:#x} of bank {}, which has {}", bytes, offset, bank,
                     memory.size()));
  uint64_t value = 0;
  std::memcpy(&value, &memory[offset], bytes);
  return value;
}

// A constant at an address that all lanes share.
uint64_t Warp::constant_at(const Operand& operand, uint32_t bytes) const {
  if (operand.base != kZeroRegister) fail("a constant by a register of each lane");
  const uint32_t base = uniform_[operand.uniform_base];
  return constant(operand.index, base + static_cast<uint64_t>(operand.value), bytes);
}

void Warp::require_marks(const Operand& operand, Marks known) const {
  const bool unknown = (operand.negated && !known.negated) ||
                       (operand.complemented && !known.complemented) ||
                       (operand.absolute && !known.absolute) || operand.half != Half::kNone;
  if (unknown) fail("an operand has a mark that is not known here");
}

uint32_t Warp::pair_of(const Operand& operand) const {
  if (operand.index + 1 >= kZeroRegister) fail("a pair of registers beyond the last one");
  return operand.index + 1;
}

Lanes<uint32_t> Warp::bits(const Operand& operand) const {
  switch (operand.kind) {
    case Kind::kRegister:
      return registers_[operand.index];
    case Kind::kUniform:
      return all_lanes(uniform_[operand.index]);
    case Kind::kInteger:
      return all_lanes(static_cast<uint32_t>(operand.value));
    case Kind::kReal:
      return all_lanes(real_bits(operand));
    case Kind::kConstant:
      return all_lanes(static_cast<uint32_t>(constant_at(operand, 4)));
    default:
      fail("an operand of another kind was expected");
  }
}

Lanes<uint32_t> Warp::word(const Operand& operand) const {
  require_marks(operand, {.negated = true, .complemented = true});
  if (operand.kind == Kind::kReal) fail("an integer was expected");
  Lanes<uint32_t> values = bits(operand);
  if (operand.complemented)
    for (uint32_t& x : values) x = ~x;
  if (operand.negated)
    for (uint32_t& x : values) x = -x;
  return values;
}

Lanes<uint32_t> Warp::unmarked(const Operand& operand) const {
  require_marks(operand, {});
  return word(operand);
}

Lanes<uint64_t> Warp::addend(const Operand& operand) const {
  require_marks(operand, {.negated = true, .complemented = true});
  if (operand.kind == Kind::kReal) fail("an integer was expected");
  const Lanes<uint32_t> values = bits(operand);
  return map(
      [&](uint32_t x) {
        const uint64_t plain = operand.complemented || operand.negated ? ~x : x;
        return plain + (operand.negated ? 1 : 0);
      },
      values);
}

Lanes<uint64_t> Warp::wide(const Operand& operand) const {
  require_marks(operand, {.negated = true, .complemented = true});
  Lanes<uint64_t> values;
  switch (operand.kind) {
    case Kind::kRegister:
      if (operand.index == kZeroRegister) return all_lanes(uint64_t{0});
      values = map([](uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; },
                   registers_[operand.index], registers_[pair_of(operand)]);
      break;
    case Kind::kUniform:
      if (operand.index == kZeroRegister) return all_lanes(uint64_t{0});
      values = all_lanes(uniform_[operand.index] | uint64_t{uniform_[pair_of(operand)]} << 32);
      break;
    case Kind::kInteger:
      return all_lanes(static_cast<uint64_t>(operand.value));
    case Kind::kConstant:
      values = all_lanes(constant_at(operand, 8));
      break;
    default:
      fail("an operand of another kind was expected");
  }
  if (operand.complemented)
    for (uint64_t& x : values) x = ~x;
  if (operand.negated)
    for (uint64_t& x : values) x = -x;
  return values;
}

Lanes<float> Warp::real(const Operand& operand) const {
  require_marks(operand, {.negated = true, .absolute = true});
  const Lanes<uint32_t> values = bits(operand);
  const uint32_t keep = operand.absolute ? 0x7fffffffu : 0xffffffffu;
  const uint32_t flip = operand.negated ? 0x80000000u : 0;
  return map([=](uint32_t x) { return std::bit_cast<float>((x & keep) ^ flip); }, values);
}

Lanes<double> Warp::real64(const Operand& operand) const {
  require_marks(operand, {.negated = true, .absolute = true});
  if (operand.kind == Kind::kReal) return all_lanes(operand.real);
  Operand plain = operand;
  plain.negated = plain.absolute = false;
  const uint64_t keep = operand.absolute ? ~0ull >> 1 : ~0ull;
  const uint64_t flip = operand.negated ? 1ull << 63 : 0;
  return map([=](uint64_t x) { return std::bit_cast<double>((x & keep) ^ flip); }, wide(plain));
}

Mask Warp::predicate(const Operand& operand) const {
  if (!operand.is_predicate()) fail("a predicate was expected");
  const Mask values = operand.kind == Kind::kPredicate ? predicates_[operand.index]
                                                       : uniform_predicates_[operand.index];
  return operand.complemented ? ~values : values;
}

Lanes<uint32_t> Warp::register_after(const Operand& operand, uint32_t distance) const {
  if (operand.index == kZeroRegister) return all_lanes(0u);
  if (operand.index + distance >= kZeroRegister) fail("registers beyond the last one");
  return registers_[operand.index + distance];
}

void Warp::set_after(const Operand& operand, uint32_t distance, uint32_t lane, uint32_t value) {
  if (operand.kind != Kind::kRegister) fail("a register was expected");
  if (operand.index == kZeroRegister) return;
  if (operand.index + distance >= kZeroRegister) fail("registers beyond the last one");
  registers_[operand.index + distance][lane] = value;
}

void Warp::set(const Operand& operand, const Lanes<uint32_t>& values) {
  if (operand.index == kZeroRegister) return;
  if (operand.kind == Kind::kUniform) {
    if (executing_ == 0) return;
    const uint32_t value = values[first_lane()];
    if ((executing_ & where([=](uint32_t x) { return x != value; }, values)) != 0)
      fail("a uniform register of several values");
    uniform_[operand.index] = value;
    holds_uniform_ = true;
    return;
  }
  if (operand.kind != Kind::kRegister) fail("a register was expected");
  Lanes<uint32_t>& lanes = registers_[operand.index];
  for (uint32_t lane = 0; lane < kLanes; ++lane)
    if (executing_ & bit(lane)) lanes[lane] = values[lane];
}

void Warp::set(const Operand& operand, const Lanes<uint64_t>& values) {
  if (operand.index == kZeroRegister) return;
  Operand high = operand;
  high.index = pair_of(operand);
  set(operand, map([](uint64_t x) { return static_cast<uint32_t>(x); }, values));
  set(high, map([](uint64_t x) { return static_cast<uint32_t>(x >> 32); }, values));
}

void Warp::set(const Operand& operand, const Lanes<float>& values) {
  set(operand, map([](float x) { return std::bit_cast<uint32_t>(x); }, values));
}

void Warp::set(const Operand& operand, const Lanes<double>& values) {
  set(operand, map([](double x) { return std::bit_cast<uint64_t>(x); }, values));
}

void Warp::set_predicate(const Operand& operand, Mask values) {
  if (!operand.is_predicate() || operand.complemented) fail("a predicate was expected");
  if (operand.index == kTruePredicate) return;
  if (operand.kind == Kind::kUniformPredicate) {
    if (executing_ == 0) return;
    if ((values & executing_) != 0 && (~values & executing_) != 0)
      fail("a uniform predicate of several values");
    uniform_predicates_[operand.index] = values & executing_ ? kAllLanes : 0;
    holds_uniform_ = true;
    return;
  }
  Mask& mask = predicates_[operand.index];
  mask = (mask & ~executing_) | (values & executing_);
}

void Warp::jump(uint32_t address, Mask lanes) { jump(all_lanes(address), lanes); }

void Warp::jump(const Lanes<uint32_t>& addresses, Mask lanes) {
  const Mask jumping = executing_ & lanes;
  // Lanes that go elsewhere are a fragment of their own, by where they go.
  Mask left = jumping;
  while (left != 0) {
    const uint32_t to = addresses[static_cast<uint32_t>(std::countr_zero(left))];
    const Mask together = left & where([&](uint32_t a) { return a == to; }, addresses);
    if (together != fragment_) ++last_fragment_;
    for_each_lane(together, [&](uint32_t lane) {
      at_[lane] = to;
      if (together != fragment_) fragment_of_[lane] = last_fragment_;
    });
    left &= ~together;
  }
}

void Warp::exit() {
  alive_ &= ~executing_;
  release_regions();
  release_warpsyncs();
}

void Warp::enter_region(uint32_t barrier) {
  for_each_lane(executing_, [&](uint32_t lane) { regions_[barrier][lane] = executing_; });
}

void Warp::drop_from_region(uint32_t barrier) {
  const Mask dropped = executing_;
  for (Mask& lanes : regions_[barrier]) lanes &= ~dropped;
  release_regions();
}

void Warp::clear_region(uint32_t barrier) {
  for_each_lane(executing_, [&](uint32_t lane) { regions_[barrier][lane] = 0; });
}

void Warp::leave_region(uint32_t barrier) {
  for_each_lane(executing_, [&](uint32_t lane) {
    wait_[lane] = Wait::kRegion;
    region_[lane] = barrier;
  });
  release_regions();
}

void Warp::wait_at_warpsync(Mask lanes) {
  for_each_lane(executing_, [&](uint32_t lane) {
    if ((lanes & bit(lane)) == 0) fail(lane, "a warp barrier of others");
    wait_[lane] = Wait::kWarpsync;
    partners_[lane] = lanes;
  });
  release_warpsyncs();
}

void Warp::wait_for_block() {
  for_each_lane(executing_, [&](uint32_t lane) { wait_[lane] = Wait::kBlock; });
  if (by_address(waiting_for_block()).size() > 1) fail("lanes wait at two barriers of the block");
}

std::vector<Mask> Warp::by_address(Mask lanes) const {
  std::vector<Mask> groups;
  while (lanes != 0) {
    const uint32_t address = at_[static_cast<uint32_t>(std::countr_zero(lanes))];
    groups.push_back(lanes & where([=](uint32_t at) { return at == address; }, at_));
    lanes &= ~groups.back();
  }
  return groups;
}

// Lanes at one address are a fragment.
void Warp::resume(Mask lanes) {
  for (const Mask group : by_address(lanes)) {
    ++last_fragment_;
    for_each_lane(group, [&](uint32_t lane) {
      wait_[lane] = Wait::kNothing;
      fragment_of_[lane] = last_fragment_;
    });
  }
}

void Warp::release_regions() {
  for_each_lane(alive_, [&](uint32_t lane) {
    if (wait_[lane] != Wait::kRegion) return;
    const uint32_t barrier = region_[lane];
    const Mask lanes = (regions_[barrier][lane] | bit(lane)) & alive_;
    const Mask waiting = where(
        [&](Wait wait, uint32_t region) { return wait == Wait::kRegion && region == barrier; },
        wait_, region_);
    if ((lanes & ~waiting) == 0) resume(lanes);
  });
}

void Warp::release_warpsyncs() {
  for_each_lane(alive_, [&](uint32_t lane) {
    if (wait_[lane] != Wait::kWarpsync) return;
    const Mask lanes = partners_[lane] & alive_;
    const Mask waiting =
        where([&](Wait wait, uint32_t at) { return wait == Wait::kWarpsync && at == at_[lane]; },
              wait_, at_);
    if ((lanes & ~waiting) == 0) resume(lanes);
  });
}

Mask Warp::ready() const {
  return alive_ & where([](Wait wait) { return wait == Wait::kNothing; }, wait_);
}

bool Warp::can_go_on() const { return ready() != 0; }

Mask Warp::waiting_for_block() const {
  return alive_ & where([](Wait wait) { return wait == Wait::kBlock; }, wait_);
}

void Warp::pass_block_barrier() { resume(waiting_for_block()); }

Mask Warp::some_fragment(bool converges) const {
  const Mask ready = this->ready();
  uint32_t chosen = kLanes;
  if (converges) {
    for_each_lane(ready, [&](uint32_t lane) {
      if (chosen == kLanes || at_[lane] < at_[chosen]) chosen = lane;
    });
    return ready & where([&](uint32_t at) { return at == at_[chosen]; }, at_);
  }
  if (holds_uniform_ && block_.program().architecture >= kSharesUniform) return fragment_;
  auto nth = block_.random().below(static_cast<uint32_t>(std::popcount(ready)));
  for_each_lane(ready, [&](uint32_t lane) {
    if (nth-- == 0) chosen = lane;
  });
  return ready &
         where([&](uint32_t fragment) { return fragment == fragment_of_[chosen]; }, fragment_of_);
}

// Returns true if the fragment is as it was before its last instruction, and at the next one.
bool Warp::goes_on(uint32_t next) const {
  const uint32_t number = fragment_of_[static_cast<uint32_t>(std::countr_zero(fragment_))];
  const Mask now = ready() & where([=](uint32_t of) { return of == number; }, fragment_of_);
  return now == fragment_ &&
         (fragment_ & where([=](uint32_t at) { return at == next; }, at_)) == fragment_;
}

bool Warp::step(bool converges) {
  if (!can_go_on()) return false;
  fragment_ = some_fragment(converges);
  const uint32_t number = at_[static_cast<uint32_t>(std::countr_zero(fragment_))] / 16;
  const auto& instructions = block_.program().instructions;
  if (number >= instructions.size()) fail("there is no instruction after the last one");
  instruction_ = &instructions[number];
  executing_ = fragment_;
  if (instruction_->guard) executing_ &= predicate(*instruction_->guard);
  for_each_lane(fragment_, [&](uint32_t lane) { at_[lane] += 16; });
  instruction_->times_executed += executing_ != 0;
  instruction_->execute(*this, *instruction_);
  if (!goes_on(16 * (number + 1))) holds_uniform_ = false;
  return true;
}

std::string Warp::position() const {
  std::string text;
  for_each_lane(alive_, [&](uint32_t lane) {
    text += fmt::format("{} at {:#x}, ", thread(lane), at_[lane]);
  });
  return text;
}

}  // namespace terse::machine
