#include "base/text.h"

#include <fmt/format.h>

namespace terse {
namespace {

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xc0) == 0x80; }

// Bytes of the character that the text begins with; 0: it is no UTF-8, or a control character.
size_t length_of_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  if (first < 0x80) return first >= ' ' && first != 0x7f ? 1 : 0;
  if (first < 0xc2 || first > 0xf4) return 0;
  const size_t length = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (text.size() < length) return 0;
  for (const char c : text.substr(1, length - 1))
    if (!is_continuation(c)) return 0;
  const bool control = first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
  return control ? 0 : length;
}

std::string escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

// Returns at most so many bytes, and whole characters.
std::string_view beginning_of(std::string_view text, size_t bytes) {
  while (bytes > 0 && is_continuation(text[bytes])) --bytes;
  return text.substr(0, bytes);
}

std::string_view end_of(std::string_view text, size_t bytes) {
  size_t at = text.size() - bytes;
  while (at < text.size() && is_continuation(text[at])) ++at;
  return text.substr(at);
}

}  // namespace

std::string printable(std::string_view text) {
  std::string all;
  all.reserve(text.size());
  while (!text.empty()) {
    const size_t length = length_of_character(text);
    if (length == 0)
      all += escaped(text.front());
    else
      all += text.substr(0, length);
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return all;
}

std::string shortened(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return fmt::format("{}... ({} characters)", beginning_of(text, most), text.size());
}

std::string shortened_within(std::string_view text, size_t most) {
  if (text.size() <= most) return std::string(text);
  return fmt::format("{} ...{}", shortened(text, most / 2), end_of(text, most / 2));
}

std::string counted(uint64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace terse
