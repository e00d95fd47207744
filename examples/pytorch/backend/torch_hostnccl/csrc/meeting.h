// How the ranks of a communicator find each other: by a store of torch's.
#pragma once

#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "communicator.h"
#include "work.h"

namespace torch_hostnccl {

// All `size` ranks call it with the same key, in any order and at any time within `timeout`.
// Throws c10::DistBackendError, which names those who did not come.
std::shared_ptr<Communicator> meet(c10d::Store& store, const std::string& key, int rank, int size,
                                   const std::string& name, Milliseconds timeout);

}  // namespace torch_hostnccl
