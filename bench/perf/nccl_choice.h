// Which NCCL a program of this folder runs on. They are linked with hostnccl, or with a stub, and
// find the real one where there is a GPU.
#pragma once

#include <string>
#include <vector>

namespace terse::perf {

// Whether the NCCL in use is hostnccl.
bool nccl_works_on_host();

// Where the program runs on what it was linked with and there is a GPU with its driver, looks for a
// real libnccl.so.2, in the loader's cache and in python3's package nvidia.nccl, and runs the
// program again with it. Returns where there is nothing to do, as after --nccl. LD_LIBRARY_PATH
// needs no looking into: a library found there is in use already.
void use_nccl_of_gpu(const std::vector<std::string>& command_line);

}  // namespace terse::perf
