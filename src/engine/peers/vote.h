// Votes of a communicator's ranks: each casts one value of a type, and reads those of all ranks.
// Ahead of the value go the version of terse and a hash of the type's layout, so that no rank reads
// what another build has written.
#pragma once

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <type_traits>
#include <vector>

#include "engine/peers/host_all_gather.h"

namespace terse {

constexpr uint64_t mix(uint64_t hash, uint64_t word) {
  return (hash ^ word) * 0xff51afd7ed558ccd + (hash >> 32);
}

// Hash of a type's layout. Classes have one of their own, by layout_of().
template <class T>
constexpr uint64_t kLayout = sizeof(T);
template <class T, size_t count>
constexpr uint64_t kLayout<std::array<T, count>> = mix(count, kLayout<T>);

// Hash of a class by its name, and the layouts of all its members in order.
template <class T, class... Members>
consteval uint64_t layout_of(std::string_view name, Members T::*...) {
  static_assert((sizeof(Members) + ...) == sizeof(T), "a member is missing, or there is padding");
  uint64_t hash = 0;
  for (const char c : name) hash = mix(hash, static_cast<unsigned char>(c));
  ((hash = mix(hash, kLayout<Members>)), ...);
  return hash;
}

// Build of a rank. It comes first in all versions, so that ranks of different ones can say so.
struct BuildMark {
  uint32_t version;  // a TERSE_VERSION_CODE
  uint32_t layout;   // of a kLayout

  bool operator==(const BuildMark&) const = default;
};

// Throws Error(ncclInvalidUsage) if the rank's build has another version, or another layout.
void require_same_build(const Communicator& c, int rank, const BuildMark& theirs,
                        const BuildMark& mine);

// Max size of what is cast; and of what all communicators have room for (words_bytes()).
constexpr size_t kMaxVoteBytes = kMaxWordsBytes - sizeof(BuildMark);
constexpr size_t kMinVoteBytes = kMinWordsBytes - sizeof(BuildMark);

template <class T>
class Vote {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= kMaxVoteBytes);

 public:
  // Casts `mine`, for all ranks, or for a peer that does the same. Uses the communicator's control
  // buffer, which takes no memory, if that `is_free` and large enough. Throws Error.
  // `bytes`: of `mine` that are cast, alike on all ranks; the others are received as 0.
  Vote(Communicator& c, const T& mine, std::optional<int> peer = {}, bool is_free = true,
       size_t bytes = sizeof(T))
      : c_(c),
        peer_(peer),
        bytes_(sizeof(BuildMark) + bytes),
        all_gather_(is_free && !peer && has_room(c, bytes_) ? HostAllGather(c)
                                                            : HostAllGather(c, bytes_, peer)) {
    std::array<char, sizeof(BuildMark) + sizeof(T)> words;
    std::memcpy(words.data(), &kMine, sizeof kMine);
    std::memcpy(words.data() + sizeof kMine, &mine, sizeof mine);
    all_gather_.post(std::span(words).first(bytes_));
  }

  HostAllGather& all_gather() { return all_gather_; }

  // Reads what was cast, once all_gather() has run.
  void read() {
    each_rank([&](int rank) {
      const char* const words = all_gather_.received(rank).data();
      std::memcpy(&builds_.emplace_back(), words, sizeof(BuildMark));
      std::memcpy(&cast_.emplace_back(), words + sizeof(BuildMark), bytes_ - sizeof(BuildMark));
    });
  }

  // Visits the ranks whose votes there are.
  template <class Visit>
  void each_rank(const Visit& visit) const {
    if (peer_) return visit(*peer_);
    for (int rank = 0; rank < c_.ranks; ++rank) visit(rank);
  }

  void require_same_build(int rank) const {
    terse::require_same_build(c_, rank, builds_[place(rank)], kMine);
  }
  void require_same_builds() const {
    each_rank([&](int rank) { require_same_build(rank); });
  }
  bool has_same_builds() const {
    return std::ranges::all_of(builds_, [](const BuildMark& b) { return b == kMine; });
  }

  // Vote of a rank; with a peer, of that one alone. Requires the same build.
  const T& of(int rank) const { return cast_[place(rank)]; }
  const std::vector<T>& all() const { return cast_; }

  // First rank whose vote is so; empty: none.
  template <class Condition>
  std::optional<int> first(const Condition& is_so) const {
    for (size_t i = 0; i < cast_.size(); ++i)
      if (is_so(cast_[i])) return peer_.value_or(static_cast<int>(i));
    return {};
  }

 private:
  static constexpr BuildMark kMine{TERSE_VERSION_CODE,
                                   static_cast<uint32_t>(kLayout<T> ^ kLayout<T> >> 32)};
  static bool has_room(Communicator& c, size_t bytes) {
    const ControlBuffer* const own = c.memory().control_buffer();
    return own != nullptr && bytes <= own->max_bytes();
  }
  size_t place(int rank) const { return peer_ ? 0 : static_cast<size_t>(rank); }

  Communicator& c_;
  const std::optional<int> peer_;
  const size_t bytes_;  // of a mark, and what is cast
  HostAllGather all_gather_;
  std::vector<BuildMark> builds_;
  std::vector<T> cast_;
};

// Runs and reads votes of different communicators together. Throws Error, as run_all_gathers() and
// require_same_build() do.
template <class Votes>
void run_votes(Votes& votes, Timeout timeout) {
  std::vector<HostAllGather*> together;
  for (auto& vote : votes) together.push_back(&vote.all_gather());
  run_all_gathers(together, timeout);
  for (auto& vote : votes) vote.read();
  for (const auto& vote : votes) vote.require_same_builds();
}

}  // namespace terse
