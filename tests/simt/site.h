// A place in kernel source, for messages.
#pragma once

#include <cstdint>
#include <string>

namespace terse::simt {

struct Site {
  const char* file = "";
  uint32_t line = 0;

  // As a function's default argument: where that function is called. (clang 14 has the builtins,
  // but no std::source_location.)
  static constexpr Site here(const char* file = __builtin_FILE(),
                             uint32_t line = __builtin_LINE()) {
    return {file, line};
  }
};

// "file.h:12", without the directories.
inline std::string to_string(const Site& site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

}  // namespace terse::simt
