// A rank as a process of its own, on whichever NCCL there is: one GPU may serve several.
#pragma once

#include <nccl.h>
#include <terse/terse.h>

#include <memory>
#include <string>
#include <vector>

#include "device.h"
#include "rendezvous.h"
#include "scheme_handle.h"

namespace terse::gpu {

class Rank {
 public:
  // Finds NCCL (which may start the program again), meets the other ranks as the launcher's
  // variables say, takes a device and makes a communicator. Throws std::runtime_error.
  Rank(int argc, char** argv);
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rendezvous_->process(); }
  int ranks() const { return rendezvous_->processes(); }
  ncclComm_t comm() const { return comm_; }
  cudaStream_t stream() const { return stream_; }
  const perf::Device& device() const { return device_; }
  bool on_gpu() const { return device_.count() > 0; }

  // Everybody's blob, by rank. Collective.
  std::vector<std::string> gather(const std::string& blob) const;
  // Whether all ranks give the same blob. Collective.
  bool agree(const std::string& blob) const;
  // The sum of everybody's number. Collective.
  int total(int number) const;

  // Throws std::runtime_error with terse's or NCCL's own message.
  static void check_terse(ncclResult_t result, const std::string& what);
  static void check_nccl(ncclResult_t result, const std::string& what);

 private:
  std::unique_ptr<perf::Rendezvous> rendezvous_;
  const perf::Device& device_;
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

using test::SchemeHandle;

// Runs `body` and returns its result as an exit code. When it throws, or a destructor does, the
// message is printed and the process ends with 1, at once: an exception that nobody catches leaves
// the stack as it is. Destructors would wait for kernels that wait for the other ranks.
int run_rank(const char* program, int (*body)(int argc, char** argv), int argc, char** argv);

}  // namespace terse::gpu
