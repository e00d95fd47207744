// A policy in a TOML file (policy.h).
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

// The library is used as headers: nothing more to link or to find at run time.
#include <toml++/toml.h>

#include "policy/conditions.h"
#include "policy/draft.h"
#include "policy/nearest.h"
#include "policy/size.h"

namespace terse {
namespace {

class FileParser {
 public:
  FileParser(const std::string& path, size_t floor) : path_(path), floor_(floor) {}

  Policy parse(std::string_view text) {
    for (const Entry& entry : entries(document(text))) rules(entry);
    return std::move(policy_);
  }

 private:
  struct Entry {
    std::string_view key;
    toml::source_position at;
    const toml::node* value;
  };

  std::string place(const toml::source_position& at) const {
    return fmt::format("{}:{}:{}", path_, at.line, at.column);
  }

  template <class... Args>
  [[noreturn]] void refuse(const toml::source_position& position,
                           fmt::format_string<Args...> format, Args&&... args) const {
    fail(ncclInvalidArgument, "{}: {}", place(position),
         fmt::format(format, std::forward<Args>(args)...));
  }

  // toml++ 3.3 runs into undefined behaviour where it asks whether some characters beyond ASCII are
  // blanks. Lines that are comments may have any.
  void require_ascii(std::string_view text) const {
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

  // toml++ complains of the end of the line as of any other control character.
  static bool ends_open(std::string_view text, const toml::source_position& at,
                        std::string_view complaint) {
    if (complaint.find("string") == complaint.npos) return false;
    size_t place = 0;
    for (unsigned line = 1; line < at.line; ++line) place = text.find('\n', place) + 1;
    place += at.column - 1;
    return place >= text.size() || text[place] == '\n' || text[place] == '\r';
  }

  const toml::table& document(std::string_view text) {
    require_ascii(text);
    try {
      document_ = toml::parse(text, path_);
    } catch (const toml::parse_error& e) {
      const toml::source_position& at = e.source().begin;
      if (ends_open(text, at, e.description())) refuse(at, "the text in quotes is not closed");
      refuse(at, "{}", e.description());
    }
    return document_;
  }

  // In the order of the text, so that the first error is the first in the file.
  static std::vector<Entry> entries(const toml::table& table) {
    std::vector<Entry> all;
    for (auto&& [key, value] : table) all.push_back({key.str(), key.source().begin, &value});
    std::ranges::sort(all, [](const Entry& a, const Entry& b) {
      return std::pair(a.at.line, a.at.column) < std::pair(b.at.line, b.at.column);
    });
    return all;
  }

  void rules(const Entry& entry) {
    static constexpr std::string_view kKeys[] = {"rule"};
    if (entry.key != "rule") {
      if (const Condition* c = find_condition(entry.key); c != nullptr || entry.key == "scheme")
        refuse(entry.at, "\"{}\" belongs to a rule, under [[rule]]", entry.key);
      refuse(entry.at, "unknown key \"{}\"{}", entry.key, hint(entry.key, kKeys));
    }
    const toml::array* list = entry.value->as_array();
    if (list == nullptr) refuse(entry.at, "rules begin with [[rule]]");
    for (const toml::node& node : *list) {
      if (!node.is_table()) refuse(node.source().begin, "a rule is a table, [[rule]]");
      rule(*node.as_table());
    }
  }

  void rule(const toml::table& table) {
    static constexpr std::string_view kMore[] = {"scheme"};
    const toml::source_position begin = table.source().begin;
    Draft draft{.number = ++number_, .line = begin.line};
    const toml::node* scheme = nullptr;
    for (const Entry& entry : entries(table)) {
      if (entry.key == "scheme") {
        scheme = entry.value;
      } else if (const Condition* c = find_condition(entry.key)) {
        condition(*c, *entry.value, draft);
      } else {
        refuse(entry.at, "unknown key \"{}\"{}", entry.key, hint_key(entry.key, kMore));
      }
    }
    if (scheme == nullptr) refuse(begin, "the rule has no scheme");
    const std::string text = value_of(*scheme, false);
    draft.scheme = text;
    at(place(scheme->source().begin), [&] { add_rule(draft, floor_, policy_); });
  }

  void condition(const Condition& c, const toml::node& value, Draft& draft) const {
    if (c.key == "bytes") draft.names_bytes = true;
    const auto add = [&](const toml::node& one) {
      const std::string text = value_of(one, c.kind == ConditionKind::kRange);
      at(place(one.source().begin), [&] { c.add(text, draft.match); });
    };
    const toml::array* list = c.kind == ConditionKind::kNames ? value.as_array() : nullptr;
    if (list == nullptr) return add(value);
    if (list->empty()) refuse(value.source().begin, "the list is empty; leave {} out", c.key);
    for (const toml::node& one : *list) add(one);
  }

  std::string value_of(const toml::node& node, bool number) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto integer = node.value_exact<int64_t>(); integer && number)
      return fmt::format("{}", *integer);
    refuse(node.source().begin, "a text in quotes{} is expected here",
           number ? " or a number" : "");
  }

  const std::string& path_;
  const size_t floor_;
  toml::table document_;
  unsigned number_ = 0;
  Policy policy_;
};

constexpr size_t kMostBytes = size_t{1} << 20;

[[noreturn]] void refuse_unreadable(const std::string& path, int error) {
  fail(ncclInvalidArgument, "{} cannot be read: {}", path, std::strerror(error));
}

std::string contents(const std::string& path) {
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
    fail(ncclInvalidArgument, "{} has more than {}: it cannot be a policy", path,
         print_size(kMostBytes));
  return text;
}

}  // namespace

Policy parse_policy_file(std::string_view text, const std::string& path, size_t floor) {
  return FileParser(path, floor).parse(text);
}

Policy read_policy_file(const std::string& path, size_t floor) {
  return parse_policy_file(contents(path), path, floor);
}

}  // namespace terse
