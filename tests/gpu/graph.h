// A CUDA graph of what is launched on a stream.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

#include "device_buffer.h"

namespace terse::gpu {

class Graph {
 public:
  Graph(cudaStream_t stream, cudaStreamCaptureMode mode, const std::function<void()>& record)
      : stream_(stream) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream, mode), "cudaStreamBeginCapture");
    try {
      record();
    } catch (...) {
      if (cudaStreamEndCapture(stream, &graph) == cudaSuccess) cudaGraphDestroy(graph);
      cudaGetLastError();
      throw;
    }
    check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    const cudaError_t made = cudaGraphInstantiate(&executable_, graph, 0);
    cudaGraphDestroy(graph);
    check(made, "cudaGraphInstantiate");
  }
  ~Graph() { cudaGraphExecDestroy(executable_); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch() const { check(cudaGraphLaunch(executable_, stream_), "cudaGraphLaunch"); }

 private:
  cudaStream_t stream_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace terse::gpu
