// Windows of a communicator's ranks, for fused calls (peers/windows.h).
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/fuse.h"
#include "policy/settings.h"

namespace terse {

// Room that calls take in a window of each rank.
struct WindowRoom {
  size_t area_bytes = 0;
  Windows::Kinds kinds = {};

  size_t bytes() const { return Windows::bytes(area_bytes, kinds); }
  bool covers(const WindowRoom& other) const {
    return area_bytes >= other.area_bytes && (kinds.halves || !other.kinds.halves) &&
           (kinds.turns || !other.kinds.turns);
  }
};

// Room for both.
inline WindowRoom join(const WindowRoom& a, const WindowRoom& b) {
  return {std::max(a.area_bytes, b.area_bytes),
          {a.kinds.halves || b.kinds.halves, a.kinds.turns || b.kinds.turns}};
}

// Room of a call, rounded up so that few sizes are asked for.
inline WindowRoom room_of(const plan::Fused& fused) {
  const size_t bytes = std::max(fused.pushed_bytes, fused.shared_bytes);
  const size_t unit = std::max(size_t{64} << 10, std::bit_floor(bytes) / 4);
  return {(bytes + unit - 1) / unit * unit, {!fused.alternates(), fused.alternates()}};
}

// Max bytes of a window, 0: no call is fused. What is verified takes part in steps.
inline size_t max_window_bytes(const Settings& settings, bool on_gpus) {
  return fuses(settings.fuse, on_gpus) && settings.verify == 0 ? settings.window_bytes : 0;
}

// Fusion of a call by an algorithm, if its room is at most so large.
inline plan::Fusion fusion_of(const plan::Algorithm& algorithm, const plan::Shape& shape,
                              const plan::Delta& delta, size_t max_window_bytes) {
  const auto build = [&](const plan::Shape& s) { return plan::build(algorithm, s, delta); };
  plan::Fusion fusion = plan::fuse(algorithm.collective, build, shape, max_window_bytes);
  if (fusion.by_rank.empty()) return fusion;
  const size_t bytes = room_of(fusion.by_rank.front()).bytes();
  if (bytes <= max_window_bytes) return fusion;
  return {{},
          fmt::format("for it needs a window of {} B, more than {} B", bytes, max_window_bytes)};
}

class CommWindows {
 public:
  // Returns true if all ranks have windows that the call finds room in.
  bool cover(const plan::Fused& fused) const {
    return windows_ != nullptr && room_.covers(room_of(fused));
  }
  const WindowRoom& room() const { return room_; }
  // Returns true if the ranks have not asked each other for as much in vain.
  bool may_be_had(const WindowRoom& room) const { return room.bytes() < refused_bytes_; }

  // Takes the permit for windows, unless there is one. Throws Error.
  void take_permit(Backend& backend) {
    if (permit_ == nullptr) permit_ = backend.permit_windows();
  }
  // Takes windows that all ranks have, in place of smaller ones. Unless the rank `is_idle` its
  // calls, or graphs that may still run, use these.
  void adopt(std::unique_ptr<Windows> windows, const WindowRoom& room, bool is_idle) {
    if (windows_ != nullptr) {
      windows->follow(windows_.get());
      replaced_bytes_ += room_.bytes();
      replaced_.push_back(std::move(windows_));
    }
    windows_ = std::move(windows);
    room_ = room;
    if (is_idle) free_replaced();
  }
  bool has_replaced() const { return !replaced_.empty(); }
  // Frees the windows before the present ones, which no call of the rank uses any more.
  void free_replaced() {
    windows_->follow(nullptr);
    replaced_.clear();
    replaced_bytes_ = 0;
  }
  // Notes that a rank has no windows of that size.
  void refuse(const WindowRoom& room) {
    refused_bytes_ = std::min(refused_bytes_, room.bytes());
    if (windows_ == nullptr) permit_.reset();
  }

  Windows* get() const { return windows_.get(); }
  // Bytes of the rank's own windows.
  size_t bytes() const { return replaced_bytes_ + room_.bytes(); }
  // Area of the next call, among those that are used by turns.
  size_t next_turn() { return Windows::kFirstTurn + (windows_->counts_turns() ? 0 : turns_++ % 2); }
  // Number of fused calls.
  size_t calls() const { return calls_; }
  void count() { ++calls_; }

 private:
  std::shared_ptr<void> permit_;  // given back after the windows
  std::unique_ptr<Windows> windows_;
  WindowRoom room_;  // of those; nothing if there are none
  size_t replaced_bytes_ = 0;
  std::vector<std::unique_ptr<Windows>> replaced_;
  size_t refused_bytes_ = ~size_t{0};
  size_t turns_ = 0, calls_ = 0;
};

}  // namespace terse
