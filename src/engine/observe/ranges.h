// Ranges on the time line of a tool such as Nsight Systems (NVTX, domain "terse"). Without a tool,
// or where terse was built without NVTX, they cost a comparison.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace terse::ranges {

// Whether a tool listens.
bool attached() noexcept;

// A range that ends on any thread, beside others. 0 where no tool listens.
uint64_t start(const std::string& text, size_t bytes) noexcept;
void end(uint64_t range) noexcept;

// What this thread is at. `text` is a literal.
class Scope {
 public:
  Scope(const char* text, size_t bytes) noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace terse::ranges
