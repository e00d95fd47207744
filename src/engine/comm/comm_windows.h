// Windows of a communicator's ranks, for fused calls (peers/windows.h).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"
#include "engine/comm/fusing.h"

namespace terse {

class CommWindows {
 public:
  // Returns true if all ranks have windows that the call finds room in.
  bool cover(const plan::Fused& fused) const {
    return windows_ != nullptr && room_.covers(room_of(fused));
  }
  const WindowRoom& room() const { return room_; }

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
  // Gives the permit back where the ranks have got no windows.
  void give_back_permit() {
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
  size_t turns_ = 0, calls_ = 0;
};

}  // namespace terse
