// Memory that grows with the calls.
#pragma once

#include <algorithm>

#include "backend/backend.h"
#include "base/error.h"

namespace terse {

struct Growth {
  void* memory;
  size_t bytes;
};

// Allocates at least `bytes`, to replace `before` bytes: twice as many if they can be had. The
// backend may keep all outgrown memory, which then is never more than its replacement.
inline Growth grow(Backend& backend, size_t before, size_t bytes) {
  const size_t wished = std::max(bytes, 2 * before);
  try {
    return {backend.allocate(wished), wished};
  } catch (const Error&) {
    if (wished == bytes) throw;
    return {backend.allocate(bytes), bytes};
  }
}

}  // namespace terse
