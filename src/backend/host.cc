#include "backend/host.h"

#include <cstring>
#include <new>

#include "backend/host_windows.h"
#include "base/error.h"

namespace terse {
namespace {

constexpr std::align_val_t kAlignment{256};

class HostBackend final : public Backend {
 public:
  explicit HostBackend(const NcclLibrary& library) : library_(library), host_(library.host) {}

  bool is_gpu() const override { return false; }

  void* allocate(size_t bytes) override {
    void* memory = ::operator new(bytes, kAlignment, std::nothrow);
    if (memory == nullptr) fail(ncclSystemError, "there is no memory for {} B of scratch", bytes);
    return memory;
  }
  void release(void* memory) noexcept override { ::operator delete(memory, kAlignment); }
  void trim() noexcept override {}

  void* allocate_visible(size_t bytes) override { return allocate(bytes); }
  void release_visible(void* memory) noexcept override { release(memory); }

  // Calls from the host are in no order with a stream's work, nor need they be: nobody uploads to
  // memory that is in use.
  void upload(Stream, void* to, const void* from, size_t bytes) override {
    std::memcpy(to, from, bytes);
  }
  void download(Stream stream, void* to, const void* from, size_t bytes) override {
    synchronize(stream);
    std::memcpy(to, from, bytes);
  }

  size_t communicate_queues() const override { return 2; }

  Stream create_stream(Stream) override {
    Stream stream = nullptr;
    verify(host_.StreamCreate(&stream), "hostncclStreamCreate");
    return stream;
  }
  void destroy_stream(Stream stream) noexcept override { host_.StreamDestroy(stream); }
  void synchronize(Stream stream) override {
    verify(host_.StreamSynchronize(stream), "hostncclStreamSynchronize");
  }
  bool idle(Stream stream) override { return host_.StreamQuery(stream) != ncclInProgress; }

  Event create_event() override {
    hostncclEvent_t event = nullptr;
    verify(host_.EventCreate(&event), "hostncclEventCreate");
    return reinterpret_cast<Event>(event);
  }
  void destroy_event(Event event) noexcept override { host_.EventDestroy(handle(event)); }
  void record(Event event, Stream stream) override {
    verify(host_.EventRecord(handle(event), stream), "hostncclEventRecord");
  }
  void wait(Stream stream, Event event) override {
    verify(host_.StreamWaitEvent(stream, handle(event)), "hostncclStreamWaitEvent");
  }

  // No difference was to be measured between all and none.
  uint64_t timing_period() const override { return 1; }
  Event create_timer() override { return create_event(); }
  std::optional<double> seconds(Event from, Event to) override {
    double seconds = 0;
    const ncclResult_t result = host_.EventElapsedTime(&seconds, handle(from), handle(to));
    if (result == ncclInProgress) return {};
    verify(result, "hostncclEventElapsedTime");
    return seconds;
  }

  void load() override {}

  void combine(Stream stream, const std::vector<codec::Combine>& works, const uint64_t*) override {
    enqueue(stream, works, [](const auto& all) {
      for (const codec::Combine& work : all) codec::combine(work);
    });
  }

  void copy(Stream stream, const std::vector<Copy>& works) override {
    enqueue(stream, works, [](const auto& all) {
      for (const Copy& work : all)
        if (work.verdict == nullptr || *work.verdict == 0)
          std::memcpy(work.target, work.source, work.bytes);
    });
  }

  void compare(Stream stream, const codec::Comparison& work) override {
    enqueue(stream, work, [](const auto& comparison) { codec::compare(comparison); });
  }

  void checksum(Stream stream, const codec::Checksum& work) override {
    enqueue(stream, work, [](const auto& check) { codec::checksum(check); });
  }

  void learn(Stream stream, const codec::Learning& work) override {
    enqueue(stream, work, [](const auto& learning) { codec::learn(learning); });
  }

  void run(Stream stream, const HeaderStep& step) override {
    enqueue(stream, step, [](const HeaderStep& step) {
      if (step.windows != nullptr && step.work.stage == codec::HeaderWork::Stage::kWrite)
        step.windows->name(step.number, step.work.own);
      if (!codec::run(step.work)) step.mismatched(step);
    });
  }

  bool has_windows() const override { return true; }
  std::unique_ptr<Windows> make_windows(const WindowRequest& request) override {
    return make_host_windows(request);
  }
  void fuse(Stream stream, const FusedCall& call) override {
    enqueue(stream, call, [](const FusedCall& call) { terse::run(call); });
  }

  void notify(Stream stream, void (*done)(void*), void* context) override {
    verify(host_.LaunchHostFunc(stream, done, context), "hostncclLaunchHostFunc");
  }

  // hostnccl's streams cannot be recorded.
  uint64_t recording(Stream) override { return 0; }
  void release_with_graph(Stream, const std::shared_ptr<std::atomic<bool>>&) override {}
  void increment(Stream, uint64_t*) override {}

  bool null_stream_is_synchronous() const override { return true; }

 private:
  // Enqueues a function without state of what the caller keeps.
  template <class Work, class Run>
  void enqueue(Stream stream, const Work& work, Run) {
    const auto run = [](void* context) { Run{}(*static_cast<const Work*>(context)); };
    verify(host_.LaunchHostFunc(stream, run, const_cast<Work*>(&work)), "hostncclLaunchHostFunc");
  }

  static hostncclEvent_t handle(Event event) { return reinterpret_cast<hostncclEvent_t>(event); }
  void verify(ncclResult_t result, const char* call) const { check(library_, result, call); }

  const NcclLibrary& library_;
  const HostStreamTable& host_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const NcclLibrary& library) {
  leave_windows_at_exit();  // soon behind NCCL's own, and so shortly before it
  return std::make_unique<HostBackend>(library);
}

}  // namespace terse
