// A file in TOML, whose errors name their place: "FILE:3:7: ...".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// The library is used as headers: nothing more to link or to find at run time.
#include <toml++/toml.h>

#include "base/error.h"

namespace terse {

class TomlFile {
 public:
  struct Entry {
    std::string_view key;
    toml::source_position at;
    const toml::node* value;
  };

  // Throws Error(ncclInvalidArgument). `path` outlives it.
  TomlFile(std::string_view text, const std::string& path);

  const toml::table& table() const { return table_; }

  // In the order of the text, so that the first error is the first in the file.
  static std::vector<Entry> entries(const toml::table& table);

  // Which of the keys it is; an error where it is none.
  size_t find_key(const Entry& entry, std::span<const std::string_view> keys) const;

  std::string place(const toml::source_position& at) const {
    return fmt::format("{}:{}:{}", path_, at.line, at.column);
  }

  template <class... Args>
  [[noreturn]] void refuse(const toml::source_position& position,
                           fmt::format_string<Args...> format, Args&&... args) const {
    fail(ncclInvalidArgument, "{}: {}", place(position),
         fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  void require_ascii(std::string_view text) const;

  const std::string& path_;
  toml::table table_;
};

// The text of a file or a pipe, which is to be a `what`: "a policy". Throws
// Error(ncclInvalidArgument).
std::string text_of_file(const std::string& path, std::string_view what);

}  // namespace terse
