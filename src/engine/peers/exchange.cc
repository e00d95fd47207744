#include "engine/peers/exchange.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "policy/settings.h"

namespace terse {

Exchange::Exchange(Communicator& communicator, size_t bytes, std::optional<int> peer)
    : c_(communicator), bytes_(1 + bytes), peer_(peer), all_(place(c_.ranks)) {
  try {
    stream_ = c_.backend.create_stream(nullptr);
    memory_ = static_cast<char*>(c_.backend.allocate(all_.size() + bytes_));
  } catch (Error& e) {
    if (stream_ != nullptr) c_.backend.destroy_stream(stream_);
    c_.backend.release(memory_);
    c_.sign(e);
    throw;
  }
}

// What still waits, as not every rank came, may wait for ever, and would use the memory when it
// does not: the communicator has both then.
Exchange::~Exchange() {
  if (!has_ended()) {
    c_.leave(stream_, memory_);
    return;
  }
  c_.backend.destroy_stream(stream_);
  c_.backend.release(memory_);
}

bool Exchange::has_ended() const noexcept {
  try {
    return idle();
  } catch (const Error&) {
    return true;  // the device's, which leaves nothing to wait for
  }
}

namespace {

// Before a rank's words. Without it they are not what the rank has said, but what was there before:
// NCCL ends its work on a GPU in silence when it is aborted.
constexpr char kSaid = 1;

}  // namespace

void Exchange::say(std::span<const char> words) {
  std::vector<char> memory(all_.size() + bytes_);
  memory[all_.size()] = kSaid;
  std::ranges::copy(words, memory.begin() + static_cast<ptrdiff_t>(all_.size()) + 1);
  try {
    c_.backend.upload(stream_, memory_, memory.data(), memory.size());
  } catch (Error& e) {
    c_.sign(e);
    throw;
  }
}

std::span<const char> Exchange::words(int rank) const {
  return std::span(all_).subspan(place(rank), bytes_).subspan(1);
}

void Exchange::start() const {
  const NcclTable& nccl = c_.library.nccl;
  const char* own = memory_ + all_.size();
  if (!peer_)
    return check_begun(c_.library,
                       nccl.AllGather(own, memory_, bytes_, ncclUint8, c_.comm, stream_),
                       "ncclAllGather");
  check_begun(c_.library, nccl.Send(own, bytes_, ncclUint8, *peer_, c_.comm, stream_), "ncclSend");
  char* theirs = memory_ + place(*peer_);
  check_begun(c_.library, nccl.Recv(theirs, bytes_, ncclUint8, *peer_, c_.comm, stream_),
              "ncclRecv");
}

// Until what was started has ended; false: not by the limit.
bool Exchange::wait(Clock::time_point limit) const {
  auto pause = std::chrono::microseconds(20);
  while (!idle()) {
    c_.require_sound();
    if (Clock::now() > limit) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(2 * pause, std::chrono::microseconds(1000));
  }
  c_.require_sound();
  return true;
}

void Exchange::finish(Clock::time_point start, Patience patience) {
  const std::chrono::seconds usual(settings().timeout_seconds), longer = 10 * usual;
  if (!wait(start + usual)) {
    if (patience == Patience::kUsual)
      fail(ncclSystemError, "{}: not every rank answered within {} s (TERSE_TIMEOUT)",
           c_.describe(), usual.count());
    log(LogLevel::kWarn, "{}: still waits for all ranks to come to a call that needs more memory",
        c_.describe());
    if (!wait(start + longer))
      fail(ncclSystemError,
           "{}: not every rank came to a call that needs more memory within {} s (10 times "
           "TERSE_TIMEOUT)",
           c_.describe(), longer.count());
  }
  c_.backend.download(stream_, all_.data(), memory_, all_.size());
  for (int rank = 0; rank < c_.ranks; ++rank)
    if ((!peer_ || rank == *peer_) && all_[place(rank)] != kSaid)
      fail(ncclRemoteError, "{}: nothing came from rank {}", c_.describe(), rank);
}

// What has failed elsewhere may have an end here, too.
void Exchange::leave() noexcept {
  const auto limit = Clock::now() + std::chrono::seconds(1);
  try {
    while (!idle() && Clock::now() < limit)
      std::this_thread::sleep_for(std::chrono::microseconds(100));
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", c_.describe(), e.message);
  }
}

void meet(std::span<Exchange* const> exchanges, Patience patience) {
  if (exchanges.empty()) return;
  const NcclLibrary& library = exchanges.front()->c_.library;
  const auto each = [&](const auto& part) {
    for (Exchange* e : exchanges) {
      try {
        part(*e);
      } catch (Error& error) {
        e->c_.sign(error);
        throw;
      }
    }
  };
  const auto start = Exchange::Clock::now();
  check(library, library.nccl.GroupStart(), "ncclGroupStart");
  try {
    each([](const Exchange& e) { e.start(); });
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  try {
    each([&](const Exchange& e) { e.c_.settle(end, "ncclGroupEnd"); });
    each([&](Exchange& e) { e.finish(start, patience); });
  } catch (...) {
    for (Exchange* e : exchanges) e->leave();
    throw;
  }
}

void part(Exchange& exchange) noexcept {
  try {
    Exchange* const alone = &exchange;
    meet({&alone, 1}, Patience::kUsual);
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", exchange.c_.describe(), e.message);
  }
}

}  // namespace terse
