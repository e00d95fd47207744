#include "engine/observe/reporting_comm.h"

#include <unistd.h>

#include <atomic>
#include <limits>
#include <mutex>

namespace terse {
namespace {

constexpr int kNoRank = std::numeric_limits<int>::max();

// Asked at calls, which wait for no other thread.
struct Lead {
  std::atomic<uint64_t> identity{0};  // 0: there is none yet
  std::atomic<int> rank{kNoRank};
};
constinit Lead lead;

struct LeadOwner {
  std::mutex mutex;
  pid_t process = 0;
};

// Never destroyed: communicators may be made while the program exits.
LeadOwner& lead_owner() {
  static LeadOwner& o = *new LeadOwner;
  return o;
}

}  // namespace

void reporting_begins() noexcept {
  LeadOwner& o = lead_owner();
  const std::lock_guard lock(o.mutex);
  if (o.process == getpid()) return;
  o.process = getpid();
  lead.identity = 0;
  lead.rank = kNoRank;
}

bool leads(uint64_t identity, int rank) noexcept {
  uint64_t first = lead.identity;
  if (first == 0 && lead.identity.compare_exchange_strong(first, identity)) first = identity;
  if (first != identity) return false;
  int least = lead.rank;
  while (rank < least && !lead.rank.compare_exchange_weak(least, rank)) {
  }
  return true;
}

std::optional<int> leading_rank() noexcept {
  const int rank = lead.rank;
  return rank != kNoRank ? std::optional(rank) : std::nullopt;
}

}  // namespace terse
