// The C interface: streams and events (hostnccl.h).
#include <utility>

#include "api.h"

using namespace hostnccl;

ncclResult_t hostncclStreamCreate(cudaStream_t* stream) {
  return Guard("hostncclStreamCreate", [&] {
    RequirePointer(stream, "stream");
    *stream = StreamHandles::Add(std::make_shared<Stream>());
  });
}

ncclResult_t hostncclStreamDestroy(cudaStream_t stream) {
  return Guard("hostncclStreamDestroy", [&] {
    if (StreamHandles::Find(stream, "stream")->OnOwnThread()) {
      Fail(ncclInvalidUsage, "called by a function that the stream itself runs");
    }
    StreamHandles::Take(stream, "stream")->Synchronize();
  });
}

ncclResult_t hostncclStreamSynchronize(cudaStream_t stream) {
  return Guard("hostncclStreamSynchronize", [&] {
    const auto found = FindStream(stream);
    if (found == nullptr) return;
    Require(!found->OnOwnThread(), ncclInvalidUsage,
            "called by a function that the stream itself runs");
    found->Synchronize();
  });
}

ncclResult_t hostncclStreamQuery(cudaStream_t stream) {
  return Guard("hostncclStreamQuery", [&] {
    const auto found = FindStream(stream);
    return found == nullptr || found->IsIdle() ? ncclSuccess : ncclInProgress;
  });
}

ncclResult_t hostncclLaunchHostFunc(cudaStream_t stream, void (*fn)(void*), void* arg) {
  return Guard("hostncclLaunchHostFunc", [&] {
    Require(fn != nullptr, ncclInvalidArgument, "fn is NULL");
    if (const auto found = FindStream(stream)) {
      found->Run([=] { fn(arg); });
    } else {
      fn(arg);
    }
  });
}

ncclResult_t hostncclEventCreate(hostncclEvent_t* event) {
  return Guard("hostncclEventCreate", [&] {
    RequirePointer(event, "event");
    *event = EventHandles::Add(std::make_shared<Event>());
  });
}

ncclResult_t hostncclEventDestroy(hostncclEvent_t event) {
  return Guard("hostncclEventDestroy", [&] { EventHandles::Take(event, "event"); });
}

ncclResult_t hostncclEventRecord(hostncclEvent_t event, cudaStream_t stream) {
  return Guard("hostncclEventRecord",
               [&] { EventHandles::Find(event, "event")->Record(FindStream(stream).get()); });
}

ncclResult_t hostncclStreamWaitEvent(cudaStream_t stream, hostncclEvent_t event) {
  return Guard("hostncclStreamWaitEvent", [&] {
    const auto point = EventHandles::Find(event, "event")->latest();
    if (point == nullptr) return;
    if (const auto found = FindStream(stream)) {
      found->WaitFor(point);
    } else if (const Outcome& failure = point->Wait()) {
      throw *failure;
    }
  });
}

ncclResult_t hostncclEventSynchronize(hostncclEvent_t event) {
  return Guard("hostncclEventSynchronize", [&] {
    const auto point = EventHandles::Find(event, "event")->latest();
    if (point != nullptr) point->Wait();
  });
}

ncclResult_t hostncclEventElapsedTime(double* seconds, hostncclEvent_t from, hostncclEvent_t to) {
  return Guard("hostncclEventElapsedTime", [&] {
    RequirePointer(seconds, "seconds");
    const auto begin = EventHandles::Find(from, "from")->latest();
    const auto end = EventHandles::Find(to, "to")->latest();
    Require(begin != nullptr && end != nullptr, ncclInvalidUsage, "an event was never recorded");
    const auto began = begin->time(), ended = end->time();
    if (!began || !ended) return ncclInProgress;
    *seconds = std::chrono::duration<double>(*ended - *began).count();
    return ncclSuccess;
  });
}
