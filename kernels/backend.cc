#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <span>

#include "backend/cuda_module.h"
#include "base/first_made.h"
#include "kernels/copy_rows.h"
#include "kernels/device.h"
#include "kernels/fused_kernels.h"
#include "kernels/launch.h"
#include "kernels/pool.h"
#include "kernels/windows.h"

namespace terse {
namespace {

using cuda::check;
using cuda::DuringCapture;
using cuda::forget;
using cuda::InContext;
using cuda::OnDevice;

constexpr cuda::Pool::Source kDeviceMemory = {
    [](void** memory, size_t bytes) { return cudaMalloc(memory, bytes); }, "cudaMalloc", cudaFree};
constexpr cuda::Pool::Source kVisibleMemory = {
    [](void** memory, size_t bytes) { return cudaHostAlloc(memory, bytes, cudaHostAllocPortable); },
    "cudaHostAlloc", cudaFreeHost};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(int device) : device_(device) {}

  bool is_gpu() const override { return true; }

  // A legacy stream waits for every other stream of the program at each launch. That of a thread is
  // another one in each thread.
  bool takes_calls(Stream stream) const override {
    return !is_legacy(stream) && stream != cudaStreamPerThread;
  }

  std::string device_name() const override {
    char name[128] = "";
    return cuda::driver().name(name, sizeof name, device_.number) == CUDA_SUCCESS ? name : "";
  }

  void* allocate(size_t bytes) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    return pool_.take(bytes);
  }
  void release(void* memory) noexcept override { pool_.put(memory); }
  void trim() noexcept override {
    const OnDevice on(device_, std::nothrow);
    const DuringCapture relaxed;
    pool_.trim();
    visible_.trim();
    windows_.trim();
  }

