#include "engine/comm/agreed.h"

#include <algorithm>
#include <atomic>
#include <iterator>

namespace terse {

uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

void SeedSet::add(uint64_t seed) {
  if (has(seed)) return;
  const auto next = last_.upper_bound(seed);
  const bool joins = next != last_.end() && next->first == seed + 1;
  const uint64_t last = joins ? next->second : seed;
  if (next != last_.begin() && std::prev(next)->second + 1 == seed)
    std::prev(next)->second = last;
  else
    last_.emplace_hint(next, seed, last);
  if (joins) last_.erase(next);
}

void SeedSet::thin() {
  if (last_.size() >= kMostRuns) last_.clear();
}

bool SeedSet::has(uint64_t seed) const {
  const auto next = last_.upper_bound(seed);
  return next != last_.begin() && std::prev(next)->second >= seed;
}

void SchemeSet::add(const Scheme& scheme) {
  const Scheme common = without_seed(scheme);
  auto known = std::ranges::find(entries_, common, &Entry::scheme);
  if (known == entries_.end()) known = entries_.insert(known, {.scheme = common});
  if (scheme.seed)
    known->seeds.add(*scheme.seed);
  else
    known->unseeded = true;
}

void SchemeSet::thin() {
  for (Entry& entry : entries_) entry.seeds.thin();
}

bool SchemeSet::has(const Scheme& scheme) const {
  const auto known = std::ranges::find(entries_, without_seed(scheme), &Entry::scheme);
  if (known == entries_.end()) return false;
  return scheme.seed ? known->seeds.has(*scheme.seed) : known->unseeded;
}

size_t SchemeSet::size() const {
  size_t sum = 0;
  for (const Entry& entry : entries_) sum += entry.unseeded + entry.seeds.runs();
  return sum;
}

std::optional<uint64_t> Agreed::number() const {
  return identity() != 0 ? std::optional(ordinal()) : std::nullopt;
}

void Agreed::conclude(uint64_t ordinal, uint64_t leader, uint64_t identity) {
  ordinal_.store(ordinal, std::memory_order_relaxed);
  leader_ = leader;
  identity_.store(identity, std::memory_order_release);  // last: it says that there are the others
}

void Agreed::add(const Scheme& scheme, std::optional<int> peer) {
  (peer ? with_peer_[*peer] : of_all_).add(scheme);
}

void Agreed::thin() {
  of_all_.thin();
  for (auto& [peer, schemes] : with_peer_) schemes.thin();
}

bool Agreed::has(const Scheme& scheme, std::optional<int> peer) const {
  if (of_all_.has(scheme)) return true;
  const auto with_peer = peer ? with_peer_.find(*peer) : with_peer_.end();
  return with_peer != with_peer_.end() && with_peer->second.has(scheme);
}

size_t Agreed::schemes() const {
  size_t sum = of_all_.size();
  for (const auto& [peer, schemes] : with_peer_) sum += schemes.size();
  return sum;
}

}  // namespace terse
