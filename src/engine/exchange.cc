#include "engine/exchange.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "policy/settings.h"

namespace terse {

Exchange::Exchange(Communicator& communicator, size_t bytes, std::optional<int> peer)
    : c_(communicator), bytes_(bytes), peer_(peer), all_(bytes * static_cast<size_t>(c_.ranks)) {
  try {
    stream_ = c_.backend.create_stream();
    memory_ = static_cast<char*>(c_.backend.allocate(all_.size() + bytes_));
  } catch (Error& e) {
    if (stream_ != nullptr) c_.backend.destroy_stream(stream_);
    c_.backend.release(memory_);
    c_.sign(e);
    throw;
  }
}

// What still waits may wait for ever, and would use the memory when it does not: both are left.
Exchange::~Exchange() {
  if (left_) return;
  c_.backend.destroy_stream(stream_);
  c_.backend.release(memory_);
}

void Exchange::say(std::span<const char> words) {
  try {
    c_.backend.upload(stream_, memory_ + all_.size(), words.data(), bytes_);
  } catch (Error& e) {
    c_.sign(e);
    throw;
  }
}

std::span<const char> Exchange::words(int rank) const {
  return std::span(all_).subspan(bytes_ * static_cast<size_t>(rank), bytes_);
}

void Exchange::start() const {
  const NcclTable& nccl = c_.library.nccl;
  const char* own = memory_ + all_.size();
  const auto begun = [&](ncclResult_t result, const char* call) {
    if (result != ncclInProgress) check(c_.library, result, call);
  };
  if (!peer_)
    return begun(nccl.AllGather(own, memory_, bytes_, ncclUint8, c_.comm, stream_),
                 "ncclAllGather");
  begun(nccl.Send(own, bytes_, ncclUint8, *peer_, c_.comm, stream_), "ncclSend");
  char* theirs = memory_ + bytes_ * static_cast<size_t>(*peer_);
  begun(nccl.Recv(theirs, bytes_, ncclUint8, *peer_, c_.comm, stream_), "ncclRecv");
}

// Until what was started has ended; false: not by the deadline.
bool Exchange::wait(Clock::time_point limit) const {
  auto pause = std::chrono::microseconds(20);
  while (!c_.backend.idle(stream_)) {
    if (Clock::now() > limit || c_.aborted) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  return true;
}

void Exchange::finish(Clock::time_point limit) {
  if (!wait(limit))
    fail(ncclSystemError,
         "{}: not every rank answered within {} s (TERSE_TIMEOUT); is terse in use on all of them?",
         c_.describe(), settings().timeout_seconds);
  c_.backend.download(stream_, all_.data(), memory_, all_.size());
}

void Exchange::leave(Clock::time_point limit) noexcept {
  try {
    left_ = !wait(limit);
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", c_.describe(), e.message);
  }
}

void meet(std::span<Exchange* const> exchanges) {
  if (exchanges.empty()) return;
  const NcclLibrary& library = exchanges.front()->c_.library;
  const auto limit = Exchange::Clock::now() + std::chrono::seconds(settings().timeout_seconds);
  check(library, library.nccl.GroupStart(), "ncclGroupStart");
  try {
    for (const Exchange* e : exchanges) e->start();
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  try {
    for (const Exchange* e : exchanges) e->c_.settle(end, "ncclGroupEnd");
    for (Exchange* e : exchanges) e->finish(limit);
  } catch (...) {
    for (Exchange* e : exchanges) e->leave(limit);
    throw;
  }
}

void part(Exchange& exchange) noexcept {
  try {
    Exchange* const alone = &exchange;
    meet({&alone, 1});
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", exchange.c_.describe(), e.message);
  }
}

}  // namespace terse
