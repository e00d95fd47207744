// The C interface: streams and events (hostnccl.h).
#include <utility>

#include "api.h"

using namespace hostnccl;

ncclResult_t hostncclStreamCreate(cudaStream_t* stream) {
  return guard("hostncclStreamCreate", [&] {
    require_pointer(stream, "stream");
    *stream = StreamHandles::add(std::make_shared<Stream>());
  });
}

ncclResult_t hostncclStreamDestroy(cudaStream_t stream) {
  return guard("hostncclStreamDestroy", [&] {
    if (StreamHandles::find(stream, "stream")->on_own_thread()) {
      fail(ncclInvalidUsage, "called by a function that the stream itself runs");
    }
    StreamHandles::take(stream, "stream")->synchronize();
  });
}

ncclResult_t hostncclStreamSynchronize(cudaStream_t stream) {
  return guard("hostncclStreamSynchronize", [&] {
    const auto found = find_stream(stream);
    if (found == nullptr) return;
    require(!found->on_own_thread(), ncclInvalidUsage,
            "called by a function that the stream itself runs");
    found->synchronize();
  });
}

ncclResult_t hostncclStreamQuery(cudaStream_t stream) {
  return guard("hostncclStreamQuery", [&] {
    const auto found = find_stream(stream);
    return found == nullptr || found->is_idle() ? ncclSuccess : ncclInProgress;
  });
}

ncclResult_t hostncclLaunchHostFunc(cudaStream_t stream, void (*fn)(void*), void* arg) {
  return guard("hostncclLaunchHostFunc", [&] {
    require(fn != nullptr, ncclInvalidArgument, "fn is NULL");
    if (const auto found = find_stream(stream)) {
      found->run([=] { fn(arg); });
    } else {
      fn(arg);
    }
  });
}

ncclResult_t hostncclCommFail(ncclComm_t comm, cudaStream_t stream, ncclResult_t result,
                              const char* text) {
  return guard("hostncclCommFail", [&] {
    require_pointer(text, "text");
    require(result != ncclSuccess && result != ncclInProgress, ncclInvalidArgument,
            "result is no error");
    const Failure failure(result, text);
    if (const auto on = find_stream(stream)) on->give_up(failure);
    if (comm != nullptr) find_comm(comm)->give_up(failure);
  });
}

ncclResult_t hostncclEventCreate(hostncclEvent_t* event) {
  return guard("hostncclEventCreate", [&] {
    require_pointer(event, "event");
    *event = EventHandles::add(std::make_shared<Event>());
  });
}

ncclResult_t hostncclEventDestroy(hostncclEvent_t event) {
  return guard("hostncclEventDestroy", [&] { EventHandles::take(event, "event"); });
}

ncclResult_t hostncclEventRecord(hostncclEvent_t event, cudaStream_t stream) {
  return guard("hostncclEventRecord",
               [&] { EventHandles::find(event, "event")->record(find_stream(stream).get()); });
}

ncclResult_t hostncclStreamWaitEvent(cudaStream_t stream, hostncclEvent_t event) {
  return guard("hostncclStreamWaitEvent", [&] {
    const auto point = EventHandles::find(event, "event")->latest();
    if (point == nullptr) return;
    if (const auto found = find_stream(stream)) {
      found->wait_for(point);
    } else if (const Outcome& failure = point->wait()) {
      throw *failure;
    }
  });
}

ncclResult_t hostncclEventSynchronize(hostncclEvent_t event) {
  return guard("hostncclEventSynchronize", [&] {
    const auto point = EventHandles::find(event, "event")->latest();
    if (point != nullptr) point->wait();
  });
}

ncclResult_t hostncclEventElapsedTime(double* seconds, hostncclEvent_t from, hostncclEvent_t to) {
  return guard("hostncclEventElapsedTime", [&] {
    require_pointer(seconds, "seconds");
    const auto begin = EventHandles::find(from, "from")->latest();
    const auto end = EventHandles::find(to, "to")->latest();
    require(begin != nullptr && end != nullptr, ncclInvalidUsage, "an event was never recorded");
    const auto began = begin->time(), ended = end->time();
    if (!began || !ended) return ncclInProgress;
    *seconds = std::chrono::duration<double>(*ended - *began).count();
    return ncclSuccess;
  });
}
