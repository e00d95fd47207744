#include "engine/comm/exact_memory.h"

#include <utility>

#include "engine/comm/growth.h"

namespace terse {

void* ExactMemory::reserve(size_t bytes, StreamSet& track) {
  if (bytes <= bytes_) return memory_;
  const Growth larger = grow(backend_, bytes_, bytes);
  try {
    track.synchronize();  // earlier calls may use the old memory
  } catch (...) {
    backend_.release(larger.memory);
    throw;
  }
  backend_.release(std::exchange(memory_, larger.memory));
  bytes_ = larger.bytes;
  return memory_;
}

}  // namespace terse
