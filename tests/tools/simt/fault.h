// What a kernel did wrong.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

namespace terse::simt {

// The message begins with the block and the thread.
class Fault : public std::runtime_error {
 public:
  Fault(uint32_t block, uint32_t thread, const std::string& what);

  uint32_t block() const { return block_; }
  uint32_t thread() const { return thread_; }

 private:
  uint32_t block_, thread_;
};

}  // namespace terse::simt
