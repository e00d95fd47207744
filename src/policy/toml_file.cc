#include "policy/toml_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

#include "policy/nearest.h"
#include "policy/size.h"

namespace terse {
namespace {

// toml++ complains of the end of the line as of any other control character.
bool ends_open(std::string_view text, const toml::source_position& at, std::string_view complaint) {
  if (complaint.find("string") == complaint.npos) return false;
  size_t place = 0;
  for (unsigned line = 1; line < at.line; ++line) place = text.find('\n', place) + 1;
  place += at.column - 1;
  return place >= text.size() || text[place] == '\n' || text[place] == '\r';
}

constexpr size_t kMostBytes = size_t{1} << 20;

[[noreturn]] void refuse_unreadable(const std::string& path, int error) {
  fail(ncclInvalidArgument, "{} cannot be read: {}", path, std::strerror(error));
}

}  // namespace

TomlFile::TomlFile(std::string_view text, const std::string& path) : path_(path) {
  require_ascii(text);
  try {
    table_ = toml::parse(text, path_);
  } catch (const toml::parse_error& e) {
    const toml::source_position& at = e.source().begin;
    if (ends_open(text, at, e.description())) refuse(at, "the text in quotes is not closed");
    refuse(at, "{}", e.description());
  }
}

// toml++ 3.3 runs into undefined behaviour where it asks whether some characters beyond ASCII are
// blanks. Lines that are comments may have any.
void TomlFile::require_ascii(std::string_view text) const {
  toml::source_position at{1, 1};
  bool comment = false;
  for (const char c : text) {
    if (at.column == 1) comment = c == '#';
    if (static_cast<unsigned char>(c) >= 0x80 && !comment)
      refuse(at, "a character that is not ASCII, outside of a line that begins with #");
    ++at.column;
    if (c == '\n') at = {at.line + 1, 1};
  }
}

size_t TomlFile::find_key(const Entry& entry, std::span<const std::string_view> keys) const {
  const auto found = std::ranges::find(keys, entry.key);
  if (found == keys.end())
    refuse(entry.at, "unknown key \"{}\"{}", entry.key, hint(entry.key, keys));
  return static_cast<size_t>(found - keys.begin());
}

std::vector<TomlFile::Entry> TomlFile::entries(const toml::table& table) {
  std::vector<Entry> all;
  for (auto&& [key, value] : table) all.push_back({key.str(), key.source().begin, &value});
  std::ranges::sort(all, [](const Entry& a, const Entry& b) {
    return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
  });
  return all;
}

std::string text_of_file(const std::string& path, std::string_view what) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  struct stat status {};
  if (file == nullptr || fstat(fileno(file.get()), &status) != 0) refuse_unreadable(path, errno);
  if (S_ISDIR(status.st_mode)) refuse_unreadable(path, EISDIR);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    fail(ncclInvalidArgument, "{} is neither a file nor a pipe", path);
  std::string text(kMostBytes + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) refuse_unreadable(path, errno);
  if (text.size() > kMostBytes)
    fail(ncclInvalidArgument, "{} has more than {}: it cannot be {}", path, print_size(kMostBytes),
         what);
  return text;
}

}  // namespace terse
