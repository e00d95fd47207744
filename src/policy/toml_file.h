// File in TOML, whose errors name their place: "FILE:3:7: ...".
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

// Used as headers: nothing more to link or to find at run time.
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

  // Entries in the order of the text, so that the first error is the first in the file.
  static std::vector<Entry> entries(const toml::table& table);

  // Value of an entry, or a refusal that says what it should be. A text is printable ASCII; numbers
  // are within [least, most], and of a unit ("": none).
  const toml::table& table_of(const Entry& entry) const;
  std::string text_of(const toml::node& node, std::string_view key) const;
  std::string text_of(const Entry& entry) const;
  bool flag_of(const Entry& entry) const;
  double number_of(const toml::node& node, std::string_view key) const;
  double number_of(const Entry& entry, double least, double most, std::string_view unit = "") const;
  uint64_t whole_of(const Entry& entry, uint64_t least, uint64_t most) const;
  // Texts of a list.
  std::vector<std::string> texts_of(const Entry& entry) const;
  // Tables of a list, each of which begins with [[key]].
  std::vector<const toml::table*> tables_of(const Entry& entry) const;

  // Index of the entry's key among `keys`; an error if it is none.
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
  void require_shallow(std::string_view text) const;

  const std::string& path_;
  toml::table table_;
};

// Text to be read again: in quotes, with ? for what is not printable ASCII.
std::string toml_quoted(std::string_view text);

// Text of a file or a pipe, at most `most` bytes; `what`: its name in errors, "a policy". Throws
// Error(ncclInvalidArgument).
std::string text_of_file(const std::string& path, std::string_view what,
                         size_t most = size_t{1} << 20);

}  // namespace terse
