#include "size.h"

#include <cmath>
#include <cstdlib>
#include <stdexcept>

namespace terse::perf {
namespace {

// The shift of a suffix, or -1. nccl-tests reads one letter: what else says bytes may follow.
int suffix_shift(const std::string& suffix) {
  if (suffix.empty()) return 0;
  const std::string unit = suffix.substr(1);
  if (!unit.empty() && unit != "B" && unit != "iB") return -1;
  switch (suffix[0]) {
    case 'k':
    case 'K':
      return 10;
    case 'm':
    case 'M':
      return 20;
    case 'g':
    case 'G':
      return 30;
    case 't':
    case 'T':
      return 40;
    default:
      return -1;
  }
}

}  // namespace

std::size_t parse_size(const std::string& text) {
  const std::string complaint = "'" + text + "' is not a size (examples: 8, 1K, 64M, 1G)";
  const std::size_t end = text.find_first_not_of("0123456789.");
  const std::string digits = text.substr(0, end);
  const int shift = suffix_shift(end == std::string::npos ? "" : text.substr(end));
  char* rest = nullptr;
  const double number = std::strtod(digits.c_str(), &rest);
  if (digits.empty() || *rest != '\0' || shift < 0) throw std::invalid_argument(complaint);
  const double bytes = std::ldexp(number, shift);
  // Beyond 2^53 a double no longer counts single bytes; no buffer is that large.
  if (!(bytes < 9007199254740992.0)) throw std::invalid_argument(complaint + ": too large");
  return static_cast<std::size_t>(bytes);
}

}  // namespace terse::perf
