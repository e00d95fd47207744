#include "engine/comm/control_buffer.h"

#include <algorithm>

#include "base/error.h"

namespace terse {
namespace {

// Mark before a rank's words. Without it they are old memory: NCCL ends its work on a GPU in
// silence when it is aborted.
constexpr char kSaid = 1;

}  // namespace

ControlBuffer::ControlBuffer(Backend& backend, int slots, size_t most)
    : backend_(backend), slots_(slots), most_(most) {
  stream_ = backend_.create_stream(nullptr);
  try {
    memory_ = static_cast<char*>(backend_.allocate((1 + most) * (static_cast<size_t>(slots) + 1)));
  } catch (...) {
    backend_.destroy_stream(stream_);
    throw;
  }
}

ControlBuffer::~ControlBuffer() {
  backend_.destroy_stream(stream_);
  backend_.release(memory_);
}

void ControlBuffer::post(std::span<const char> words) {
  bytes_ = 1 + words.size();
  all_.assign(place(slots_), 0);
  said_.assign(place(slots_ + 1), 0);
  said_[place(slots_)] = kSaid;
  std::ranges::copy(words, said_.begin() + static_cast<ptrdiff_t>(place(slots_)) + 1);
  backend_.upload(stream_, memory_, said_.data(), said_.size());
}

bool ControlBuffer::has_ended() const noexcept {
  try {
    return idle();
  } catch (const Error&) {
    return true;
  }
}

std::optional<int> ControlBuffer::read() {
  backend_.download(stream_, all_.data(), memory_, all_.size());
  for (int slot = 0; slot < slots_; ++slot)
    if (all_[place(slot)] != kSaid) return slot;
  return {};
}

std::span<const char> ControlBuffer::received(int slot) const {
  return std::span(all_).subspan(place(slot), bytes_).subspan(1);
}

}  // namespace terse
