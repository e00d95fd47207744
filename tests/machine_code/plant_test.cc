// Mistakes planted in the machine code: what a compiler could get wrong is seen by the bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "cases.h"
#include "kernel_listings.h"
#include "machine_code/warp.h"
#include "machine_kernels.h"
#include "run_case.h"

namespace terse::kernels {
namespace {

using codec::Bytes;
using codec::Dtype;
using codec::Random;
using machine::Execute;
using machine::Instruction;
using machine::Kind;
using machine::Modifier;
using machine::Operand;
using machine::Program;
using machine::Warp;

// A mistake: changes the instruction at the place, or returns false if it does not fit there.
using Mistake = bool (*)(const Program& program, size_t at, Instruction& instruction);

bool drop(const Program&, size_t, Instruction& instruction) {
  // Without one of these the program does the same, perhaps in another order.
  for (const char* harmless : {"NOP", "BSSY", "BSYNC", "WARPSYNC", "EXIT", "BRA", "YIELD"})
    if (instruction.text.find(harmless) != std::string::npos) return false;
  instruction.execute = [](Warp&, const Instruction&) {};
  return true;
}

bool drop_barrier(const Program&, size_t, Instruction& instruction) {
  if (instruction.text.find("BAR.SYNC") == std::string::npos) return false;
  instruction.execute = [](Warp&, const Instruction&) {};
  return true;
}

bool change_immediate(const Program&, size_t, Instruction& instruction) {
  for (Operand& operand : instruction.operands) {
    if (operand.kind == Kind::kReal && operand.real != 0) {
      operand.real *= 1.0000002384185791;
      return true;
    }
    if (operand.kind == Kind::kInteger) {
      operand.value ^= 1;
      return true;
    }
  }
  return false;
}

bool is(const Instruction& instruction, const char* name) {
  return instruction.text.find(name) != std::string::npos;
}

bool computes(const Instruction& instruction) {
  return is(instruction, "FADD") || is(instruction, "FMUL") || is(instruction, "FFMA");
}

bool round_otherwise(const Program&, size_t, Instruction& instruction) {
  if (!computes(instruction)) return false;
  if (instruction.has(Modifier::kRM)) {
    instruction.modifiers = {};
  } else {
    instruction.modifiers.add(Modifier::kRZ);
  }
  return true;
}

bool flush(const Program&, size_t, Instruction& instruction) {
  if (!computes(instruction) || instruction.has(Modifier::kFTZ)) return false;
  instruction.modifiers.add(Modifier::kFTZ);
  return true;
}

bool same_register(const Operand& a, const Operand& b) {
  return a.kind == b.kind && a.index == b.index && !a.absolute && !b.absolute;
}

// A sum whose first operand is the product just before it becomes one operation.
bool fuse(const Program& program, size_t at, Instruction& sum) {
  if (!is(sum, "FADD ") || sum.guard) return false;
  for (size_t back = 1; back < 12 && back <= at; ++back) {
    const Instruction& product = program.instructions[at - back];
    if (is(product, "BRA") || is(product, "BSYNC") || product.operands.empty()) return false;
    const Operand& to = product.operands[0];
    if (!is(product, "FMUL ") || product.guard || !same_register(to, sum.operands[1])) {
      if (same_register(to, sum.operands[1])) return false;
      continue;
    }
    for (size_t i = at - back + 1; i < at; ++i)
      for (const Operand& factor : product.operands)
        if (!program.instructions[i].operands.empty() &&
            same_register(program.instructions[i].operands[0], factor))
          return false;
    if (sum.operands[1].negated) return false;
    Instruction fused = machine::parse_instruction("FFMA R0, R1, R2, R3");
    fused.operands = {sum.operands[0], product.operands[1], product.operands[2], sum.operands[2]};
    fused.address = sum.address;
    sum = fused;
    return true;
  }
  return false;
}

struct Kernel {
  codec::Spec spec;
  Dtype raw;
  bool packed;

