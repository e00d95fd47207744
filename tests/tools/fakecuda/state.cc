#include "state.h"

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace terse::fake {
namespace {

struct Failure {
  std::string function;
  cudaError_t error;
  int before, times;  // the calls that are still to come, and those that are to fail
  bool begun = false;
};
thread_local Failure t_failure{};
thread_local std::optional<int> t_calls_left;  // of a device that goes
std::atomic<int> driver{CUDART_VERSION};
thread_local cudaError_t t_last_error = cudaSuccess;
thread_local std::vector<CUcontext> t_contexts;  // the last one is the thread's own
thread_local cudaStreamCaptureMode t_mode = cudaStreamCaptureModeGlobal;
thread_local bool t_in_destructor = false;
std::atomic<bool> broken{false};

// Of the calls that are made for no device.
bool needs_context(std::string_view function) {
  constexpr std::string_view kNot[] = {"cudaGetDeviceCount",    "cudaGetDevice",
                                       "cudaSetDevice",         "cudaDeviceGetAttribute",
                                       "cudaUserObjectRelease", "cuDevicePrimaryCtxRetain",
                                       "cuCtxGetCurrent",       "cuCtxPushCurrent",
                                       "cuCtxPopCurrent",       "cudaGetDriverEntryPoint"};
  return std::ranges::find(kNot, function) == std::end(kNot);
}

void use_context(int device) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.contexts.insert(device);
}

// What the driver knows a device's contexts by: its primary one, and others of the program's.
CUcontext context_of(int device, int number = 0) {
  return reinterpret_cast<CUcontext>(uintptr_t{1} + device + uintptr_t{kDevices} * number);
}

int device_of(CUcontext context) {
  return static_cast<int>((reinterpret_cast<uintptr_t>(context) - 1) % kDevices);
}

// As the runtime does it: in place of the thread's own.
void make_current(int device) {
  use_context(device);
  if (t_contexts.empty()) t_contexts.emplace_back();
  t_contexts.back() = context_of(device);
}

// Like call(), of the driver's functions: it keeps no last error.
template <class Body>
CUresult call_driver(const char* function, const Body& body) {
  const cudaError_t result = enter(function);
  return static_cast<CUresult>(result == cudaSuccess ? body() : result);
}

CUresult retain(CUcontext* context, CUdevice device) {
  return call_driver("cuDevicePrimaryCtxRetain", [&] {
    if (context == nullptr) return cudaErrorInvalidValue;
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    use_context(device);
    *context = context_of(device);
    return cudaSuccess;
  });
}

CUresult current(CUcontext* context) {
  return call_driver("cuCtxGetCurrent", [&] {
    if (context == nullptr) return cudaErrorInvalidValue;
    *context = current_context();
    return cudaSuccess;
  });
}

CUresult push(CUcontext context) {
  return call_driver("cuCtxPushCurrent", [&] {
    t_contexts.push_back(context);
    return cudaSuccess;
  });
}

CUresult pop(CUcontext* context) {
  if (context == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (t_contexts.empty()) return CUDA_ERROR_INVALID_CONTEXT;
  *context = t_contexts.back();
  t_contexts.pop_back();
  return CUDA_SUCCESS;
}

CUresult name(char* text, int size, CUdevice) {
  const char* const wanted = std::getenv("FAKE_CUDA_NAME");
  std::snprintf(text, static_cast<size_t>(size), "%s", wanted != nullptr ? wanted : "Fake GPU");
  return CUDA_SUCCESS;
}

bool legacy_is_implied(const State& s) {
  for (const auto& [handle, stream] : s.streams)
    if (stream.capture != nullptr && stream.blocking) return true;
  return false;
}

}  // namespace

State& state() {
  static State& s = *new State;
  return s;
}

UserObject::UserObject(void* pointer, cudaHostFn_t destroy) : pointer_(pointer), destroy_(destroy) {
  ++state().user_objects;
}

UserObject::~UserObject() {
  t_in_destructor = true;
  destroy_(pointer_);
  t_in_destructor = false;
  --state().user_objects;
}

size_t Capture::add(Operation run, std::set<size_t> after, bool communicates) {
  graph->nodes.push_back({std::move(run), std::move(after), communicates});
  return graph->nodes.size() - 1;
}

bool Capture::joined(const std::set<size_t>& last) const {
  std::set<size_t> reached = last;
  for (size_t i = graph->nodes.size(); i-- > 0;) {
    if (!reached.contains(i)) return false;
    reached.insert(graph->nodes[i].after.begin(), graph->nodes[i].after.end());
  }
  return true;
}

void invalidate(Capture& capture) { capture.invalidated = true; }

void report_fault(const std::string& what) {
  std::fprintf(stderr, "a kernel's fault: %s\n", what.c_str());
  broken = true;
}

bool faulty() { return broken; }

cudaError_t enter(const char* function) {
  if (t_in_destructor) {
    std::fprintf(stderr, "%s was called by the destructor of a user object\n", function);
    return cudaErrorNotPermitted;
  }
  count_call(function);
  if (broken) return cudaErrorIllegalAddress;
  if (needs_context(function)) {
    if (t_contexts.empty()) t_contexts.push_back(context_of(0));
    use_context(current_device());
  }
  if (t_calls_left && (*t_calls_left <= 0 || --*t_calls_left == 0))
    return cudaErrorECCUncorrectable;
  if (t_failure.times == 0 || t_failure.function != function || t_failure.before-- > 0)
    return cudaSuccess;
  t_failure.begun = true;
  --t_failure.times;
  return t_failure.error;
}

cudaError_t leave(cudaError_t result) {
  if (result != cudaSuccess) t_last_error = result;
  return result;
}

void fail(const std::string& function, cudaError_t error, int n, int times) {
  t_failure = {function, error, n - 1, times};
}

bool failed() { return std::exchange(t_failure, {}).begun; }

void lose_device(int n) { t_calls_left = n; }

bool find_device() {
  const std::optional<int> left = std::exchange(t_calls_left, {});
  return left && *left <= 0;
}

void set_driver(int version) { driver = version; }

std::set<int> contexts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.contexts;
}

