// What the fake runtime knows of streams, events and captures.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>

#include "fake.h"
#include "host.h"

namespace terse::fake {

// Calls the user's function when the last that refers to it goes.
struct UserObject {
  UserObject(void* pointer, cudaHostFn_t destroy);
  ~UserObject();
  UserObject(const UserObject&) = delete;
  UserObject& operator=(const UserObject&) = delete;

 private:
  void* const pointer_;
  const cudaHostFn_t destroy_;
};

struct Node {
  Operation run;  // empty for one that only joins others
  std::set<size_t> after;
  bool communicates = false;
};

struct Graph {
  std::vector<Node> nodes;  // each after those that it waits for
  std::vector<std::shared_ptr<UserObject>> objects;
};

struct Capture {
  unsigned long long id;
  cudaStream_t origin;
  std::thread::id thread;
  cudaStreamCaptureMode mode;
  bool ended = false, invalidated = false;
  std::shared_ptr<Graph> graph = std::make_shared<Graph>();

  size_t add(Operation run, std::set<size_t> after, bool communicates = false);
  // Whether every node comes before one of `last`, or is one of them.
  bool joined(const std::set<size_t>& last) const;
};

struct StreamState {
  CUcontext context = nullptr;  // null: any
  bool blocking = true;         // waits for the legacy stream, and it for this one
  bool ours = false;            // not made by hostnccl's own function
  int priority = 0;
  std::shared_ptr<Capture> capture;
  std::set<size_t> last;  // the nodes that the stream's next one follows
};

struct EventState {
  CUcontext context = nullptr;
  bool timed = false;
  bool over = false;                 // as cudaEventQuery has said since it was recorded
  std::shared_ptr<Capture> capture;  // in which it was recorded last; null: in none
  std::set<size_t> last;
};

struct State {
  std::mutex mutex;
  std::unordered_map<cudaStream_t, StreamState> streams;
  std::unordered_map<cudaEvent_t, EventState> events;
  std::map<cudaUserObject_t, std::pair<std::shared_ptr<UserObject>, unsigned>> objects;
  std::set<std::shared_ptr<Capture>> captures;  // that go on
  std::set<int> contexts;                       // the devices that have one
  unsigned long long next_capture = 1;
  std::atomic<size_t> graphs{0}, user_objects{0}, allocations{0};
};

State& state();

// The null stream under any of its names.
inline bool is_default(cudaStream_t stream) { return reinterpret_cast<uintptr_t>(stream) <= 2; }

// A stream that is there, and one that can be used in the thread's context.
cudaError_t check_stream(cudaStream_t stream);
cudaError_t check_stream_context(cudaStream_t stream);

// While any stream is captured, calls that allocate or wait are refused, and break the capture,
// unless the thread has said that it knows what it does.
cudaError_t check_capture_mode();

// The thread's own, which is none until it has used a device; and its device.
CUcontext current_context();
int current_device();

// Records the operation where the stream is captured, else runs it.
cudaError_t submit(cudaStream_t stream, const Operation& operation);

void invalidate(Capture& capture);

// A kernel did something wrong: every later call fails.
void report_fault(const std::string& what);
bool faulty();

// Runs a function of the interface: counts it, fails it on demand, keeps its error.
cudaError_t enter(const char* function);
cudaError_t leave(cudaError_t result);
template <class Body>
cudaError_t call(const char* function, Body&& body) {
  cudaError_t result = enter(function);
  if (result == cudaSuccess) result = body();
  return leave(result);
}

}  // namespace terse::fake
