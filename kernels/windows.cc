#include "kernels/windows.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/device/tuning.h"

namespace terse::cuda {
namespace {

using kernels::WindowHeader;

struct Handle {
  cudaIpcMemHandle_t ipc;
  uint64_t process;  // nonce
  uint64_t process_namespace;
  uint64_t address;
  uint64_t gpu;  // which it is, in all processes
  uint64_t nonce, bytes;
  int32_t process_number;  // in its namespace
  int32_t device;          // number in its process
  uint32_t blocks, has_ipc;
};
static_assert(sizeof(Handle) <= sizeof(WindowHandle));

Handle decode(const WindowHandle& handle) {
  Handle decoded;
  std::memcpy(&decoded, handle.bytes.data(), sizeof decoded);
  return decoded;
}

uint64_t draw_nonce() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Of this process: numbers of processes are those of a container.
uint64_t process_nonce() {
  static const uint64_t nonce = draw_nonce();
  return nonce;
}

uint64_t gpu_of(const Device& device) {
  char bus[64] = "";
  check(cudaDeviceGetPCIBusId(bus, sizeof bus, device.number), "cudaDeviceGetPCIBusId");
  return std::hash<std::string_view>()(bus);
}

WindowHeader* header_of(char* window) { return reinterpret_cast<WindowHeader*>(window); }

}  // namespace

WindowPool::Service::Service(WindowPool& pool)
    : lock_(pool.service_mutex_), stream_(pool.service_stream()) {}

void WindowPool::Service::copy(void* to, const void* from, size_t bytes,
                               cudaMemcpyKind kind) const {
  check(cudaMemcpyAsync(to, from, bytes, kind, stream_), "cudaMemcpyAsync");
  check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

cudaStream_t WindowPool::service_stream() {
  if (stream_ == nullptr)
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  return stream_;
}

std::shared_ptr<void> WindowPool::permit() {
  {
    const std::lock_guard lock(mutex_);
    if (permits_ == kMaxCommunicators)
      fail(ncclSystemError, "device {} has the windows of {} communicators, and no more",
           device_.number, kMaxCommunicators);
    ++permits_;
  }
  return {this, [](void* pool) {  // called, too, if there is no memory for the pointer
            WindowPool& own = *static_cast<WindowPool*>(pool);
            const std::lock_guard lock(own.mutex_);
            --own.permits_;
          }};
}

WindowPool::Block WindowPool::take(size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto fits = [&](const Block& b) {
    return b.bytes >= bytes && b.bytes / 2 <= bytes && is_left(b);
  };
  put_.reserve(put_.size() + taken_ + 1);
  Block block{.bytes = bytes};
  if (const auto found = std::ranges::find_if(put_, fits); found != put_.end()) {
    block = {.memory = found->memory, .bytes = found->bytes, .is_exported = found->is_exported};
    put_.erase(found);
  } else {
    void* memory = nullptr;
    check(cudaMalloc(&memory, bytes), "cudaMalloc");
    block.memory = static_cast<char*>(memory);
  }
  ++taken_;
  try {
    const std::vector<char> zeros(kernels::kWindowHeaderBytes);
    Service(*this).copy(block.memory, zeros.data(), zeros.size(), cudaMemcpyHostToDevice);
  } catch (...) {
    put_.push_back(block);
    --taken_;
    throw;
  }
  return block;
}

void WindowPool::put(const Block& block) noexcept {
  const std::lock_guard lock(mutex_);
  put_.push_back(block);  // has room since take()
  --taken_;
}

void WindowPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  std::erase_if(put_, [this](const Block& b) {
    try {
      if (b.is_exported || !is_left(b)) return false;
    } catch (const std::exception&) {
      return false;
    }
    forget(cudaFree(b.memory));
    return true;
  });
  const std::lock_guard service(service_mutex_);
  if (stream_ != nullptr) forget(cudaStreamDestroy(std::exchange(stream_, nullptr)));
}

bool WindowPool::is_left(const Block& block) {
  if (block.ranks == 0) return true;
  WindowHeader::FromRank from[kernels::kMaxWindows];
  Service(*this).copy(from, header_of(block.memory)->from, sizeof from, cudaMemcpyDeviceToHost);
  for (uint32_t rank = 0; rank < block.ranks; ++rank)
    if (rank != block.self && from[rank].gone == 0) return false;
  return true;
}

GpuWindows::GpuWindows(const Means& means, const WindowRequest& request)
    : means_(means),
      rank_(request.rank),
      ranks_(request.ranks),
      area_bytes_(request.area_bytes),
      kinds_(request.kinds),
      may_share_gpu_(request.may_share_gpu),
      nonce_(draw_nonce()) {
  if (static_cast<size_t>(ranks_) > kernels::kMaxWindows)
    fail(ncclInvalidUsage, "{} ranks are more than {}", ranks_, kernels::kMaxWindows);
  const OnDevice on(means_.device);
  const DuringCapture relaxed;
  int cooperates = 0;
  check(cudaDeviceGetAttribute(&cooperates, cudaDevAttrCooperativeLaunch, means_.device.number),
        "cudaDeviceGetAttribute");
  if (cooperates == 0)
    fail(ncclSystemError, "device {} does not run all of a kernel at once", means_.device.number);
  blocks_ = means_.launcher.fused_blocks();
  block_ = means_.pool.take(kernels::kWindowHeaderBytes + bytes(area_bytes_, kinds_));
  of_rank_[rank_] = block_.memory;
  try {
    words_ = new (means_.visible.take(sizeof(Words))) Words{};
    check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    check(cudaEventCreateWithFlags(&last_, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  } catch (...) {
    destroy();
    throw;
  }
}

GpuWindows::~GpuWindows() {
  peers_ends_.clear();
  const OnDevice on(means_.device, std::nothrow);
  const DuringCapture relaxed;
  destroy();
}

WindowHandle GpuWindows::handle() const {
  const OnDevice on(means_.device);
  const DuringCapture relaxed;
  Handle own{.ipc = {},
             .process = process_nonce(),
             .process_namespace = process_namespace(),
             .address = reinterpret_cast<uintptr_t>(block_.memory),
             .gpu = gpu_of(means_.device),
             .nonce = nonce_,
             .bytes = block_.bytes,
             .process_number = getpid(),
             .device = means_.device.number,
             .blocks = blocks_,
             .has_ipc = 0};
  // Ranks of one process do without.
  const cudaError_t exported = cudaIpcGetMemHandle(&own.ipc, block_.memory);
  forget(exported);
  own.has_ipc = exported == cudaSuccess;
  WindowHandle handle;
  std::memcpy(handle.bytes.data(), &own, sizeof own);
  return handle;
}

void GpuWindows::open(std::span<const WindowHandle> by_rank) {
  const OnDevice on(means_.device);
  const DuringCapture relaxed;
  nonces_[rank_] = nonce_;
  for (const WindowHandle& handle : by_rank)
    if (decode(handle).process != process_nonce()) block_.is_exported = true;
  each_peer([&](int peer) { open(peer, by_rank[static_cast<size_t>(peer)]); });
}

void GpuWindows::open(int peer, const WindowHandle& handle) {
  const Handle theirs = decode(handle);
  const bool shares = theirs.gpu == gpu_of(means_.device);
  if (shares && !may_share_gpu_) fail(ncclSystemError, "rank {} shares this rank's GPU", peer);
  if (theirs.process == process_nonce() && shares) {
    of_rank_[peer] = reinterpret_cast<char*>(theirs.address);
  } else if (theirs.process == process_nonce()) {
    int can = 0;
    check(cudaDeviceCanAccessPeer(&can, means_.device.number, theirs.device),
          "cudaDeviceCanAccessPeer");
    if (can == 0)
      fail(ncclSystemError, "device {} does not reach device {}, of rank {}", means_.device.number,
           theirs.device, peer);
    const cudaError_t enabled = cudaDeviceEnablePeerAccess(theirs.device, 0);
    forget(enabled);
    if (enabled != cudaErrorPeerAccessAlreadyEnabled) check(enabled, "cudaDeviceEnablePeerAccess");
    of_rank_[peer] = reinterpret_cast<char*>(theirs.address);
  } else {
    if (theirs.has_ipc == 0)
      fail(ncclSystemError, "the window of rank {} is out of reach: CUDA IPC does not export it",
           peer);
    void* memory = nullptr;
    const cudaError_t opened =
        cudaIpcOpenMemHandle(&memory, theirs.ipc, cudaIpcMemLazyEnablePeerAccess);
    forget(opened);
    if (opened != cudaSuccess)
      fail(ncclSystemError, "the window of rank {} is out of reach: cudaIpcOpenMemHandle gave {}",
           peer, cudaGetErrorName(opened));
    of_rank_[peer] = static_cast<char*>(memory);
    by_ipc_[peer] = true;
    // Elsewhere the number is another process's.
    if (theirs.process_namespace != 0 && theirs.process_namespace == process_namespace())
      peers_ends_.emplace_back(theirs.process_number, [this, peer] {
        std::atomic_ref(words_->left).fetch_or(1u << peer, std::memory_order_release);
      });
  }
  nonces_[peer] = theirs.nonce;
  blocks_ = std::min(blocks_, theirs.blocks);
}

void GpuWindows::fill(kernels::Exchange& exchange) const {
  std::ranges::copy(of_rank_, exchange.window);
  exchange.left = &words_->left;
  exchange.ranks = static_cast<uint32_t>(ranks_);
  exchange.self = static_cast<uint32_t>(rank_);
  exchange.max_warps = blocks_ * kernels::kWarps;
}

void GpuWindows::write_pattern() {
  block_.ranks = static_cast<uint32_t>(ranks_);
  block_.self = static_cast<uint32_t>(rank_);
  is_used_ = true;
  const OnDevice on(means_.device);
  const DuringCapture relaxed;
  kernels::WindowCheck check{.area_bytes = area_bytes_, .wrong = words_->wrong};
  fill(check.exchange);
  check.exchange.abort = &words_->abort;
  std::ranges::copy(nonces_, check.key);
  for (size_t number = 0; number < kAreas; ++number)
    if (kinds_.has(number)) check.area[check.areas++] = area_offset(number);
  means_.launcher.check_window(stream_, check, blocks_);
}

bool GpuWindows::has_ended(std::chrono::seconds patience) const {
  const auto limit = std::chrono::steady_clock::now() + patience;
  for (;;) {
    const cudaError_t state = cudaStreamQuery(stream_);
    forget(state);
    if (state != cudaErrorNotReady) {
      check(state, "the check of windows");
      return true;
    }
    if (std::chrono::steady_clock::now() > limit) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

// All ranks have begun, and the check takes microseconds.
void GpuWindows::check_pattern() {
  constexpr std::chrono::seconds kPatience{10};
  const OnDevice on(means_.device);
  const DuringCapture relaxed;
  if (!has_ended(kPatience))
    fail(ncclSystemError, "what the ranks have written into their windows has not arrived in {} s",
         kPatience.count());
  if (words_->wrong[rank_] != 0)
    fail(ncclSystemError, "a rank has left before all windows were tried");
  each_peer([&](int peer) {
    if (words_->wrong[peer] != 0)
      fail(ncclSystemError, "what rank {} has written into the window is not there", peer);
  });
}

size_t GpuWindows::area_offset(size_t number) const {
  const size_t before = number >= kFirstTurn && !kinds_.halves ? number - kFirstTurn : number;
  return kernels::kWindowHeaderBytes + before * area_bytes_;
}

char* GpuWindows::area(int rank, size_t number) const {
  return of_rank_[static_cast<size_t>(rank)] + area_offset(number);
}

void GpuWindows::name_in_steps(cudaStream_t stream, uint64_t number,
                               const codec::CallHeader& call) const {
  kernels::CallInSteps named{.ranks = static_cast<uint32_t>(ranks_),
                             .self = static_cast<uint32_t>(rank_),
                             .number = number,
                             .call = call};
  std::ranges::copy(of_rank_, named.window);
  means_.launcher.name_in_steps(stream, named);
  if (earlier_ != nullptr) earlier_->name_in_steps(stream, number, call);
}

void GpuWindows::fuse(cudaStream_t stream, const FusedCall& call, bool is_recorded) {
  if (earlier_ != nullptr && !is_recorded) earlier_->name_in_steps(stream, call.number, call.own);
  kernels::FusedBatch fused =
      kernels::make_fused_batch({call.pushes, call.makes, call.takes}, call.replays);
  kernels::Exchange& exchange = fused.exchange;
  fill(exchange);
  exchange.abort = call.is_ended;
  exchange.slot_bytes = call.pushing && call.sharing ? 0 : area_bytes_;
  exchange.pushing = call.pushing;
  exchange.sharing = call.sharing;
  exchange.number = is_recorded ? 0 : call.number;
  exchange.call = call.own;
  exchange.digest = codec::digest(call.own);
  exchange.report = call.report;
  // A graph runs at any time, beside other calls: only their order on the host is that on all
  // ranks.
  has_recorded_ = has_recorded_ || is_recorded;
  if (has_recorded_)
    check(cudaStreamWaitEvent(stream, last_, is_recorded ? cudaEventWaitExternal : 0),
          "cudaStreamWaitEvent");
  means_.launcher.fuse(stream, fused, blocks_);
  check(cudaEventRecordWithFlags(last_, stream, is_recorded ? cudaEventRecordExternal : 0),
        "cudaEventRecordWithFlags");
}

void GpuWindows::mark_gone(char* window) const {
  WindowHeader::FromRank& there = header_of(window)->from[rank_];
  const WindowPool::Service service(means_.pool);
  service.copy(&there.number_in_steps, &kernels::kBehindAll, sizeof kernels::kBehindAll,
               cudaMemcpyHostToDevice);
  constexpr uint32_t kGone = 1;
  service.copy(&there.gone, &kGone, sizeof kGone, cudaMemcpyHostToDevice);
}

// A check that waits in vain is ended; calls are done, or have been. Where not all ranks have
// opened all windows nobody has written there, nor may anybody later.
void GpuWindows::destroy() noexcept {
  if (words_ != nullptr) {
    reinterpret_cast<volatile uint32_t&>(words_->abort) = 1;
    if (stream_ != nullptr) forget(cudaStreamSynchronize(stream_));
  }
  each_peer([&](int peer) {
    if (of_rank_[peer] == nullptr) return;
    if (is_used_) try {
        mark_gone(of_rank_[peer]);
      } catch (const std::exception&) {
        // The peer keeps the memory.
      }
    if (by_ipc_[peer]) forget(cudaIpcCloseMemHandle(of_rank_[peer]));
  });
  if (last_ != nullptr) forget(cudaEventDestroy(last_));
  if (stream_ != nullptr) forget(cudaStreamDestroy(stream_));
  if (words_ != nullptr) means_.visible.put(words_);
  means_.pool.put(block_);
}

}  // namespace terse::cuda
