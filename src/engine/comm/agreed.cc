#include "engine/comm/agreed.h"

#include <algorithm>
#include <atomic>

namespace terse {

uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

std::optional<uint64_t> Agreed::number() const {
  return identity_ != 0 ? std::optional(ordinal_) : std::nullopt;
}

void Agreed::conclude(uint64_t ordinal, uint64_t leader, uint64_t identity) {
  ordinal_ = ordinal;
  leader_ = leader;
  identity_ = identity;
}

void Agreed::add(const Scheme& scheme, std::optional<int> peer) {
  if (peer)
    with_peer_.emplace_back(*peer, scheme);
  else
    of_all_.push_back(scheme);
}

bool Agreed::has(const Scheme& scheme, std::optional<int> peer) const {
  const auto with_peer = [&](const auto& known) {
    return known.first == peer && known.second == scheme;
  };
  return std::ranges::find(of_all_, scheme) != of_all_.end() ||
         std::ranges::any_of(with_peer_, with_peer);
}

}  // namespace terse