void forget_contexts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.contexts.clear();
}

OtherContext::OtherContext(int device) { t_contexts.push_back(context_of(device, 1)); }
OtherContext::~OtherContext() { t_contexts.pop_back(); }

NcclsDevice::NcclsDevice(int device) : found_(current_device()) { make_current(device); }
NcclsDevice::~NcclsDevice() { make_current(found_); }

Live live() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Live all;
  for (const auto& [handle, stream] : s.streams) all.streams += stream.ours;
  all.events = s.events.size();
  all.allocations = s.allocations;
  all.graphs = s.graphs;
  all.user_objects = s.user_objects;
  return all;
}

CUcontext current_context() { return t_contexts.empty() ? nullptr : t_contexts.back(); }

int current_device() { return t_contexts.empty() ? 0 : device_of(t_contexts.back()); }

cudaError_t check_stream(cudaStream_t stream) {
  if (is_default(stream)) return cudaSuccess;
  const ncclResult_t there = host().StreamQuery(stream);
  return there == ncclInvalidArgument ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t check_stream_context(cudaStream_t stream) {
  if (const cudaError_t wrong = check_stream(stream)) return wrong;
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto known = s.streams.find(stream);
  const bool other = known != s.streams.end() && known->second.context != nullptr &&
                     known->second.context != current_context();
  return other ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

cudaError_t check_capture_mode() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  cudaError_t result = cudaSuccess;
  for (const auto& capture : s.captures) {
    const bool own = capture->thread == std::this_thread::get_id();
    const bool refused = t_mode != cudaStreamCaptureModeRelaxed &&
                         (own ? capture->mode != cudaStreamCaptureModeRelaxed
                              : t_mode == cudaStreamCaptureModeGlobal &&
                                    capture->mode == cudaStreamCaptureModeGlobal);
    if (!refused) continue;
    invalidate(*capture);
    result = cudaErrorStreamCaptureUnsupported;
  }
  return result;
}

cudaError_t submit(cudaStream_t stream, const Operation& operation) {
  count_stream(stream);
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (is_default(stream) && legacy_is_implied(s)) return cudaErrorStreamCaptureImplicit;
    StreamState& to = s.streams[stream];
    if (to.capture != nullptr) {
      if (to.capture->invalidated) return cudaErrorStreamCaptureInvalidated;
      to.last = {to.capture->add(operation, to.last)};
      return cudaSuccess;
    }
  }
  return operation(stream);
}

unsigned long long capture_of(cudaStream_t stream) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto known = s.streams.find(stream);
  return known == s.streams.end() || known->second.capture == nullptr ? 0
                                                                      : known->second.capture->id;
}

cudaError_t record_nccl(const std::vector<cudaStream_t>& streams, Operation operation) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  Capture& capture = *s.streams[streams.front()].capture;
  if (capture.invalidated) return cudaErrorStreamCaptureInvalidated;
  std::set<size_t> after;
  for (const cudaStream_t stream : streams)
    after.insert(s.streams[stream].last.begin(), s.streams[stream].last.end());
  const size_t node = capture.add(std::move(operation), std::move(after), true);
  for (const cudaStream_t stream : streams) s.streams[stream].last = {node};
  return cudaSuccess;
}

}  // namespace terse::fake

using namespace terse::fake;

extern "C" {

TERSE_FAKE cudaError_t cudaGetLastError() { return std::exchange(t_last_error, cudaSuccess); }
TERSE_FAKE cudaError_t cudaPeekAtLastError() { return t_last_error; }

// Asks no device.
TERSE_FAKE cudaError_t cudaDriverGetVersion(int* version) {
  if (version == nullptr) return cudaErrorInvalidValue;
  *version = driver;
  return cudaSuccess;
}

TERSE_FAKE cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&] {
    if (count == nullptr) return cudaErrorInvalidValue;
    *count = kDevices;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&] {
    if (device == nullptr) return cudaErrorInvalidValue;
    *device = current_device();
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&] {
    if (device < 0 || device >= kDevices) return cudaErrorInvalidDevice;
    make_current(device);
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function,
                                                        unsigned, unsigned long long,
                                                        cudaDriverEntryPointQueryResult*) {
  return call("cudaGetDriverEntryPoint", [&] {
    const std::map<std::string_view, void*> known = {
        {"cuDevicePrimaryCtxRetain", reinterpret_cast<void*>(&retain)},
        {"cuCtxGetCurrent", reinterpret_cast<void*>(&current)},
        {"cuCtxPushCurrent", reinterpret_cast<void*>(&push)},
        {"cuCtxPopCurrent", reinterpret_cast<void*>(&pop)},
        {"cuDeviceGetName", reinterpret_cast<void*>(&name)}};
    const auto found = known.find(symbol);
    if (found == known.end()) return cudaErrorSymbolNotFound;
    *function = found->second;
    return cudaSuccess;
  });
}

TERSE_FAKE cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&] {
    if (mode == nullptr) return cudaErrorInvalidValue;
    std::swap(*mode, t_mode);
    return cudaSuccess;
  });
}

}  // extern "C"
