#include "cli/colors.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>

namespace terse::cli {
namespace {

constexpr std::string_view kBold = "\033[1m", kGreen = "\033[32m", kRed = "\033[1;31m",
                           kNone = "\033[0m";

constexpr size_t kDefaultColumns = 100, kMinColumns = 40;

bool is_given(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

std::string colored(std::string_view color, std::string_view text) {
  return std::string(color).append(text).append(kNone);
}

// Names at the begin of a line end before two blanks, or with the line.
std::string colored_line(std::string_view line) {
  if (line.empty()) return "";
  if (line.front() != ' ') return line.back() == ':' ? colored(kBold, line) : std::string(line);
  if (line.size() < 3 || line.starts_with("   ") || line[1] != ' ') return std::string(line);
  const std::string_view names = line.substr(2, line.find("  ", 2) - 2);
  return "  " + colored(kGreen, names) + std::string(line.substr(2 + names.size()));
}

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

}  // namespace

size_t columns() {
  size_t width = number_in(std::getenv("COLUMNS"));
  if (width == 0) width = terminal_columns();
  return width == 0 ? kDefaultColumns : std::max(width, kMinColumns);
}

bool has_colors(std::FILE* stream) {
  const char* const terminal = std::getenv("TERM");
  return isatty(fileno(stream)) != 0 && !is_given("NO_COLOR") && terminal != nullptr &&
         std::strcmp(terminal, "dumb") != 0;
}

std::string complaint_prefix() { return has_colors(stderr) ? colored(kRed, "terse:") : "terse:"; }

std::string colored_help(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    out += colored_line(text.substr(0, end));
    if (end == text.npos) break;
    out += '\n';
    text.remove_prefix(end + 1);
  }
  return out;
}

}  // namespace terse::cli
