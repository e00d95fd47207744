// Streams and events.
#include "state.h"

using namespace terse::fake;

namespace {

// What a call may do to a stream only while it is not captured; the capture breaks.
cudaError_t refuse_captured(cudaStream_t stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto known = s.streams.find(stream);
  if (known == s.streams.end() || known->second.capture == nullptr) return cudaSuccess;
  invalidate(*known->second.capture);
  return cudaErrorStreamCaptureUnsupported;
}

// The part of a wait that concerns captures; true in *done when there is no other.
cudaError_t wait_in_capture(cudaStream_t stream, cudaEvent_t event, bool* done) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const EventState& at = s.events[event];
  StreamState& to = s.streams[stream];
  if (to.capture != nullptr && to.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (at.capture == nullptr) {
    if (to.capture == nullptr) return cudaSuccess;
    invalidate(*to.capture);
    return cudaErrorStreamCaptureIsolation;
  }
  if (at.capture->ended) {
    if (to.capture != nullptr) invalidate(*to.capture);
    return cudaErrorCapturedEvent;
  }
  if (at.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
  if (is_default(stream)) return cudaErrorStreamCaptureImplicit;
  *done = true;
  if (to.capture == nullptr) {
    // A stream that joins must be joined in the end, even when nothing is enqueued on it.
    to.capture = at.capture;
    to.last = {at.capture->add({}, at.last)};
    return cudaSuccess;
  }
  if (to.capture != at.capture) {
    invalidate(*to.capture);
    invalidate(*at.capture);
    return cudaErrorStreamCaptureMerge;
  }
  to.last.insert(at.last.begin(), at.last.end());
  to.last = {to.capture->add({}, to.last)};
  return cudaSuccess;
}

bool known_event(cudaEvent_t event) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.events.contains(event);
}

// An external record is a graph's own node, whatever stream runs it.
cudaError_t record_event(cudaEvent_t event, cudaStream_t stream, bool is_external) {
  if (!known_event(event)) return cudaErrorInvalidResourceHandle;
  if (const cudaError_t wrong = check_stream_context(stream)) return wrong;
  count_stream(stream);
  {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    EventState& at = s.events[event];
    StreamState& from = s.streams[stream];
    if (from.context != nullptr && from.context != at.context)
      return cudaErrorInvalidResourceHandle;
    if (from.capture != nullptr && from.capture->invalidated)
      return cudaErrorStreamCaptureInvalidated;
    at.over = false;
    at.capture = is_external ? nullptr : from.capture;
    at.last = is_external ? std::set<size_t>() : from.last;
    if (at.capture != nullptr) return cudaSuccess;
  }
  return submit(stream, [event](cudaStream_t on) {
    return translate(host().EventRecord(host_event(event), on));
  });
}

cudaError_t create_stream(cudaStream_t* stream, bool blocking, int priority = 0) {
  if (stream == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t refused = check_capture_mode()) return refused;
  if (const cudaError_t wrong = translate(host().StreamCreate(stream))) return wrong;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.streams[*stream] = {
      .context = current_context(), .blocking = blocking, .ours = true, .priority = priority};
  return cudaSuccess;
}

cudaError_t create_event(cudaEvent_t* event, bool timed) {
  if (event == nullptr) return cudaErrorInvalidValue;
  if (const cudaError_t refused = check_capture_mode()) return refused;
  hostncclEvent_t made = nullptr;
  if (const cudaError_t wrong = translate(host().EventCreate(&made))) return wrong;
  *event = reinterpret_cast<cudaEvent_t>(made);
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.events[*event] = {.context = current_context(), .timed = timed};
  return cudaSuccess;
}

}  // namespace

extern "C" {

TERSE_FAKE cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call("cudaStreamCreate", [&] { return create_stream(stream, true); });
}

TERSE_FAKE cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&] {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    return create_stream(stream, flags == cudaStreamDefault);
  });
}

TERSE_FAKE cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                    int priority) {
  return call("cudaStreamCreateWithPriority", [&] {
    if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) return cudaErrorInvalidValue;
    return create_stream(stream, flags == cudaStreamDefault, priority);
  });
}

