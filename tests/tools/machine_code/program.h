// A kernel as nvdisasm lists it: its instructions, its constants, and where its parameters lie.
#pragma once

#include <cstdint>
#include <istream>
#include <map>
#include <string>
#include <vector>

#include "instruction.h"

namespace terse::machine {

struct Program {
  std::string name;      // mangled
  int architecture = 0;  // 90
  std::vector<Instruction> instructions = {};
  uint32_t parameter_offset = 0, parameter_bytes = 0;  // in bank 0
  uint32_t shared_bytes = 0;
  std::map<uint32_t, std::vector<uint8_t>> constants = {};  // banks other than 0
};

// Reads the listing of one kernel (disassemble.py): its target, and of its sections the text, the
// constants, the size of shared memory and the place of parameters. Throws std::invalid_argument,
// which names the line, for an instruction that is not known or a section that is cut short.
Program read_program(std::istream& listing);

}  // namespace terse::machine
