// A communicator over an NCCL and a backend that do nothing: what is left is the engine's own work.
#pragma once

#include <functional>

#include "base/error.h"
#include "engine/comm/communicator.h"

namespace terse::test {

class IdleBackend : public Backend {
 public:
  bool gpu = false;

  bool is_gpu() const override { return gpu; }

  void* allocate(size_t) override { return &memory_; }
  void release(void*) noexcept override {}
  void trim() noexcept override {}
  void* allocate_visible(size_t) override { return visible_; }
  void release_visible(void*) noexcept override {}
  void upload(Stream, void*, const void*, size_t) override {}
  void download(Stream, void*, const void*, size_t) override {}
  Stream create_stream(Stream) override { return reinterpret_cast<Stream>(++handles_); }
  void destroy_stream(Stream) noexcept override {}
  void synchronize(Stream) override { ++waits; }
  bool idle(Stream) override { return ends; }
  Event create_event() override { return reinterpret_cast<Event>(++handles_); }
  void destroy_event(Event) noexcept override {}
  void record(Event, Stream) override {}
  void wait(Stream, Event) override { ++hops; }
  uint64_t timing_period() const override { return timing; }
  Event create_timer() override { return create_event(); }
  std::optional<double> seconds(Event, Event) override { return 1e-6; }
  void load() override {}
  void combine(Stream, const std::vector<codec::Combine>& works, const uint64_t*) override {
    combines += works.size();
  }
  void copy(Stream, const std::vector<Copy>&) override {}
  void compare(Stream, const codec::Comparison&) override {}
  void checksum(Stream, const codec::Checksum&) override {}
  void learn(Stream, const codec::Learning&) override {}
  void run(Stream, const HeaderStep&) override {}
  void notify(Stream, void (*done)(void*), void* context) override { done(context); }
  uint64_t recording(Stream) override {
    if (recording_fails != ncclSuccess) fail(recording_fails, "nothing is known of the stream");
    return recorded;
  }
  void release_with_graph(Stream, const std::shared_ptr<std::atomic<bool>>&) override {}
  void increment(Stream, uint64_t*) override {}
  bool null_stream_is_synchronous() const override { return false; }

  std::atomic<bool> ends{true};  // what is enqueued
  std::atomic<size_t> waits{0};  // for a stream, on the host
  size_t combines = 0, hops = 0;
  uint64_t timing = 0;    // 0: nothing is timed
  uint64_t recorded = 0;  // 0: no graph is recorded
  ncclResult_t recording_fails = ncclSuccess;

 private:
  uint64_t memory_ = 0;
  char visible_[256] = {};
  uintptr_t handles_ = 0;
};

// Of NCCL's groups, and of those with messages and collectives in one.
inline size_t groups_started = 0, groups_mixed = 0;
struct GroupContent {
  bool messages = false, collectives = false;
};
inline GroupContent group_content;             // the one that is open
inline ncclResult_t nccl_state = ncclSuccess;  // of the communicator

inline std::function<void()> at_group_end;

inline int idle_ranks = 8;

// NCCL's functions, with idle_ranks ranks, of which this is number 3.
inline const NcclLibrary& idle_nccl() {
  static const NcclLibrary library = [] {
    NcclLibrary l{};
    l.nccl.GetLastError = [](ncclComm_t) { return ""; };
    l.nccl.CommCount = [](ncclComm_t, int* count) { return *count = idle_ranks, ncclSuccess; };
    l.nccl.CommUserRank = [](ncclComm_t, int* rank) { return *rank = 3, ncclSuccess; };
    l.nccl.CommGetAsyncError = [](ncclComm_t, ncclResult_t* r) {
      return *r = nccl_state, ncclSuccess;
    };
    l.nccl.AllReduce = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                          cudaStream_t) { return group_content.collectives = true, ncclSuccess; };
    l.nccl.ReduceScatter = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t,
                              cudaStream_t) { return ncclSuccess; };
    l.nccl.Reduce = [](const void*, void*, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t,
                       cudaStream_t) { return ncclSuccess; };
    l.nccl.AllGather = [](const void*, void*, size_t, ncclDataType_t, ncclComm_t, cudaStream_t) {
      return ncclSuccess;
    };
    l.nccl.Send = [](const void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
      return group_content.messages = true, ncclSuccess;
    };
    l.nccl.Recv = [](void*, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t) {
      return ncclSuccess;
    };
    l.nccl.GroupStart = [] {
      group_content = {};
      return ++groups_started, ncclSuccess;
    };
    l.nccl.GroupEnd = [] {
      groups_mixed += group_content.messages && group_content.collectives;
      if (at_group_end) at_group_end();
      return ncclSuccess;
    };
    return l;
  }();
  return library;
}

// As after its first calls: the ranks have agreed on the scheme and have the memory.
struct IdleCommunicator {
  explicit IdleCommunicator(const Scheme& scheme, const Settings& settings = terse::settings())
      : state(settings, idle_nccl(), backend, nullptr) {
    state.routing().plans().learn(
        plan::topology_of(std::vector<uint64_t>(static_cast<size_t>(state.ranks))));
    state.agreed().begin();
    state.agreed().add(require_on_ranks(scheme, state.ranks), {});
    state.memory().reservations().add({.scratch = static_cast<size_t>(-1)});
  }

  IdleBackend backend;
  Communicator state;
};

}  // namespace terse::test