  std::string name() const { return kernel_name({spec, raw, packed, false}); }
};

// Cases whose bytes are compared: numbers of every kind, whole tiles and short ends.
class Trials {
 public:
  explicit Trials(const Kernel& kernel) {
    Random random(5);
    const size_t counts[] = {1024 + 40, 77};
    for (int i = 0; i < 100; ++i) {
      Case c = conversion(kernel.spec, kernel.raw, kernel.packed, counts, random);
      for (Work& w : c.works) {
        for (size_t more = random.below(4) * random.below(3); more > 0; --more)
          w.inputs.push_back(some_input(c, w.count, random.below(3) != 0, random));
        if (random.below(2)) w.factor = 0.3f;
        if (random.below(3) == 0) w.offset = 1 + random.below(15);
        w.stream.origin = 32 * random.below(1000);
      }
      if (random.below(3) == 0) c.premultiply = 0.7f;
      c.read_late = random.below(3) == 0;
      cases_.push_back(c);
      expected_.push_back(on_host(c));
    }
  }

  // Whether all of them give the host's bytes.
  bool pass() const {
    for (size_t i = 0; i < cases_.size(); ++i) {
      Random random(i);
      try {
        if (on_kernels(cases_[i], random) != expected_[i]) return false;
      } catch (const std::exception&) {
        return false;
      }
    }
    return true;
  }

 private:
  std::vector<Case> cases_;
  std::vector<std::vector<Bytes>> expected_;
};

struct Outcome {
  int count = 0;  // of mistakes
  std::vector<std::string> unnoticed = {};
};

// Has a launch end soon, as one that never ends.
class ShortLaunches {
 public:
  ShortLaunches() { issue_limit = 100'000; }
  ~ShortLaunches() { issue_limit = before_; }
  ShortLaunches(const ShortLaunches&) = delete;
  ShortLaunches& operator=(const ShortLaunches&) = delete;

 private:
  const uint64_t before_ = issue_limit;
};

// One mistake after another, at those of the instructions that the trials execute.
Outcome plant(const Kernel& kernel, Mistake mistake, size_t stride) {
  Program& program = machine::kernel(kernel.name());
  const Trials trials(kernel);
  const ShortLaunches limit;
  for (const Instruction& instruction : program.instructions) instruction.times_executed = 0;
  EXPECT_TRUE(trials.pass());
  Outcome outcome;
  size_t next = 0;
  for (size_t at = 0; at < program.instructions.size(); ++at) {
    Instruction& instruction = program.instructions[at];
    if (instruction.times_executed == 0) continue;
    const Instruction before = instruction;
    if (mistake(program, at, instruction) && next++ % stride == 0) {
      ++outcome.count;
      if (trials.pass()) outcome.unnoticed.push_back(before.text);
    }
    instruction = before;
  }
  return outcome;
}

struct Row {
  const char* name;
  Mistake mistake;
  Kernel kernel;
  size_t stride;       // every n-th place that fits
  double least_share;  // of the mistakes that must be noticed: some change nothing that is used
};

const Kernel kEncode{codec::make_spec(codec::kIntegerKinds[0], 8, 128), Dtype::kFloat32, true};
const Kernel kDecode{codec::make_spec(codec::kIntegerKinds[2], 8, 128), Dtype::kFloat32, false};
// Its levels are in shared memory.
const Kernel kByLevels{
    {codec::Learned::kDescriptor.id, codec::Rounding::kNearest, 4, 128}, Dtype::kFloat32, true};

const Row kRows[] = {{"dropped", drop, kEncode, 20, 0.6},
                     {"immediate", change_immediate, kEncode, 9, 0.5},
                     {"rounding", round_otherwise, kEncode, 8, 0.4},
                     {"flushed", flush, kDecode, 8, 0.25},
                     {"fused", fuse, kEncode, 1, 1},
                     {"barrier", drop_barrier, kByLevels, 1, 1}};

class Plants : public testing::TestWithParam<Row> {};

TEST_P(Plants, AreNoticed) {
  const Row& row = GetParam();
  if (!machine::has_kernel(row.kernel.name())) GTEST_SKIP() << "no " << row.kernel.name();
  const Outcome outcome = plant(row.kernel, row.mistake, row.stride);
  ASSERT_GT(outcome.count, 0);
  const double noticed = 1 - static_cast<double>(outcome.unnoticed.size()) / outcome.count;
  EXPECT_GE(noticed, row.least_share)
      << "of " << outcome.count << " unnoticed: " << testing::PrintToString(outcome.unnoticed);
}

INSTANTIATE_TEST_SUITE_P(, Plants, testing::ValuesIn(kRows),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace terse::kernels
