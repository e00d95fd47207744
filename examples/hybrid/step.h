// One rank of a training step that is parallel in two ways, in plain NCCL.
#pragma once

#include <nccl.h>

// Steps of rank `rank` of `ranks`, an even number; `id` is common to all. Pairs of ranks share the
// parameters of a layer (tensor parallel), and ranks of the same place in their pairs average
// gradients (data parallel). Prints how far the results are from the truth. Throws
// std::runtime_error where NCCL fails or what must be exact is not.
void run_steps(ncclUniqueId id, int ranks, int rank);
