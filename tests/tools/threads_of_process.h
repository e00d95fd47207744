// How many threads there are.
#pragma once

#include <cstddef>
#include <filesystem>

namespace terse::test {

inline size_t threads_of_this_process() {
  namespace fs = std::filesystem;
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator());
}

}  // namespace terse::test
