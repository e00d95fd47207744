#include "cli/text.h"

#include <fmt/format.h>

#include <regex>

#include "codec/layout.h"

namespace terse::cli {

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
  static const std::regex between(",(?![a-z]+=|[0-9])");
  return {std::sregex_token_iterator(text.begin(), text.end(), between, -1), {}};
}

std::string shell_word(const std::string& word) {
  static const std::regex plain("[A-Za-z0-9_@%+=:,./-]+");
  if (std::regex_match(word, plain)) return word;
  return "'" + std::regex_replace(word, std::regex("'"), "'\\''") + "'";
}

void print_rules(const Policy& policy) {
  for (const Rule& rule : policy.rules)
    fmt::print("{}: {}{}\n", describe_rule(rule), print_rule(rule),
               rule.preset.empty() ? "" : fmt::format("   (preset {})", rule.preset));
  for (const std::string& line : policy.warnings()) fmt::print("warning: {}\n", line);
}

}  // namespace terse::cli
