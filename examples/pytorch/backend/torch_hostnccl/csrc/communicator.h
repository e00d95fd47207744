// A communicator of NCCL's with the stream that its calls run on.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace torch_hostnccl {

class Communicator {
 public:
  // All ranks call it together; it returns when they have met.
  Communicator(const ncclUniqueId& id, int rank, int size, const std::string& name);
  // Owns a communicator that exists.
  Communicator(ncclComm_t comm, int rank);
  ~Communicator();  // aborts, unless closed
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  // A part of it, by colour; null for a rank without one. All its ranks call it together.
  std::shared_ptr<Communicator> split(int color, int key, const std::string& name);

  ncclComm_t handle() const;  // throws after an abort, with its reason
  cudaStream_t stream() const { return stream_; }

  // Ends whatever is under way with a failure, on the first call. Any thread.
  void abort(const std::string& reason);
  std::string reason() const;  // why it was aborted; empty: it was not
  // Leaves in good order: first waits for what is queued, then gives everything back.
  void finalize();
  void close();

 private:
  ncclComm_t take(const std::string& reason);  // null: somebody has taken it
  void end_stream();

  const int rank_;
  std::atomic<ncclComm_t> comm_{nullptr};
  cudaStream_t stream_ = nullptr;
  mutable std::mutex mutex_;
  std::string reason_;
};

}  // namespace torch_hostnccl
