// Small programs for the tests of the interpreter: lines as nvdisasm prints them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "machine_code/lanes.h"
#include "machine_code/launch.h"

namespace terse::machine {

// A kernel of sm_90 that has one parameter, a pointer, at c[0x0][0x210]. A line that ends with a
// colon is a label.
Program assemble(const std::vector<std::string>& lines, uint32_t shared_bytes = 0);

// What the lanes of one warp have in register R0 after the lines, which leave R248 to R251 alone.
std::vector<uint32_t> result(std::vector<std::string> lines, uint64_t seed = 1);
// The same in every lane.
uint32_t same_result(std::vector<std::string> lines);
// R0 and R1 of lane 0.
uint64_t wide_result(const std::vector<std::string>& lines);

// Runs a program on an array of `words` zeros; returns them then.
std::vector<uint32_t> run_on(const Program& program, size_t words, const simt::Launch& launch = {});

// The message of the Fault or of the std::invalid_argument that the lines cause; empty if none.
std::string error_of(const std::vector<std::string>& lines);

}  // namespace terse::machine
