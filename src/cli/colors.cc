#include "cli/colors.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>

namespace terse::cli {
namespace {

constexpr std::string_view kBold = "\033[1m", kGreen = "\033[32m", kRed = "\033[1;31m",
                           kNone = "\033[0m";

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

}  // namespace

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
