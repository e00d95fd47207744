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

// Memory of at least `bytes`, to take the place of `before` bytes: of twice as many, if they are to
// be had, for the backend may keep all that was outgrown, which so is never more than what took its
// place.
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
