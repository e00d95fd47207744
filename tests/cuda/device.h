// Streams, memory and graphs as a CUDA program has them. All throw what goes wrong.
#pragma once

#include <cuda_runtime_api.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace terse::test {

inline void must(cudaError_t result) {
  if (result != cudaSuccess) throw std::runtime_error(cudaGetErrorName(result));
}

class DeviceStream {
 public:
  DeviceStream() { must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  ~DeviceStream() { cudaStreamDestroy(stream_); }
  DeviceStream(const DeviceStream&) = delete;
  DeviceStream& operator=(const DeviceStream&) = delete;
  cudaStream_t get() const { return stream_; }
  void synchronize() const { must(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

class DeviceEvent {
 public:
  DeviceEvent() { must(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming)); }
  ~DeviceEvent() { cudaEventDestroy(event_); }
  DeviceEvent(const DeviceEvent&) = delete;
  DeviceEvent& operator=(const DeviceEvent&) = delete;
  cudaEvent_t get() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t bytes) : bytes_(bytes) { must(cudaMalloc(&memory_, bytes)); }
  ~DeviceMemory() { cudaFree(memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* get() const { return memory_; }

  void upload(const std::vector<char>& bytes, cudaStream_t stream) {
    must(cudaMemcpyAsync(memory_, bytes.data(), bytes_, cudaMemcpyHostToDevice, stream));
  }
  std::vector<char> download(cudaStream_t stream) const {
    std::vector<char> bytes(bytes_);
    must(cudaMemcpyAsync(bytes.data(), memory_, bytes_, cudaMemcpyDeviceToHost, stream));
    must(cudaStreamSynchronize(stream));
    return bytes;
  }

 private:
  void* memory_ = nullptr;
  size_t bytes_;
};

// What `enqueue` enqueues on the stream, as a graph.
class RecordedGraph {
 public:
  template <class Enqueue>
  RecordedGraph(cudaStream_t stream, const Enqueue& enqueue,
                cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    must(cudaStreamBeginCapture(stream, mode));
    try {
      enqueue();
    } catch (...) {
      cudaStreamEndCapture(stream, &graph_);
      destroy();
      throw;
    }
    must(cudaStreamEndCapture(stream, &graph_));
    must(cudaGraphInstantiate(&executable_, graph_, 0));
  }
  ~RecordedGraph() { destroy(); }
  RecordedGraph(const RecordedGraph&) = delete;
  RecordedGraph& operator=(const RecordedGraph&) = delete;
  void launch(cudaStream_t stream) const { must(cudaGraphLaunch(executable_, stream)); }

 private:
  void destroy() {
    if (executable_ != nullptr) cudaGraphExecDestroy(executable_);
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }

  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace terse::test
