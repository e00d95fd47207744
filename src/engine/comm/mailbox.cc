#include "engine/comm/mailbox.h"

#include <algorithm>

#include "base/error.h"

namespace terse {
namespace {

// Before a rank's words. Without it they are not what the rank has said, but what was there before:
// NCCL ends its work on a GPU in silence when it is aborted.
constexpr char kSaid = 1;

}  // namespace

Mailbox::Mailbox(Backend& backend, int ranks, size_t most) : backend_(backend), ranks_(ranks) {
  stream_ = backend_.create_stream(nullptr);
  try {
    memory_ = static_cast<char*>(backend_.allocate((1 + most) * (static_cast<size_t>(ranks) + 1)));
  } catch (...) {
    backend_.destroy_stream(stream_);
    throw;
  }
}

Mailbox::~Mailbox() {
  backend_.destroy_stream(stream_);
  backend_.release(memory_);
}

void Mailbox::say(std::span<const char> words) {
  bytes_ = 1 + words.size();
  all_.assign(place(ranks_), 0);
  said_.assign(place(ranks_ + 1), 0);
  said_[place(ranks_)] = kSaid;
  std::ranges::copy(words, said_.begin() + static_cast<ptrdiff_t>(place(ranks_)) + 1);
  backend_.upload(stream_, memory_, said_.data(), said_.size());
}

bool Mailbox::has_ended() const noexcept {
  try {
    return idle();
  } catch (const Error&) {
    return true;
  }
}

std::optional<int> Mailbox::read(std::optional<int> peer) {
  backend_.download(stream_, all_.data(), memory_, all_.size());
  for (int rank = 0; rank < ranks_; ++rank)
    if ((!peer || rank == *peer) && all_[place(rank)] != kSaid) return rank;
  return {};
}

std::span<const char> Mailbox::words(int rank) const {
  return std::span(all_).subspan(place(rank), bytes_).subspan(1);
}

}  // namespace terse
