// Memory and streams of a communicator, which its calls run on (engine/run).
#pragma once

#include <memory>
#include <vector>

#include "engine/comm/binding.h"
#include "engine/comm/codebooks.h"
#include "engine/comm/comm_windows.h"
#include "engine/comm/control_buffer.h"
#include "engine/comm/exact_memory.h"
#include "engine/comm/reservations.h"
#include "engine/comm/shadows.h"
#include "engine/comm/state.h"
#include "engine/comm/stream_sets.h"

namespace terse {

class CommMemory {
 public:
  CommMemory(Backend& backend, const Settings& settings, int ranks)
      : exact_(backend),
        states_(backend),
        shadows_(backend, ranks),
        codebooks_(backend, settings),
        stream_sets_(backend) {}

  ExactMemory& exact() { return exact_; }
  States& states() { return states_; }
  const States& states() const { return states_; }
  Shadows& shadows() { return shadows_; }
  const Shadows& shadows() const { return shadows_; }
  Codebooks& codebooks() { return codebooks_; }
  const Codebooks& codebooks() const { return codebooks_; }
  CommWindows& windows() { return windows_; }
  const CommWindows& windows() const { return windows_; }
  Bindings& bindings() { return bindings_; }
  StreamSets& stream_sets() { return stream_sets_; }
  const StreamSets& stream_sets() const { return stream_sets_; }
  Reservations& reservations() { return reservations_; }
  const Reservations& reservations() const { return reservations_; }

  // Bytes of memory that keeps its contents from call to call.
  size_t state_bytes() const { return states_.bytes() + shadows_.bytes() + codebooks_.bytes(); }

  // Buffer of the host all-gathers, adopted at the first agreement, while there is memory. Null
  // before.
  ControlBuffer* control_buffer() const { return control_buffer_.get(); }
  void adopt(std::unique_ptr<ControlBuffer> buffer) { control_buffer_ = std::move(buffer); }

  // Keeps the buffer of a failed all-gather, which may still wait there, until the communicator
  // ends.
  void leave(std::unique_ptr<ControlBuffer> own) { left_.push_back(std::move(own)); }

  // Returns true while an abandoned all-gather is still queued in NCCL: until all ranks have come,
  // or NCCL's communicator is aborted.
  bool awaits_ranks() const noexcept;

 private:
  ExactMemory exact_;
  States states_;
  Shadows shadows_;
  Codebooks codebooks_;
  Bindings bindings_;
  CommWindows windows_;
  // Destroyed before the memory that its work refers to.
  StreamSets stream_sets_;
  Reservations reservations_;
  std::unique_ptr<ControlBuffer> control_buffer_;
  std::vector<std::unique_ptr<ControlBuffer>> left_;
};

}  // namespace terse
