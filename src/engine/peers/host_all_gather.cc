#include "engine/peers/host_all_gather.h"

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/log.h"

namespace terse {
namespace {

void wait_and_warn(const std::stop_token& stop, const Communicator& c) {
  const std::chrono::seconds usual(c.settings.timeout_seconds);
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any().wait_for(lock, stop, usual, [] { return false; });
  if (stop.stop_requested()) return;
  c.log(LogLevel::kWarn,
        "NCCL has not come back from connecting the ranks for {} s (TERSE_TIMEOUT); they are to "
        "compare their settings: is terse in use on all of them?",
        usual.count());
}

// Ends NCCL's group. NCCL connects ranks that first meet, and waits for them without a limit: a
// thread warns if that takes long.
ncclResult_t end_group(const Communicator& c) {
  std::jthread watch;
  try {
    if (!c.agreed().number()) watch = std::jthread(wait_and_warn, std::cref(c));
  } catch (const std::system_error&) {
    // without a thread there is no warning
  }
  return c.library.nccl.GroupEnd();
}

}  // namespace

std::unique_ptr<ControlBuffer> make_control_buffer(const Communicator& c, size_t most,
                                                   std::optional<int> peer) {
  return c.with_context(
      [&] { return std::make_unique<ControlBuffer>(c.backend, peer ? 1 : c.ranks, most); });
}

HostAllGather::HostAllGather(Communicator& communicator, size_t bytes, std::optional<int> peer)
    : c_(communicator),
      peer_(peer),
      own_(make_control_buffer(c_, bytes, peer)),
      control_buffer_(*own_) {}

HostAllGather::HostAllGather(Communicator& communicator)
    : c_(communicator), control_buffer_(*communicator.memory().control_buffer()) {}

// Leaves memory that an unfinished all-gather may still use, perhaps for ever, to the communicator.
HostAllGather::~HostAllGather() {
  if (own_ != nullptr && !own_->has_ended()) c_.memory().leave(std::move(own_));
}

void HostAllGather::post(std::span<const char> words) {
  c_.with_context([&] { control_buffer_.post(words); });
}

void HostAllGather::start() const {
  const NcclTable& nccl = c_.library.nccl;
  const ControlBuffer& m = control_buffer_;
  const auto begun = [&](ncclResult_t result, const char* call) {
    check_begun(c_.library, result, call);
  };
  if (!peer_)
    return begun(nccl.AllGather(m.own(), m.slot(0), m.slot_bytes(), ncclUint8, c_.comm, m.stream()),
                 "ncclAllGather");
  begun(nccl.Send(m.own(), m.slot_bytes(), ncclUint8, *peer_, c_.comm, m.stream()), "ncclSend");
  begun(nccl.Recv(m.slot(slot_of(*peer_)), m.slot_bytes(), ncclUint8, *peer_, c_.comm, m.stream()),
        "ncclRecv");
}

// Waits until what was started has ended. Returns false at the limit.
bool HostAllGather::wait(Clock::time_point limit) const {
  if (!c_.wait_until([&] { return control_buffer_.idle(); }, limit)) return false;
  c_.health().require_healthy();
  return true;
}

void HostAllGather::finish(Clock::time_point start, Timeout timeout) {
  const std::chrono::seconds usual(c_.settings.timeout_seconds), longer = 10 * usual;
  if (!wait(start + usual)) {
    if (timeout == Timeout::kInit)
      c_.fail(ncclSystemError, "not every rank answered within {} s (TERSE_TIMEOUT)",
              usual.count());
    c_.log(LogLevel::kWarn,
           "still waits for all ranks to come to a call on which they decide together");
    if (!wait(start + longer))
      c_.fail(ncclSystemError,
              "not every rank came to a call on which they decide together within {} s (10 times "
              "TERSE_TIMEOUT)",
              longer.count());
  }
  if (const std::optional<int> silent = control_buffer_.read())
    c_.fail(ncclRemoteError, "nothing came from rank {}", peer_.value_or(*silent));
}

// Work of a failed all-gather may still end, unless only NCCL's abort ends it.
void HostAllGather::leave() noexcept {
  const auto limit = Clock::now() + std::chrono::seconds(1);
  try {
    while (!control_buffer_.idle() && Clock::now() < limit && c_.health().async_state())
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  } catch (const Error& e) {
    c_.log(LogLevel::kInfo, "{}", e.message);
  }
}

void run_all_gathers(std::span<HostAllGather* const> exchanges, Timeout timeout) {
  if (exchanges.empty()) return;
  const NcclLibrary& library = exchanges.front()->c_.library;
  const auto each = [&](const auto& part) {
    for (HostAllGather* e : exchanges) e->c_.with_context([&] { part(*e); });
  };
  each([](const HostAllGather& e) { e.c_.health().require_usable(); });
  try {
    check(library, library.nccl.GroupStart(), "ncclGroupStart");
    try {
      each([](const HostAllGather& e) { e.start(); });
    } catch (...) {
      library.nccl.GroupEnd();
      throw;
    }
    const ncclResult_t end = end_group(exchanges.front()->c_);
    each([&](const HostAllGather& e) { e.c_.settle(end, "ncclGroupEnd"); });
    // NCCL may have waited for the ranks itself, to connect them: they have come.
    const auto launched = HostAllGather::Clock::now();
    each([&](HostAllGather& e) { e.finish(launched, timeout); });
  } catch (const std::exception& cause) {
    for (HostAllGather* e : exchanges) {
      e->c_.health().poison(cause);
      e->leave();
    }
    throw;
  }
}

void drain_all_gathers(std::span<HostAllGather* const> exchanges) noexcept {
  try {
    run_all_gathers(exchanges, Timeout::kInit);
  } catch (const Error& e) {
    exchanges.front()->c_.log(LogLevel::kInfo, "{}", e.message);
  }
}

}  // namespace terse
