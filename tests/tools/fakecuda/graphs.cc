// Capture, and graphs that run what was captured.
//
// A graph runs on one stream, in another order each time: any that the captured dependencies allow,
// so that one that is missing shows.
#include <random>
#include <utility>

#include "state.h"

using namespace terse::fake;

namespace {

struct GraphHandle {
  std::shared_ptr<Graph> graph;
};

struct Executable {
  std::shared_ptr<const Graph> graph;
  hostncclEvent_t finished = nullptr;  // its runs follow each other
  unsigned runs = 0;
};

GraphHandle* handle(cudaGraph_t graph) { return reinterpret_cast<GraphHandle*>(graph); }
Executable* handle(cudaGraphExec_t graph) { return reinterpret_cast<Executable*>(graph); }

std::vector<size_t> some_order(const Graph& graph, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::set<size_t>> after;
  std::set<size_t> left;
  size_t communicated = 0;
  bool any = false;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    after.push_back(graph.nodes[i].after);
    if (graph.nodes[i].communicates) {
      if (any) after[i].insert(communicated);
      communicated = i;
      any = true;
    }
    left.insert(i);
  }
  std::vector<size_t> order;
  while (!left.empty()) {
    std::vector<size_t> ready;
    for (const size_t i : left) {
      bool waits = false;
      for (const size_t before : after[i]) waits = waits || left.contains(before);
      if (!waits) ready.push_back(i);
    }
    order.push_back(ready[random() % ready.size()]);
    left.erase(order.back());
  }
  return order;
}

void end(Capture& capture) {
  State& s = state();
  capture.ended = true;
  for (auto& [stream, at] : s.streams) {
    if (at.capture.get() != &capture) continue;
    at.capture = nullptr;
    at.last.clear();
  }
  std::erase_if(s.captures, [&](const auto& c) { return c.get() == &capture; });
}

cudaError_t capture_info(cudaStream_t stream, cudaStreamCaptureStatus* status,
                         unsigned long long* id, cudaGraph_t* graph) {
  return call("cudaStreamGetCaptureInfo", [&] {
    if (status == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const auto& capture = s.streams[stream].capture;
    *status = cudaStreamCaptureStatusNone;
    if (capture == nullptr) return cudaSuccess;
    *status =
        capture->invalidated ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    if (capture->invalidated) return cudaSuccess;
    if (id != nullptr) *id = capture->id;
    // The graph under capture has no handle but this, which is good for its user objects alone.
    if (graph != nullptr) *graph = reinterpret_cast<cudaGraph_t>(capture->graph.get());
    return cudaSuccess;
  });
}

}  // namespace

extern "C" {

#if CUDART_VERSION >= 13000
TERSE_FAKE cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream,
                                                cudaStreamCaptureStatus* status,
                                                unsigned long long* id, cudaGraph_t* graph,
                                                const cudaGraphNode_t**, const cudaGraphEdgeData**,
                                                size_t*) {
  return capture_info(stream, status, id, graph);
}
#else
TERSE_FAKE cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                                   cudaStreamCaptureStatus* status,
                                                   unsigned long long* id, cudaGraph_t* graph,
                                                   const cudaGraphNode_t**, size_t*) {
  return capture_info(stream, status, id, graph);
}
#endif

