#include "block.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <utility>

#include "launch.h"
#include "simt/fault.h"

namespace terse::machine {
namespace {

// Where an architecture keeps what a launch says, in bank 0.
struct Abi {
  int architecture;  // and those after it
  uint32_t threads, blocks, stack;
  uint32_t shared_begin;
};

constexpr Abi kAbis[] = {
    {100, 0x360, 0x370, 0x37c, 0x400}, {90, 0x0, 0xc, 0x28, 0x400}, {75, 0x0, 0xc, 0x28, 0x0}};

const Abi& abi_of(int architecture) {
  const auto* const found =
      std::ranges::find_if(kAbis, [&](const Abi& abi) { return architecture >= abi.architecture; });
  if (found == std::end(kAbis))
    throw std::invalid_argument(fmt::format("sm_{} is not known", architecture));
  return *found;
}

// Max instructions of a warp before another one goes on: warps keep step, or one runs far ahead.
constexpr uint32_t kMaxTurns[] = {60, 100'000};

}  // namespace

Block::Block(const Program& program, std::span<const uint8_t> parameters,
             const simt::Launch& launch, uint32_t index)
    : program_(program),
      index_(index),
      max_steps_(launch.max_steps),
      seed_(launch.seed),
      random_(launch.seed * 0x9e3779b97f4a7c15u + index),
      shared_(program.shared_bytes),
      shared_begin_(abi_of(program.architecture).shared_begin) {
  make_bank(parameters, launch);
  for (uint8_t& byte : shared_) byte = static_cast<uint8_t>(random_.next());  // not zeroed
  for (uint32_t first = 0; first < launch.threads; first += kLanes)
    warps_.emplace_back(*this, first / kLanes, std::min(kLanes, launch.threads - first));
}

void Block::make_bank(std::span<const uint8_t> parameters, const simt::Launch& launch) {
  const Abi& abi = abi_of(program_.architecture);
  const uint32_t begin = program_.parameter_offset;
  bank0_.resize(std::max<size_t>(begin + parameters.size(), abi.stack + 4));
  std::ranges::copy(parameters, bank0_.begin() + begin);
  std::memcpy(&bank0_[abi.threads], &launch.threads, 4);
  std::memcpy(&bank0_[abi.blocks], &launch.blocks, 4);
}

std::span<const uint8_t> Block::bank(uint32_t number) const {
  if (number == 0) return bank0_;
  const auto found = program_.constants.find(number);
  if (found == program_.constants.end()) return {};
  return found->second;
}

uint8_t* Block::shared(const Warp& warp, uint32_t lane, uint64_t address, uint32_t bytes) {
  if (address % bytes != 0)
    warp.fail(lane, fmt::format("shared memory at {:#x}, which is misaligned", address));
  if (address < shared_begin_ || address - shared_begin_ + bytes > shared_.size())
    warp.fail(lane, fmt::format("shared memory at {:#x}, which is out of bounds ({} bytes)",
                                address, shared_.size()));
  return &shared_[address - shared_begin_];
}

void Block::release_barrier() {
  bool any = false;
  for (const Warp& warp : warps_) {
    if (warp.waiting_for_block() != warp.alive()) return;
    any = any || warp.waiting_for_block() != 0;
  }
  if (any)
    for (Warp& warp : warps_) warp.pass_block_barrier();
}

uint64_t Block::run() {
  uint64_t issued = 0;
  const bool converges = seed_ == 0 || random_.below(4) != 0;
  const uint32_t max_turn = kMaxTurns[random_.below(2)];
  for (;;) {
    std::vector<Warp*> ready;
    for (Warp& warp : warps_)
      if (warp.can_go_on()) ready.push_back(&warp);
    if (ready.empty()) break;
    Warp& warp = *ready[random_.below(static_cast<uint32_t>(ready.size()))];
    for (uint32_t left = 1 + random_.below(max_turn); left > 0 && warp.step(converges); --left)
      ++issued;
    if (issued > max_steps_) warp.fail("no end");
    release_barrier();
  }
  for (const Warp& warp : warps_)
    if (!warp.finished()) warp.fail("waits for ever: " + warp.position());
  return issued;
}

uint64_t run(const Program& program, std::span<const uint8_t> parameters,
             const simt::Launch& launch) {
  if (parameters.size() != program.parameter_bytes)
    throw std::invalid_argument(
        fmt::format("{} takes {} bytes of parameters, and the headers have {}", program.name,
                    program.parameter_bytes, parameters.size()));
  std::vector<uint32_t> order(launch.blocks);
  std::iota(order.begin(), order.end(), 0);
  simt::internal::Random random(launch.seed);
  for (uint32_t left = launch.blocks; left > 1; --left)
    std::swap(order[left - 1], order[random.below(left)]);
  uint64_t issued = 0;
  for (const uint32_t block : order) issued += Block(program, parameters, launch, block).run();
  return issued;
}

}  // namespace terse::machine