  void* allocate_visible(size_t bytes) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    return visible_.take(bytes);
  }
  void release_visible(void* memory) noexcept override { visible_.put(memory); }

  void upload(Stream stream, void* to, const void* from, size_t bytes) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream), "cudaMemcpyAsync");
  }
  void download(Stream stream, void* to, const void* from, size_t bytes) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, stream), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }

  Stream create_stream(Stream like) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    int priority = 0;
    if (!is_legacy(like)) check(cudaStreamGetPriority(like, &priority), "cudaStreamGetPriority");
    Stream stream = nullptr;
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority),
          "cudaStreamCreateWithPriority");
    return stream;
  }
  void destroy_stream(Stream stream) noexcept override {
    const OnDevice on(device_, std::nothrow);
    const DuringCapture relaxed;
    forget(cudaStreamSynchronize(stream));
    forget(cudaStreamDestroy(stream));
  }
  void synchronize(Stream stream) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  bool idle(Stream stream) override {
    const InContext in(device_);
    const DuringCapture relaxed;
    const cudaError_t result = cudaStreamQuery(stream);
    forget(result);
    if (result != cudaErrorNotReady) check(result, "cudaStreamQuery");
    return result == cudaSuccess;
  }

  Event create_event() override {
    return create_event("cudaEventCreateWithFlags", [](cudaEvent_t* event) {
      return cudaEventCreateWithFlags(event, cudaEventDisableTiming);
    });
  }
  Event create_timer() override {
    return create_event("cudaEventCreate",
                        [](cudaEvent_t* event) { return cudaEventCreate(event); });
  }
  void destroy_event(Event event) noexcept override {
    const OnDevice on(device_, std::nothrow);
    forget(cudaEventDestroy(handle(event)));
  }
  void record(Event event, Stream stream) override {
    const OnDevice on(device_);
    check(cudaEventRecord(handle(event), stream), "cudaEventRecord");
  }
  void wait(Stream stream, Event event) override {
    const OnDevice on(device_);
    check(cudaStreamWaitEvent(stream, handle(event), 0), "cudaStreamWaitEvent");
  }

  // A call has two timers for each step. What they cost has not been measured on a GPU: few.
  uint64_t timing_period() const override { return 16; }
  std::optional<double> seconds(Event from, Event to) override {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    // cudaEventElapsedTime alone may miss a failure of what came before the events, and is not what
    // makes memory that the device has written the host's to read.
    for (const Event event : {from, to}) {
      const cudaError_t state = cudaEventQuery(handle(event));
      forget(state);
      if (state == cudaErrorNotReady) return {};
      check(state, "cudaEventQuery");
    }
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, handle(from), handle(to)), "cudaEventElapsedTime");
    return 1e-3 * milliseconds;
  }

  void load() override {
    first_made(launcher_, [this] { return cuda::Launcher(device_); });
  }

  void combine(Stream stream, const std::vector<codec::Combine>& works,
               const uint64_t* replays) override {
    const OnDevice on(device_);
    launcher().combine(stream, works, replays);
  }

  void copy(Stream stream, const std::vector<Copy>& works) override {
    const OnDevice on(device_);
    for (std::span<const Copy> left = works; !left.empty();) {
      const cuda::Rows rows = cuda::rows_of(left);
      copy(stream, rows);
      left = left.subspan(rows.count);
    }
  }

  void compare(Stream stream, const codec::Comparison& work) override {
    const OnDevice on(device_);
    launcher().compare(stream, work);
  }

  void checksum(Stream stream, const codec::Checksum& work) override {
    const OnDevice on(device_);
    launcher().checksum(stream, work);
  }

  void learn(Stream stream, const codec::Learning& work) override {
    const OnDevice on(device_);
    launcher().learn(stream, work);
  }

  void run(Stream stream, const HeaderStep& step) override {
    const OnDevice on(device_);
    launcher().run(stream, step.work);
    if (step.windows == nullptr || step.work.stage != codec::HeaderWork::Stage::kWrite) return;
    if (recording(stream) == 0)
      static_cast<cuda::GpuWindows&>(*step.windows)
          .name_in_steps(stream, step.number, step.work.own);
  }

  // As all ranks may not have them, they decide together when they make them.
  bool has_windows() const override { return true; }
  bool fuses(const codec::Spec& first, const codec::Spec& second, codec::Dtype raw) const override {
    const kernels::KernelId id{.spec = first, .raw = raw, .transforms = first.hadamard != 0};
    return first == second && kernels::find_fused_kernel(id) != nullptr;
  }
  std::shared_ptr<void> permit_windows() override { return windows_.permit(); }
  std::unique_ptr<Windows> make_windows(const WindowRequest& request) override {
    return std::make_unique<cuda::GpuWindows>(
        cuda::GpuWindows::Means{device_, launcher(), windows_, visible_}, request);
  }
  void fuse(Stream stream, const FusedCall& call) override {
    const OnDevice on(device_);
    static_cast<cuda::GpuWindows&>(*call.windows).fuse(stream, call, recording(stream) != 0);
    copy(stream, call.copies);
  }

  // A launch takes a copy of its parameters.
  void notify(Stream, void (*done)(void*), void* context) override { done(context); }

  uint64_t recording(Stream stream) override {
    if (is_legacy(stream)) return 0;
    const OnDevice on(device_);
    const DuringCapture relaxed;  // it may be the first call to the runtime, which loads code
    const Capture capture = capture_of(stream);
    return capture.active ? capture.id + 1 : 0;
  }

  void release_with_graph(Stream stream,
                          const std::shared_ptr<std::atomic<bool>>& in_use) override {
    using Flag = std::shared_ptr<std::atomic<bool>>;
    const auto gone = [](void* context) {
      const std::unique_ptr<Flag> flag(static_cast<Flag*>(context));
      (*flag)->store(false, std::memory_order_release);
    };
    const OnDevice on(device_);
    const Capture capture = capture_of(stream);
    auto flag = std::make_unique<Flag>(in_use);
    cudaUserObject_t object = nullptr;
    check(cudaUserObjectCreate(&object, flag.get(), gone, 1, cudaUserObjectNoDestructorSync),
          "cudaUserObjectCreate");
    flag.release();  // the object's from now on
    const cudaError_t result =
        cudaGraphRetainUserObject(capture.graph, object, 1, cudaGraphUserObjectMove);
    if (result != cudaSuccess) forget(cudaUserObjectRelease(object, 1));
    check(result, "cudaGraphRetainUserObject");
  }

  void increment(Stream stream, uint64_t* number) override {
    const OnDevice on(device_);
    launcher().increment(stream, number);
  }

  bool null_stream_is_synchronous() const override { return false; }

 private:
  void enter() override { check(device_.enter(), "cuCtxPushCurrent"); }
  void leave() noexcept override { cuda::Device::leave(); }

  // Returns true for the legacy stream, which cannot be captured, has the default priority, and
  // must not be queried while another stream is captured.
  static bool is_legacy(Stream stream) { return stream == nullptr || stream == cudaStreamLegacy; }

  static void copy(Stream stream, const cuda::Rows& rows) {
    const auto& [target, source, bytes, verdict] = rows.first;  // which the runtime does not ask
    if (rows.count == 1)
      check(cudaMemcpyAsync(target, source, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
    else
      check(cudaMemcpy2DAsync(target, rows.target_pitch, source, rows.source_pitch, bytes,
                              rows.count, cudaMemcpyDefault, stream),
            "cudaMemcpy2DAsync");
  }

  template <class Create>
  Event create_event(const char* call, const Create& create) {
    const OnDevice on(device_);
    const DuringCapture relaxed;
    cudaEvent_t event = nullptr;
    check(create(&event), call);
    return reinterpret_cast<Event>(event);
  }

  static cudaEvent_t handle(Event event) { return reinterpret_cast<cudaEvent_t>(event); }

  struct Capture {
    bool active = false;
    unsigned long long id = 0;
    cudaGraph_t graph = nullptr;
  };

  static Capture capture_of(Stream stream) {
    Capture found;
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
#if CUDART_VERSION >= 13000
    const cudaError_t result = cudaStreamGetCaptureInfo(stream, &status, &found.id, &found.graph);
#else
    const cudaError_t result =
        cudaStreamGetCaptureInfo_v2(stream, &status, &found.id, &found.graph);
#endif
    check(result, "cudaStreamGetCaptureInfo");
    if (status == cudaStreamCaptureStatusInvalidated)
      fail(ncclInvalidUsage, "the stream's capture was broken by an earlier call");
    found.active = status == cudaStreamCaptureStatusActive;
    return found;
  }

  // Requires a launcher, which there is from the first agreement on.
  const cuda::Launcher& launcher() const { return *launcher_.load(std::memory_order_acquire); }

  const cuda::Device device_;
  std::atomic<const cuda::Launcher*> launcher_{nullptr};  // as this, for good
  cuda::Pool pool_{kDeviceMemory}, visible_{kVisibleMemory};
  cuda::WindowPool windows_{device_};
};

}  // namespace

extern "C" __attribute__((visibility("default"))) Backend* terse_cuda_backend(int version,
                                                                              int device) {
  if (version != kCudaModuleVersion)
    fail(ncclSystemError, "libterse_cuda.so is of version {}, the library that loads it of {}",
         kCudaModuleVersion, version);
  static std::mutex mutex;
  static auto& backends = *new std::map<int, std::unique_ptr<CudaBackend>>;
  {
    const std::lock_guard lock(mutex);
    if (const auto made = backends.find(device); made != backends.end()) return made->second.get();
  }
  // Called without the lock: the runtime opens the driver (base/first_made.h).
  cuda::require_driver();
  auto backend = std::make_unique<CudaBackend>(device);
  const std::lock_guard lock(mutex);
  return backends.emplace(device, std::move(backend)).first->second.get();
}

}  // namespace terse
