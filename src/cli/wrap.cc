#include "cli/wrap.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/colors.h"

namespace terse::cli {
namespace {

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

void print_wrapped(std::string_view text) { fmt::print("{}", wrapped(text, columns())); }

}  // namespace terse::cli
