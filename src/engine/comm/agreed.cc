#include "engine/comm/agreed.h"

#include <algorithm>
#include <atomic>

namespace terse {
namespace {

std::atomic<bool> g_preloaded{false};

}  // namespace

uint64_t leader_of(uint64_t process) {
  return process + (g_preloaded.load(std::memory_order_relaxed) ? uint64_t{1} << 31 : 0);
}

void set_preloaded() { g_preloaded.store(true, std::memory_order_relaxed); }

uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

void SchemeSet::add(const Scheme& scheme) {
  if (!has(scheme)) schemes_.push_back(without_seed(scheme));
}

bool SchemeSet::has(const Scheme& scheme) const {
  return std::ranges::find(schemes_, without_seed(scheme)) != schemes_.end();
}

std::optional<uint64_t> Agreed::number() const {
  return identity() != 0 ? std::optional(ordinal()) : std::nullopt;
}

void Agreed::conclude(uint64_t ordinal, uint64_t leader, uint64_t identity) {
  ordinal_.store(ordinal, std::memory_order_relaxed);
  leader_ = leader;
  // last, for it says that the others are there
  identity_.store(identity, std::memory_order_release);
}

void Agreed::add(const Scheme& scheme, std::optional<int> peer) {
  (peer ? with_peer_[*peer] : of_all_).add(scheme);
}

bool Agreed::has(const Scheme& scheme, std::optional<int> peer) const {
  if (of_all_.has(scheme)) return true;
  const auto with_peer = peer ? with_peer_.find(*peer) : with_peer_.end();
  return with_peer != with_peer_.end() && with_peer->second.has(scheme);
}

}  // namespace terse