TERSE_FAKE cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  return call("cudaStreamBeginCapture", [&] {
    if (is_default(stream)) return cudaErrorStreamCaptureUnsupported;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    State& s = state();
    const std::lock_guard lock(s.mutex);
    StreamState& to = s.streams[stream];
    if (to.capture != nullptr) return cudaErrorIllegalState;
    to.capture = std::make_shared<Capture>(
        Capture{s.next_capture++, stream, std::this_thread::get_id(), mode});
    to.last.clear();
    s.captures.insert(to.capture);
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  return call("cudaStreamEndCapture", [&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    *graph = nullptr;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    State& s = state();
    std::shared_ptr<Graph> captured;  // may go, with its user objects, when the lock is gone
    const std::lock_guard lock(s.mutex);
    const StreamState& at = s.streams[stream];
    const std::shared_ptr<Capture> capture = at.capture;
    if (capture == nullptr) return cudaErrorIllegalState;
    if (capture->origin != stream) return cudaErrorStreamCaptureUnmatched;
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != std::this_thread::get_id())
      return cudaErrorStreamCaptureWrongThread;
    const bool joined = capture->joined(at.last);
    end(*capture);
    captured = std::move(capture->graph);
    if (capture->invalidated) return cudaErrorStreamCaptureInvalidated;
    if (!joined) return cudaErrorStreamCaptureUnjoined;
    *graph = reinterpret_cast<cudaGraph_t>(new GraphHandle{captured});
    ++s.graphs;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return call("cudaGraphDestroy", [&] {
    if (graph == nullptr) return cudaErrorInvalidValue;
    delete handle(graph);
    --state().graphs;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                            unsigned long long) {
  return call("cudaGraphInstantiate", [&] {
    if (executable == nullptr || graph == nullptr) return cudaErrorInvalidValue;
    auto made = std::make_unique<Executable>(Executable{handle(graph)->graph});
    if (const cudaError_t wrong = translate(host().EventCreate(&made->finished))) return wrong;
    *executable = reinterpret_cast<cudaGraphExec_t>(made.release());
    ++state().graphs;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return call("cudaGraphExecDestroy", [&] {
    if (executable == nullptr) return cudaErrorInvalidValue;
    host().EventDestroy(handle(executable)->finished);
    delete handle(executable);
    --state().graphs;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return call("cudaGraphLaunch", [&] {
    if (executable == nullptr) return cudaErrorInvalidValue;
    if (const cudaError_t wrong = check_stream(stream)) return wrong;
    if (capture_of(stream) != 0) return cudaErrorStreamCaptureUnsupported;
    Executable& e = *handle(executable);
    host().StreamWaitEvent(stream, e.finished);
    cudaError_t result = cudaSuccess;
    for (const size_t i : some_order(*e.graph, e.runs++)) {
      const Operation& run = e.graph->nodes[i].run;
      if (run != nullptr && result == cudaSuccess) result = run(stream);
    }
    host().EventRecord(e.finished, stream);
    // The graph, and what it holds, stays until the run has ended.
    auto* held = new std::shared_ptr<const Graph>(e.graph);
    const auto release = [](void* context) {
      delete static_cast<std::shared_ptr<const Graph>*>(context);
    };
    host().LaunchHostFunc(stream, release, held);
    return result;
  });
}

TERSE_FAKE cudaError_t cudaUserObjectCreate(cudaUserObject_t* object, void* pointer,
                                            cudaHostFn_t destroy, unsigned count, unsigned flags) {
  return call("cudaUserObjectCreate", [&] {
    if (object == nullptr || destroy == nullptr || count == 0 ||
        flags != cudaUserObjectNoDestructorSync)
      return cudaErrorInvalidValue;
    auto made = std::make_shared<UserObject>(pointer, destroy);
    *object = reinterpret_cast<cudaUserObject_t>(made.get());
    State& s = state();
    const std::lock_guard lock(s.mutex);
    s.objects[*object] = {std::move(made), count};
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return call("cudaUserObjectRelease", [&] {
    State& s = state();
    std::shared_ptr<UserObject> last;  // goes when the lock is gone
    const std::lock_guard lock(s.mutex);
    const auto known = s.objects.find(object);
    if (known == s.objects.end() || count == 0 || count > known->second.second)
      return cudaErrorInvalidValue;
    known->second.second -= count;
    if (known->second.second == 0) {
      last = std::move(known->second.first);
      s.objects.erase(known);
    }
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGraphRetainUserObject(cudaGraph_t graph, cudaUserObject_t object,
                                                 unsigned count, unsigned flags) {
  return call("cudaGraphRetainUserObject", [&] {
    State& s = state();
    const std::lock_guard lock(s.mutex);
    const auto known = s.objects.find(object);
    if (known == s.objects.end() || count != 1 || flags != cudaGraphUserObjectMove)
      return cudaErrorInvalidValue;
    for (const auto& capture : s.captures) {
      if (reinterpret_cast<cudaGraph_t>(capture->graph.get()) != graph) continue;
      capture->graph->objects.push_back(known->second.first);
      if (--known->second.second == 0) s.objects.erase(known);
      return cudaSuccess;
    }
    return cudaErrorInvalidValue;
  });
}

}  // extern "C"