TERSE_FAKE cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  return call("cudaStreamGetPriority", [&] {
    if (priority == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const auto known = s.streams.find(stream);
    *priority = known == s.streams.end() ? 0 : known->second.priority;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return call("cudaStreamDestroy", [&] {
    if (is_default(stream)) return cudaErrorInvalidResourceHandle;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    if (const cudaError_t refused = check_capture_mode()) return refused;
    refuse_captured(stream);
    {
      State& s = state();
      const std::lock_guard lock(s.mutex);
      s.streams.erase(stream);
    }
    host().StreamDestroy(stream);
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return call("cudaStreamSynchronize", [&] {
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    if (const cudaError_t refused = refuse_captured(stream)) return refused;
    if (const cudaError_t refused = check_capture_mode()) return refused;
    const cudaError_t result = translate(host().StreamSynchronize(stream));
    return faulty() ? cudaErrorIllegalAddress : result;
  });
}

TERSE_FAKE cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return call("cudaStreamQuery", [&] {
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    if (const cudaError_t refused = refuse_captured(stream)) return refused;
    if (const cudaError_t refused = check_capture_mode()) return refused;
    return translate(host().StreamQuery(stream));
  });
}

TERSE_FAKE cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return call("cudaStreamWaitEvent", [&] {
    if (flags != 0 && flags != cudaEventWaitExternal) return cudaErrorInvalidValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    if (!known_event(event)) return cudaErrorInvalidResourceHandle;
    if (flags == cudaEventWaitExternal) {
      count_stream(stream);
      if (capture_of(stream) == 0) return cudaErrorIllegalState;
      return submit(stream, [event](cudaStream_t on) {
        return translate(host().StreamWaitEvent(on, host_event(event)));
      });
    }
    bool done = false;
    if (const cudaError_t wrong = wait_in_capture(stream, event, &done)) return wrong;
    count_stream(stream);
    return done ? cudaSuccess : translate(host().StreamWaitEvent(stream, host_event(event)));
  });
}

TERSE_FAKE cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call("cudaEventCreate", [&] { return create_event(event, true); });
}

TERSE_FAKE cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return call("cudaEventCreateWithFlags", [&] {
    const bool known = (flags & ~unsigned{cudaEventDisableTiming | cudaEventBlockingSync}) == 0;
    return known ? create_event(event, (flags & cudaEventDisableTiming) == 0)
                 : cudaErrorInvalidValue;
  });
}

TERSE_FAKE cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&] {
    {
      State& s = state();
      const std::lock_guard lock(s.mutex);
      if (s.events.erase(event) == 0) return cudaErrorInvalidResourceHandle;
    }
    return translate(host().EventDestroy(host_event(event)));
  });
}

TERSE_FAKE cudaError_t cudaEventQuery(cudaEvent_t event) {
  return call("cudaEventQuery", [&] {
    State& s = state();
    {
      const std::lock_guard lock(s.mutex);
      const auto known = s.events.find(event);
      if (known == s.events.end()) return cudaErrorInvalidResourceHandle;
      if (known->second.capture != nullptr) return cudaErrorCapturedEvent;
    }
    if (const cudaError_t refused = check_capture_mode()) return refused;
    double seconds = 0;
    const ncclResult_t result =
        host().EventElapsedTime(&seconds, host_event(event), host_event(event));
    if (result == ncclInvalidUsage) return cudaSuccess;  // never recorded
    const std::lock_guard lock(s.mutex);
    s.events[event].over = result == ncclSuccess;
    return translate(result);
  });
}

// Stricter than CUDA's: of events that nobody has seen to be over, whose work may have failed, it
// gives no time.
TERSE_FAKE cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  return call("cudaEventElapsedTime", [&] {
    if (milliseconds == nullptr) return cudaErrorInvalidValue;
    bool over = true;
    {
      State& s = state();
      const std::lock_guard lock(s.mutex);
      for (const cudaEvent_t event : {from, to}) {
        const auto known = s.events.find(event);
        if (known == s.events.end() || !known->second.timed) return cudaErrorInvalidResourceHandle;
        if (known->second.capture != nullptr) return cudaErrorCapturedEvent;
        over &= known->second.over;
      }
    }
    if (const cudaError_t refused = check_capture_mode()) return refused;
    double seconds = 0;
    const ncclResult_t result = host().EventElapsedTime(&seconds, host_event(from), host_event(to));
    if (result == ncclInvalidUsage) return cudaErrorInvalidResourceHandle;  // never recorded
    if (!over) return cudaErrorNotReady;
    *milliseconds = static_cast<float>(1e3 * seconds);
    return translate(result);
  });
}

TERSE_FAKE cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call("cudaEventRecord", [&] { return record_event(event, stream, false); });
}

TERSE_FAKE cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                                unsigned flags) {
  return call("cudaEventRecordWithFlags", [&] {
    const bool is_external = flags == cudaEventRecordExternal;
    if (flags != 0 && !is_external) return cudaErrorInvalidValue;
    if (is_external && capture_of(stream) == 0) return cudaErrorIllegalState;
    return record_event(event, stream, is_external);
  });
}

}  // extern "C"
