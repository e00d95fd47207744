#include "policy/toml_file.h"

#include <sys/stat.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <memory>

#include "policy/nearest.h"
#include "policy/size.h"
#include "policy/toml_depth.h"

namespace terse {
namespace {

std::string_view line_of(std::string_view text, unsigned line) {
  for (unsigned before = 1; before < line; ++before) text.remove_prefix(text.find('\n') + 1);
  return text.substr(0, text.find_first_of("\r\n"));
}

// toml++ complains of the end of a line as of any other control character.
bool ends_open(std::string_view line, const toml::source_position& at, std::string_view complaint) {
  return complaint.find("string") != complaint.npos && at.column > line.size();
}

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t");
  return first == text.npos ? "" : text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

// Suggests scheme = "safe" for a line without quotes; "": another line.
std::string quoted(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == line.npos) return "";
  const std::string_view key = trimmed(line.substr(0, equals));
  const std::string_view value = trimmed(line.substr(equals + 1, line.find('#') - equals - 1));
  if (value.empty() || value.find_first_of("\"'[{") != value.npos) return "";
  const auto is_letter = [](char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; };
  const bool is_text = is_letter(value.front()) || value.find("..") != value.npos ||
                       std::string_view("KMG").find(value.back()) != std::string_view::npos;
  if (!is_text) return "";
  return fmt::format("{} = \"{}\"", key, value);
}

toml::source_position position_of(std::string_view text, size_t offset) {
  const std::string_view before = text.substr(0, offset);
  const size_t line = before.rfind('\n') + 1;  // where it begins; npos + 1 is 0
  return {static_cast<toml::source_index>(std::ranges::count(before, '\n') + 1),
          static_cast<toml::source_index>(offset - line + 1)};
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

[[noreturn]] void refuse_unreadable(const std::string& path, int error) {
  fail(ncclInvalidArgument, "{} cannot be read: {}", path, std::strerror(error));
}

}  // namespace

TomlFile::TomlFile(std::string_view text, const std::string& path) : path_(path) {
  require_ascii(text);
  require_shallow(text);
  try {
    table_ = toml::parse(text, path_);
  } catch (const toml::parse_error& e) {
    const toml::source_position& at = e.source().begin;
    const std::string_view line = line_of(text, at.line);
    if (ends_open(line, at, e.description())) refuse(at, "the text in quotes is not closed");
    const std::string meant = quoted(line);
    refuse(at, "{}{}", e.description(), meant.empty() ? "" : "; a text stands in quotes: " + meant);
  }
}

// toml++ 3.3 has undefined behaviour for some characters beyond ASCII, in asking whether they are
// blanks. Comments may have any.
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

void TomlFile::require_shallow(std::string_view text) const {
  if (const auto deep = too_deep(text)) refuse(position_of(text, deep->offset), "{}", deep->what);
}

const toml::table& TomlFile::table_of(const Entry& e) const {
  if (const toml::table* table = e.value->as_table()) return *table;
  refuse(e.at, "{} is a table, [{}]", e.key, e.key);
}

std::string TomlFile::text_of(const toml::node& node, std::string_view key) const {
  const toml::source_position& begin = node.source().begin;
  const auto text = node.value_exact<std::string>();
  if (!text) refuse(begin, "{} is a text in quotes", key);
  if (!std::ranges::all_of(*text, is_printable))
    refuse(begin, "{} has a character that cannot be printed as ASCII", key);
  return *text;
}

std::string TomlFile::text_of(const Entry& e) const { return text_of(*e.value, e.key); }

bool TomlFile::flag_of(const Entry& e) const {
  if (const auto value = e.value->value_exact<bool>()) return *value;
  refuse(e.value->source().begin, "{} is true or false", e.key);
}

double TomlFile::number_of(const toml::node& node, std::string_view key) const {
  if (const auto whole = node.value_exact<int64_t>()) return static_cast<double>(*whole);
  if (const auto number = node.value_exact<double>()) return *number;
  refuse(node.source().begin, "{} is a number", key);
}

double TomlFile::number_of(const Entry& e, double least, double most, std::string_view unit) const {
  const double value = number_of(*e.value, e.key);
  if (!(value >= least && value <= most))
    refuse(e.value->source().begin, "{} is {}, but must be from {} to {:g}{}{}", e.key, value,
           least, most, unit.empty() ? "" : " ", unit);
  return value;
}

uint64_t TomlFile::whole_of(const Entry& e, uint64_t least, uint64_t most) const {
  const double number = number_of(*e.value, e.key);
  if (!(number >= static_cast<double>(least) && number <= static_cast<double>(most)) ||
      number != std::floor(number))
    refuse(e.value->source().begin, "{} is {}, but must be a whole number from {} to {}", e.key,
           number, least, most);
  return static_cast<uint64_t>(number);
}

std::vector<std::string> TomlFile::texts_of(const Entry& e) const {
  const toml::array* const list = e.value->as_array();
  if (list == nullptr) refuse(e.at, "{} is a list of texts", e.key);
  std::vector<std::string> texts;
  for (const toml::node& node : *list) texts.push_back(text_of(node, e.key));
  return texts;
}

std::vector<const toml::table*> TomlFile::tables_of(const Entry& e) const {
  const toml::array* const list = e.value->as_array();
  if (list == nullptr) refuse(e.at, "{} is a list of tables, [[{}]]", e.key, e.key);
  std::vector<const toml::table*> tables;
  for (const toml::node& node : *list) {
    if (!node.is_table()) refuse(node.source().begin, "{} is a table, [[{}]]", e.key, e.key);
    tables.push_back(node.as_table());
  }
  return tables;
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

std::string toml_quoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += is_printable(c) ? c : '?';
  }
  return quoted + '"';
}

std::string text_of_file(const std::string& path, std::string_view what, size_t most) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  struct stat status {};
  if (file == nullptr || fstat(fileno(file.get()), &status) != 0) refuse_unreadable(path, errno);
  if (S_ISDIR(status.st_mode)) refuse_unreadable(path, EISDIR);
  if (!S_ISREG(status.st_mode) && !S_ISFIFO(status.st_mode))
    fail(ncclInvalidArgument, "{} is neither a file nor a pipe", path);
  std::string text(most + 1, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) refuse_unreadable(path, errno);
  if (text.size() > most)
    fail(ncclInvalidArgument, "{} has more than {}: it cannot be {}", path, print_size(most), what);
  return text;
}

}  // namespace terse
