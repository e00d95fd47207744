#include "cli/wrap.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace terse::cli {
namespace {

constexpr size_t kDefaultColumns = 100, kMinColumns = 40;

size_t number_in(const char* text) {
  size_t number = 0;
  if (text == nullptr) return 0;
  const char* const end = text + std::strlen(text);
  const auto [behind, error] = std::from_chars(text, end, number);
  return error == std::errc{} && behind == end ? number : 0;
}

size_t terminal_columns() {
  winsize size{};
  return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

// Returns the column at which the line's last cell begins, if that leaves room for a few words.
size_t indentation(std::string_view line, size_t columns) {
  constexpr size_t kFewWords = 20;
  const size_t first = std::min(line.find_first_not_of(' '), line.size());
  const size_t gap = line.rfind("  ");
  const bool fits = gap != line.npos && gap >= first && gap + 2 + kFewWords <= columns;
  return fits ? gap + 2 : first;
}

std::string_view without_blanks(std::string_view text) {
  return text.substr(0, text.find_last_not_of(' ') + 1);
}

std::string wrapped_line(std::string_view line, size_t columns) {
  const size_t indent = indentation(line, columns);
  std::string text;
  size_t begin = 0, room = columns;
  while (line.size() - begin > room) {
    size_t end = line.rfind(' ', begin + room);
    if (end == line.npos || end <= begin + (begin == 0 ? indent : 0))
      end = line.find(' ', begin + room);  // a word that is longer
    if (end == line.npos) break;
    text.append(without_blanks(line.substr(begin, end - begin))).append("\n").append(indent, ' ');
    begin = end + 1;
    room = columns - indent;
  }
  return text.append(line.substr(begin));
}

}  // namespace

size_t columns() {
  size_t width = number_in(std::getenv("COLUMNS"));
  if (width == 0) width = terminal_columns();
  return width == 0 ? kDefaultColumns : std::max(width, kMinColumns);
}

std::string wrapped(std::string_view text, size_t columns) {
  std::string out;
  while (true) {
    const size_t end = text.find('\n');
    out += wrapped_line(text.substr(0, end), columns);
    if (end == text.npos) return out;
    out += '\n';
    text.remove_prefix(end + 1);
  }
}

}  // namespace terse::cli
