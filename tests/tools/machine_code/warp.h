// A warp: its registers, and the address at which each lane is.
//
// Lanes that diverge are fragments, each of which goes on by itself, until they meet at a BSYNC, a
// WARPSYNC or the block's barrier.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "instruction.h"
#include "lanes.h"

namespace terse::machine {

class Block;

class Warp {
 public:
  Warp(Block& block, uint32_t number, uint32_t threads);

  // What an instruction reads. All apply the operand's modifiers, except bits(); a modifier that a
  // reader does not know is a fault.
  Lanes<uint32_t> bits(const Operand& operand) const;
  Lanes<uint32_t> word(const Operand& operand) const;
  Lanes<uint32_t> unmarked(const Operand& operand) const;  // without -, ~ or ||
  Lanes<uint64_t> wide(const Operand& operand) const;      // of two registers
  Lanes<uint64_t> addend(const Operand& operand) const;    // -x is 2^32 - x, for carries
  Lanes<float> real(const Operand& operand) const;
  Lanes<double> real64(const Operand& operand) const;
  Mask predicate(const Operand& operand) const;
  uint64_t constant(uint32_t bank, uint64_t offset, uint32_t bytes) const;

  // What it writes, in the lanes that execute it.
  void set(const Operand& operand, const Lanes<uint32_t>& values);
  void set(const Operand& operand, const Lanes<uint64_t>& values);
  void set(const Operand& operand, const Lanes<float>& values);
  void set(const Operand& operand, const Lanes<double>& values);
  void set_predicate(const Operand& operand, Mask values);
  // Register `distance` after the operand's, which is a register.
  Lanes<uint32_t> register_after(const Operand& operand, uint32_t distance) const;
  void set_after(const Operand& operand, uint32_t distance, uint32_t lane, uint32_t value);

  // The lanes that execute the instruction: those of the fragment whose guard is true.
  Mask executing() const { return executing_; }
  Mask fragment() const { return fragment_; }
  // All that have not exited.
  Mask alive() const { return alive_; }
  Block& block() const { return block_; }
  uint32_t thread(uint32_t lane) const { return number_ * kLanes + lane; }

  // Control flow, of the lanes that execute.
  // Moves those of `lanes` that execute.
  void jump(uint32_t address, Mask lanes);
  void jump(const Lanes<uint32_t>& addresses, Mask lanes);
  void exit();
  void enter_region(uint32_t barrier);      // BSSY
  void leave_region(uint32_t barrier);      // BSYNC
  void drop_from_region(uint32_t barrier);  // BREAK
  void clear_region(uint32_t barrier);
  void wait_at_warpsync(Mask lanes);
  void wait_for_block();

  bool finished() const { return alive_ == 0; }
  bool can_go_on() const;
  // Executes one instruction. With `converges`: of the lanes at the lowest address, which is where
  // all meet again. Otherwise: of a fragment that is drawn; from sm_100 on of the last one, from a
  // uniform register that it writes until it jumps, splits or waits: ptxas gives both sides of a
  // branch the same uniform registers there, which only fragments that do not change in between
  // leave right. Returns false if all lanes wait.
  bool step(bool converges);
  Mask waiting_for_block() const;
  void pass_block_barrier();
  std::string position() const;

  // Throws simt::Fault of this lane, with the instruction.
  [[noreturn]] void fail(uint32_t lane, const std::string& what) const;
  [[noreturn]] void fail(const std::string& what) const;

 private:
  enum class Wait : uint8_t { kNothing, kRegion, kWarpsync, kBlock };

  // Marks of an operand that its reader applies.
  struct Marks {
    bool negated = false, complemented = false, absolute = false;
  };
  void require_marks(const Operand& operand, Marks known) const;
  uint64_t constant_at(const Operand& operand, uint32_t bytes) const;
  // The register after the operand's, which has the upper word.
  uint32_t pair_of(const Operand& operand) const;
  Mask ready() const;
  Mask some_fragment(bool converges) const;
  bool goes_on(uint32_t next) const;
  void resume(Mask lanes);
  void release_regions();
  void release_warpsyncs();
  // The lanes by the address at which they are.
  std::vector<Mask> by_address(Mask lanes) const;
  uint32_t first_lane() const;

  Block& block_;
  const uint32_t number_;
  Mask alive_;
  Mask executing_ = 0, fragment_ = 0;
  bool holds_uniform_ = false;  // the last fragment has just written a uniform register
  const Instruction* instruction_ = nullptr;

  Lanes<uint32_t> registers_[256];
  uint32_t uniform_[256];
  Mask predicates_[8];
  Mask uniform_predicates_[8];

  Lanes<uint32_t> at_{};           // the address of each lane's next instruction
  Lanes<uint32_t> fragment_of_{};  // lanes of a number are at one place
  uint32_t last_fragment_ = 0;
  Lanes<Wait> wait_{};
  Lanes<uint32_t> region_{};          // the barrier that a lane waits at
  Lanes<Mask> partners_{};            // the lanes that it waits for
  Lanes<Mask> regions_[kBarriers]{};  // by barrier, the lanes that leave together
};

}  // namespace terse::machine
