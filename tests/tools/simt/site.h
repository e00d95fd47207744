// A place in kernel source, for messages.
#pragma once

#include <compare>
#include <cstdint>
#include <cstring>
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

  // Of equal text, too: each object file may have a string of its own.
  friend std::strong_ordering operator<=>(const Site& a, const Site& b) {
    if (a.line != b.line) return a.line <=> b.line;
    return (a.file == b.file ? 0 : std::strcmp(a.file, b.file)) <=> 0;
  }
  friend bool operator==(const Site& a, const Site& b) { return a <=> b == 0; }
};

// "file.h:12", without the directories.
inline std::string to_string(const Site& site) {
  const std::string file = site.file;
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(site.line);
}

}  // namespace terse::simt
