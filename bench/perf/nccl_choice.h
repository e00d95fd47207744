// Which NCCL a program of this folder runs on. They are linked with hostnccl, or with a stub, and
// find the real one where there is a GPU.
#ifndef TERSE_BENCH_PERF_NCCL_CHOICE_H_
#define TERSE_BENCH_PERF_NCCL_CHOICE_H_

#include <string>
#include <vector>

namespace terse::perf {

// Whether the NCCL in use is hostnccl.
bool NcclWorksOnHost();

// Where the program runs on what it was linked with and there is a GPU with its driver, looks for a
// real libnccl.so.2, in the loader's cache and in python3's package nvidia.nccl, and runs the
// program again with it. Returns where there is nothing to do, as after --nccl. LD_LIBRARY_PATH
// needs no looking into: a library found there is in use already.
void UseNcclOfGpu(const std::vector<std::string>& command_line);

}  // namespace terse::perf

#endif  // TERSE_BENCH_PERF_NCCL_CHOICE_H_
