#include "assemble.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <sstream>

#include "simt/fault.h"
#include "simt/global_memory.h"

namespace terse::machine {
namespace {

// Stores a register where its thread's word is.
std::vector<std::string> store(const std::string& reg) {
  return {"S2R R250, SR_TID.X", "LDC.64 R248, c[0x0][0x210]", "IMAD.WIDE.U32 R248, R250, 0x4, R248",
          "STG.E desc[UR4][R248.64], " + reg, "EXIT"};
}

std::vector<uint32_t> result_of(std::vector<std::string> lines, const std::string& reg,
                                uint64_t seed) {
  for (const std::string& line : store(reg)) lines.push_back(line);
  return run_on(assemble(lines, 1024), kLanes, {.seed = seed});
}

}  // namespace

Program assemble(const std::vector<std::string>& lines, uint32_t shared_bytes) {
  std::string listing =
      "\t.target\tsm_90\n\t.section\t.nv.info.kernel,\"\"\n"
      "//----- nvinfo : EIATTR_PARAM_CBANK\n/*00*/ .short 0x0210\n/*02*/ .short 0x0008\n";
  listing += fmt::format("\t.section\t.nv.shared.kernel,\"\"\n\t.zero\t{}\n", shared_bytes);
  listing += "\t.section\t.text.kernel,\"\"\n.size kernel,(.L_end - kernel)\nkernel:\n";
  uint32_t address = 0;
  for (const std::string& line : lines) {
    if (line.ends_with(':')) {
      listing += line + "\n";
      continue;
    }
    listing += fmt::format("        /*{:04x}*/    {} ;\n", address, line);
    address += 16;
  }
  listing += ".L_end:\n";
  std::istringstream stream(listing);
  return read_program(stream);
}

std::vector<uint32_t> run_on(const Program& program, size_t words, const simt::Launch& launch) {
  std::vector<uint32_t> memory(words);
  const simt::Memory allowed(memory.data(), 4 * words, simt::Access::kReadWrite, "memory");
  const uint32_t* const parameter = memory.data();
  run(program, {reinterpret_cast<const uint8_t*>(&parameter), sizeof parameter}, launch);
  return memory;
}

std::vector<uint32_t> result(std::vector<std::string> lines, uint64_t seed) {
  return result_of(std::move(lines), "R0", seed);
}

uint32_t same_result(std::vector<std::string> lines) {
  const auto lanes = result(std::move(lines));
  for (const uint32_t value : lanes) EXPECT_EQ(value, lanes[0]);
  return lanes[0];
}

uint64_t wide_result(const std::vector<std::string>& lines) {
  return result_of(lines, "R0", 1)[0] | uint64_t{result_of(lines, "R1", 1)[0]} << 32;
}

std::string error_of(const std::vector<std::string>& lines) {
  try {
    result(lines);
  } catch (const simt::Fault& e) {
    return e.what();
  } catch (const std::invalid_argument& e) {
    return e.what();
  }
  return "";
}

}  // namespace terse::machine
