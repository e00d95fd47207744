// What the engine needs of a machine: memory, ordered queues and the codec on them. This page is
// the specification of a backend.
//
// A queue (Stream) runs what is enqueued on it in order, asynchronously; an Event marks a point of
// one queue for others to wait for. Handles are the backend's own pointers: on the host hostnccl's
// streams and events, on a GPU CUDA's. Every verb throws Error on failure. Handles may be used by
// one thread at a time.
//
// On a GPU a program may record what it enqueues on a stream as a graph, and run the graph later,
// many times (CUDA graph capture). All verbs that enqueue are then recorded; memory and events of a
// graph must not be used outside of it as long as it can run.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "backend/windows.h"
#include "codec/call_header.h"
#include "codec/checksum.h"
#include "codec/codec.h"
#include "codec/difference.h"
#include "codec/learning.h"
#include "plan/chunk_policy.h"

struct CUstream_st;

namespace terse {

using Stream = CUstream_st*;
struct EventHandle;
using Event = EventHandle*;

// A stage of the comparison of calls, and what is called where a host finds a mismatch.
struct HeaderStep {
  codec::HeaderWork work;
  void (*mismatched)(const HeaderStep&);
  void* context;
  Stream stream = nullptr;     // that it runs on
  Windows* windows = nullptr;  // that peers may wait in, for another call; null: none
  uint64_t number = 0;         // of the call on its communicator
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual bool is_gpu() const = 0;

  // Name of the GPU, as its driver has it; "": a host, or unknown.
  virtual std::string device_name() const { return ""; }

  // How finely messages are cut for it.
  plan::ChunkPolicy chunk_policy() const { return plan::default_chunk_policy(is_gpu()); }

  // Scratch memory that codecs and NCCL can use, aligned to 256 bytes. What was enqueued for it is
  // done when it is released. It may then be kept for the next allocate(), so that neither waits
  // for what else is enqueued; trim() gives it back to the machine, and may wait for everything
  // that runs on it.
  virtual void* allocate(size_t bytes) = 0;
  virtual void release(void* memory) noexcept = 0;
  virtual void trim() noexcept = 0;

  // Memory that queues write to and the host reads, once what wrote to it is done. Not for bulk.
  virtual void* allocate_visible(size_t bytes) = 0;
  virtual void release_visible(void* memory) noexcept = 0;

  // Copies to the backend's memory in the stream's order, and from it. `from` may be reused on
  // return; download() blocks until the copy is done.
  virtual void upload(Stream stream, void* to, const void* from, size_t bytes) = 0;
  virtual void download(Stream stream, void* to, const void* from, size_t bytes) = 0;

  // How many queues what a communicator sends gains by. NCCL itself does one thing after the other
  // on a GPU, and on several streams only because it makes them wait for each other, which a
  // program may have told it not to for graphs (NCCL_GRAPH_STREAM_ORDERING=0).
  virtual size_t communicate_queues() const { return 1; }

  // Returns true if a call may be enqueued on this stream of a caller, in place of one of terse's.
  virtual bool takes_calls(Stream) const { return false; }

  // Creates a stream of the priority that `like` has.
  virtual Stream create_stream(Stream like) = 0;
  virtual void destroy_stream(Stream stream) noexcept = 0;
  // Blocks until what is enqueued is done. Throws what failed in it.
  virtual void synchronize(Stream stream) = 0;
  // Returns true if all that is enqueued is done.
  virtual bool idle(Stream stream) = 0;

  virtual Event create_event() = 0;
  virtual void destroy_event(Event event) noexcept = 0;
  virtual void record(Event event, Stream stream) = 0;
  // Makes all that is enqueued on `stream` from now on start after the event's latest record.
  virtual void wait(Stream stream, Event event) = 0;

  // Every how many calls of a communicator it is no burden to time one, step by step.
  virtual uint64_t timing_period() const = 0;
  // An event that also keeps the time at which its queue came to it.
  virtual Event create_timer() = 0;
  // Seconds between two timers' latest records; empty when one of them is still to come. Never
  // blocks. Not for what a graph recorded.
  virtual std::optional<double> seconds(Event from, Event to) = 0;

