#include "policy/toml_depth.h"

#include <fmt/format.h>

#include <algorithm>

namespace terse {
namespace {

constexpr int kMaxParts = 100;  // of a key
constexpr int kMaxNested = 16;  // arrays and inline tables in each other

size_t length_of_comment(std::string_view text) { return std::min(text.find('\n'), text.size()); }

// Length of a text in three quotes each; its last two characters may be quotes as well.
size_t length_of_lines(std::string_view text, std::string_view quotes) {
  const bool escapes = quotes.front() == '"';
  size_t at = quotes.size();
  while (at < text.size() && !text.substr(at).starts_with(quotes))
    at += escapes && text[at] == '\\' ? 2 : 1;
  at += quotes.size();
  for (int more = 0; more < 2 && at < text.size() && text[at] == quotes.front(); ++more) ++at;
  return std::min(at, text.size());
}

// Length of a text in quotes, which ends with its line at the latest.
size_t length_of_text(std::string_view text) {
  const char quote = text.front();
  size_t at = 1;
  while (at < text.size() && text[at] != quote && text[at] != '\n')
    at += quote == '"' && text[at] == '\\' ? 2 : 1;
  const bool closed = at < text.size() && text[at] == quote;
  return std::min(at + (closed ? 1 : 0), text.size());
}

// Length of what a text begins with and nothing nests in; 0: something else.
size_t length_of_opaque(std::string_view text) {
  if (text.front() == '#') return length_of_comment(text);
  for (const std::string_view quotes : {R"(""")", "'''"}) {
    if (text.starts_with(quotes)) return length_of_lines(text, quotes);
    if (text.front() == quotes.front()) return length_of_text(text);
  }
  return 0;
}

}  // namespace

std::optional<TooDeep> too_deep(std::string_view text) {
  int parts = 1, nested = 0;
  for (size_t at = 0; at < text.size();) {
    if (const size_t opaque = length_of_opaque(text.substr(at)); opaque != 0) {
      at += opaque;
      continue;
    }
    const char c = text[at];
    if (c == '.') ++parts;
    if (std::string_view("\n,=[]{}").find(c) != std::string_view::npos) parts = 1;
    if (c == '[' || c == '{') ++nested;
    if (c == ']' || c == '}') --nested;
    if (parts > kMaxParts) return {{at, fmt::format("a key of more than {} parts", kMaxParts)}};
    if (nested > kMaxNested)
      return {{at, fmt::format("more than {} lists or tables in each other", kMaxNested)}};
    ++at;
  }
  return {};
}

}  // namespace terse
