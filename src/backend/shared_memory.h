// Memory that processes share: files, their mappings, and how much there is left.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace terse {

// Descriptor of a file; -1: none.
class File {
 public:
  explicit File(int file) : file_(file) {}
  ~File() { close(); }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int number() const { return file_; }
  // Hands the descriptor over to the caller.
  int release() { return std::exchange(file_, -1); }
  void close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

 private:
  int file_;
};

// File in memory, which is shared with all who map it.
class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  // Returns false if it cannot be mapped.
  bool map(int file, size_t bytes);
  char* begin() const { return begin_; }

 private:
  char* begin_ = nullptr;
  size_t bytes_ = 0;
};

// Bytes that the machine, or the container, has left, with what it would give back. A file in
// memory that takes more has processes killed.
uint64_t free_bytes();

}  // namespace terse
