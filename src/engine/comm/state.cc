#include "engine/comm/state.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace terse {
namespace {

void clear(Backend& backend, Stream stream, char* memory, size_t bytes) {
  const std::vector<char> zeros(std::min<size_t>(bytes, size_t{1} << 20));
  for (size_t done = 0; done < bytes; done += zeros.size())
    backend.upload(stream, memory + done, zeros.data(), std::min(zeros.size(), bytes - done));
  backend.synchronize(stream);
}

}  // namespace

States::~States() {
  for (const auto& [kind, states] : all_)
    for (const auto& [key, memory] : states) backend_.release(memory.begin);
}

const States::Memory* States::find(const StateKind& kind, const plan::State& state) const {
  const auto states = all_.find(kind);
  if (states == all_.end()) return nullptr;
  const auto known = states->second.find(state.key);
  if (known == states->second.end()) return nullptr;
  if (known->second.bytes != state.bytes)
    fail(ncclInternalError, "the state \"{}\" has {} B, not {}", state.key, known->second.bytes,
         state.bytes);
  return &known->second;
}

void States::make(const StateKind& kind, const plan::State& state, StreamSet& track) {
  if (find(kind, state) != nullptr) return;
  Memory made{.bytes = state.bytes};
  if (state.bytes != 0) made.begin = backend_.allocate(state.bytes);
  try {
    clear(backend_, track.lanes().front(), static_cast<char*>(made.begin), state.bytes);
    all_[kind].emplace(state.key, made);
  } catch (...) {
    backend_.release(made.begin);
    throw;
  }
  bytes_ += state.bytes;
}

void States::agree(const StateKind& kind, const plan::State& state) {
  all_[kind].at(state.key).agreed = true;
}

bool States::agreed(const StateKind& kind, const plan::State& state) const {
  const Memory* known = find(kind, state);
  return known != nullptr && known->agreed;
}

char* States::memory(const StateKind& kind, const plan::State& state) const {
  return agreed(kind, state) ? static_cast<char*>(find(kind, state)->begin) : nullptr;
}

}  // namespace terse
