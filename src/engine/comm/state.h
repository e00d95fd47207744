// Memory that plans keep between calls (plan::State), of one communicator.
#pragma once

#include <atomic>
#include <map>
#include <string>

#include "backend/backend.h"
#include "codec/spec.h"
#include "engine/comm/stream_set.h"
#include "plan/plan.h"

namespace terse {

// Properties of a call that a plan does not know and its state depends on.
struct StateKind {
  codec::Dtype dtype;
  codec::Spec spec;

  auto operator<=>(const StateKind&) const = default;
};

// All states. Released at the communicator's end, when no call uses them any more.
class States {
 public:
  explicit States(Backend& backend) : backend_(backend) {}
  ~States();
  States(const States&) = delete;
  States& operator=(const States&) = delete;

  // Makes the memory, zeroed, unless it is there. Blocks for what is enqueued on the stream set.
  // Throws Error.
  void make(const StateKind& kind, const plan::State& state, StreamSet& track);

  // Notes that all ranks have it.
  void agree(const StateKind& kind, const plan::State& state);
  bool agreed(const StateKind& kind, const plan::State& state) const;

  // Returns null if not all ranks have it.
  char* memory(const StateKind& kind, const plan::State& state) const;

  // Bytes of all states.
  size_t bytes() const { return bytes_; }

 private:
  struct Memory {
    void* begin = nullptr;
    size_t bytes = 0;
    bool agreed = false;
  };
  const Memory* find(const StateKind& kind, const plan::State& state) const;

  Backend& backend_;
  std::map<StateKind, std::map<std::string, Memory>> all_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace terse
