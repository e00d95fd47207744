// hostnccl's streams and events, found at run time: nothing that links the fake runtime may find
// them through it.
#pragma once

#include <cuda_runtime_api.h>
#include <hostnccl.h>

namespace terse::fake {

struct Host {
  decltype(&hostncclStreamCreate) StreamCreate;
  decltype(&hostncclStreamDestroy) StreamDestroy;
  decltype(&hostncclStreamSynchronize) StreamSynchronize;
  decltype(&hostncclStreamQuery) StreamQuery;
  decltype(&hostncclLaunchHostFunc) LaunchHostFunc;
  decltype(&hostncclEventCreate) EventCreate;
  decltype(&hostncclEventDestroy) EventDestroy;
  decltype(&hostncclEventRecord) EventRecord;
  decltype(&hostncclStreamWaitEvent) StreamWaitEvent;
  decltype(&hostncclEventElapsedTime) EventElapsedTime;
};

const Host& host();

inline hostncclEvent_t host_event(cudaEvent_t event) {
  return reinterpret_cast<hostncclEvent_t>(event);
}

// hostnccl's answers as CUDA's.
cudaError_t translate(ncclResult_t result);

}  // namespace terse::fake