  // Makes ready what combine(), compare(), checksum(), learn(), run() and increment() run, so that
  // these need not wait for the machine; once before the first of them, and cheap after that.
  // Throws where there is no code for the machine.
  virtual void load() = 0;

  // Enqueues combines that do not depend on each other. The caller keeps `works` as it is until a
  // later notify() on the stream has come. What is drawn is redrawn by *replays, which is in the
  // backend's memory and read when the work runs; null stands for 0.
  virtual void combine(Stream stream, const std::vector<codec::Combine>& works,
                       const uint64_t* replays) = 0;

  // Enqueues copies within the backend's memory, of what does not overlap. As for combine(), the
  // caller keeps `works` as it is.
  virtual void copy(Stream stream, const std::vector<Copy>& works) = 0;

  // Enqueues a comparison, which the caller keeps as it is until it is done. Its parts are in
  // visible memory.
  virtual void compare(Stream stream, const codec::Comparison& work) = 0;
  // Enqueues a check of memory.
  virtual void checksum(Stream stream, const codec::Checksum& work) = 0;

  // Enqueues a stage of learning, as combine() does its works: the caller keeps `work` as it is.
  // State and table are in the backend's memory.
  virtual void learn(Stream stream, const codec::Learning& work) = 0;

  // Enqueues a stage of the comparison of calls: the caller keeps `step` as for combine(). Memory
  // is the backend's, the report visible. A queue that can call back calls step.mismatched(step) at
  // a mismatch; on a GPU the report alone says so.
  virtual void run(Stream stream, const HeaderStep& step) = 0;

  // Returns the permit of a communicator to have windows, held as long as it has any. Throws Error
  // if others hold all of them.
  virtual std::shared_ptr<void> permit_windows() { return nullptr; }
  // Makes a rank's own window. Null: the machine has no windows. Throws Error where there is no
  // memory.
  virtual std::unique_ptr<Windows> make_windows(const WindowRequest&) { return nullptr; }
  virtual bool has_windows() const { return false; }
  // Returns true if fused calls may be of these formats; `second`: of sums on their way to all.
  virtual bool fuses(const codec::Spec& /*first*/, const codec::Spec& /*second*/,
                     codec::Dtype) const {
    return true;
  }

  // Enqueues a fused call on windows that the backend has made, as combine() does its works: the
  // caller keeps `call` as it is. Calls on the same windows follow each other, in one order on all
  // ranks. It waits for the peers; where that fails nothing is written, and call.failed() called.
  virtual void fuse(Stream, const FusedCall&) {}

  // Calls done(context) once the backend no longer needs what was enqueued on `stream` before.
  // `done` must not call the backend.
  virtual void notify(Stream stream, void (*done)(void*), void* context) = 0;

  // The recording that goes on on a stream, by a number that is unique in this process; 0: none.
  virtual uint64_t recording(Stream stream) = 0;

  // Sets `in_use` to false when the graph that is being recorded can no longer run.
  virtual void release_with_graph(Stream stream,
                                  const std::shared_ptr<std::atomic<bool>>& in_use) = 0;

  // Adds one to a number in the backend's memory.
  virtual void increment(Stream stream, uint64_t* number) = 0;

  // Returns true if a null stream stands for "done on return" (host), and not for a queue (CUDA).
  virtual bool null_stream_is_synchronous() const = 0;

 private:
  friend class OnMachine;
  // Makes its GPU the thread's own, where it is one's, and takes that back.
  virtual void enter() {}
  virtual void leave() noexcept {}
};

// A thread of ours that calls NCCL is on the backend's GPU meanwhile. NCCL leaves a thread on the
// device on which it has found it: on one that has used none that is device 0, which would get a
// context by it.
class OnMachine {
 public:
  explicit OnMachine(Backend& backend) : backend_(backend) { backend_.enter(); }
  ~OnMachine() { backend_.leave(); }
  OnMachine(const OnMachine&) = delete;
  OnMachine& operator=(const OnMachine&) = delete;

 private:
  Backend& backend_;
};

}  // namespace terse
