// Streams of hostnccl.
#pragma once

#include <hostnccl.h>
#include <nccl.h>

#include <chrono>
#include <stdexcept>
#include <thread>
#include <vector>

namespace terse::test {

class HostStream {
 public:
  explicit HostStream(bool null = false) {
    if (!null && hostncclStreamCreate(&stream_) != ncclSuccess)
      throw std::runtime_error(ncclGetLastError(nullptr));
  }
  ~HostStream() {
    if (stream_ != nullptr) hostncclStreamDestroy(stream_);
  }
  HostStream(const HostStream&) = delete;
  HostStream& operator=(const HostStream&) = delete;
  cudaStream_t get() const { return stream_; }
  ncclResult_t synchronize() const { return hostncclStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

// What a stream does: after a while, it copies. It must last until that is done.
template <class T>
struct SlowCopy {
  const std::vector<T>& from;
  std::vector<T>& to;
  std::chrono::milliseconds after{0};

  ncclResult_t on(cudaStream_t stream) {
    const auto run = [](void* self) {
      const auto* const copy = static_cast<SlowCopy*>(self);
      std::this_thread::sleep_for(copy->after);
      copy->to = copy->from;
    };
    return hostncclLaunchHostFunc(stream, run, this);
  }
};

}  // namespace terse::test
