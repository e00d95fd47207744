// Ranges on the time line of a tool such as Nsight Systems (NVTX, domain "terse"). They cost a
// comparison without a tool, or in a build without NVTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace terse::ranges {

// Returns true if a tool is attached.
bool attached() noexcept;

// Begins a range that ends on any thread, beside others. Returns 0 without a tool.
uint64_t start(const std::string& text, size_t bytes) noexcept;
void end(uint64_t range) noexcept;

// Scope of what this thread does. `text` is a literal.
class Scope {
 public:
  Scope(const char* text, size_t bytes) noexcept;
  ~Scope();
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
};

}  // namespace terse::ranges
