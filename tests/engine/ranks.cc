#include "ranks.h"

#include <algorithm>
#include <exception>
#include <mutex>
#include <stdexcept>
#include <thread>

namespace terse::test {
namespace {

constexpr char kGuardByte = '\x5a';

}  // namespace

void run_ranks(int n, const std::function<void(int rank, ncclComm_t comm)>& body) {
  std::vector<ncclComm_t> comms(n);
  if (ncclCommInitAll(comms.data(), n, nullptr) != ncclSuccess)
    throw std::runtime_error(ncclGetLastError(nullptr));
  std::exception_ptr first;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r)
    threads.emplace_back([&, r] {
      try {
        body(r, comms[r]);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!first) first = std::current_exception();
        ncclCommAbort(comms[r]);  // the others do not wait for ever
        comms[r] = nullptr;
      }
    });
  for (std::thread& t : threads) t.join();
  for (ncclComm_t comm : comms)
    if (comm != nullptr) ncclCommDestroy(comm);
  if (first) std::rethrow_exception(first);
}

Guarded::Guarded(size_t bytes, size_t offset)
    : bytes_(bytes), memory_(bytes + 2 * kGuard + 64, kGuardByte) {
  const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
  begin_ = kGuard + (64 - address % 64) % 64 + offset;
  if (begin_ + bytes_ + kGuard > memory_.size())
    memory_.resize(begin_ + bytes_ + kGuard, kGuardByte);
}

bool Guarded::intact() const {
  const auto guard = [](char c) { return c == kGuardByte; };
  return std::all_of(memory_.begin(), memory_.begin() + begin_, guard) &&
         std::all_of(memory_.begin() + begin_ + bytes_, memory_.end(), guard);
}

}  // namespace terse::test
