// Runs a kernel's machine code on the CPU.
#pragma once

#include <cstdint>
#include <span>

#include "program.h"
#include "simt/executor.h"

namespace terse::machine {

// Runs all blocks of the launch, one after another, on memory of the host: what simt::Memory
// allows. `seed` draws the order of blocks, which warp goes on for how long, and which lanes where
// they diverge; with 0 lanes go on together wherever they can. Returns how many instructions warps
// have issued. Throws simt::Fault for what a kernel does wrong, and std::invalid_argument if the
// parameters do not fit the program.
uint64_t run(const Program& program, std::span<const uint8_t> parameters,
             const simt::Launch& launch);

}  // namespace terse::machine
