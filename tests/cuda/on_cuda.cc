// Where this is linked in, the engine works with the NCCL that looks like one for GPUs, and with
// the CUDA module on the fake runtime, unless the environment says otherwise.
#include <cstdlib>

namespace {

[[maybe_unused]] const bool set = [] {
  setenv("TERSE_NCCL", TERSE_NCCL_GPU, 0);
  setenv("TERSE_CUDA_MODULE", TERSE_CUDA_FAKE, 0);
  return true;
}();

}  // namespace
