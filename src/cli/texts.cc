#include "cli/texts.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <string_view>
#include <system_error>

#include "codec/layout.h"

namespace terse::cli {
namespace {

// Returns true if the text behind a comma belongs to the scheme before it: a number, or a key.
bool goes_on(std::string_view text) {
  if (text.empty()) return false;
  if (text[0] >= '0' && text[0] <= '9') return true;
  const size_t end = text.find_first_not_of("abcdefghijklmnopqrstuvwxyz-");
  return end != 0 && end != text.npos && text[end] == '=';
}

}  // namespace

std::string density(const Scheme& scheme) {
  const size_t count = size_t{scheme.spec.block} * 1024;
  const double bits = 8.0 * codec::body_size(scheme.spec, count) / count;
  return fmt::format("{:.4g} bits an element: 1/{:.4g} of fp32, 1/{:.4g} of fp16 and bf16", bits,
                     32 / bits, 16 / bits);
}

std::string bytes_text(uint64_t bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.4g} {} ({} B)", value, kUnits[unit], bytes);
}

std::vector<std::string> split_schemes(const std::string& text) {
  std::vector<std::string> schemes;
  size_t begin = 0;
  for (size_t comma = text.find(','); comma != text.npos; comma = text.find(',', comma + 1)) {
    if (goes_on(std::string_view(text).substr(comma + 1))) continue;
    schemes.push_back(text.substr(begin, comma - begin));
    begin = comma + 1;
  }
  if (begin < text.size() || schemes.empty()) schemes.push_back(text.substr(begin));
  return schemes;
}

std::string quoted(std::string_view text, std::string_view quote) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += quote;
    else
      out += c;
  }
  return "'" + out + "'";
}

std::string shell_word(const std::string& word) {
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_@%+=:,./-";
  if (!word.empty() && word.find_first_not_of(kPlain) == word.npos) return word;
  return quoted(word, R"('\'')");
}

void print_warnings(const Policy& policy, std::FILE* to) {
  for (const std::string& line : policy.warnings()) fmt::print(to, "warning: {}\n", line);
}

void print_rules(const Policy& policy) {
  for (const Rule& rule : policy.rules)
    fmt::print("{}: {}{}\n", describe_rule(rule), print_rule(rule),
               rule.preset.empty() ? "" : fmt::format("   (preset {})", rule.preset));
  print_warnings(policy, stdout);
  unsigned hinted = 0;  // number of a rule as written, of which there may be several here
  for (const Rule& rule : policy.rules) {
    const Range& nodes = rule.match.nodes;
    if (rule.number == hinted || nodes.first < 2 || nodes.first != nodes.last) continue;
    hinted = rule.number;
    fmt::print("hint: {0} is for exactly {1} nodes; from {1} nodes on is nodes={1}..\n",
               describe_rule(rule), nodes.first);
  }
}

void flush_output() {
  const bool failed = std::ferror(stdout) != 0;
  if (std::fflush(stdout) != 0 || failed) throw std::system_error(errno, std::generic_category());
}

}  // namespace terse::cli
