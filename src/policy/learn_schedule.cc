#include "policy/learn_schedule.h"

#include <optional>

#include "policy/scheme.h"
#include "policy/scheme_options.h"

namespace terse {

// Parses numbers of calls with a plus or a comma between them, or never.
Learn parse_learn(std::string_view text, std::string_view value) {
  constexpr uint64_t kLast = uint64_t{1} << 32;
  Learn learn{.calls = {}};
  if (value == "never") return learn;
  size_t n = 0;
  uint64_t before = 0;
  for (std::string_view rest = value;; rest.remove_prefix(1)) {
    const std::string_view number = rest.substr(0, rest.find_first_of("+,"));
    const std::optional<uint64_t> call = parse_number(number);
    if (!call || *call <= before || *call > kLast || n == Learn::kMax)
      refuse_scheme(text,
                    "learn is \"{}\", but must be never or up to {} numbers of calls, each above "
                    "the one before, such as 1+100+1000",
                    value, Learn::kMax);
    before = learn.calls[n++] = *call;
    rest.remove_prefix(number.size());
    if (rest.empty()) return learn;
  }
}

std::string print_learn(const Learn& learn) {
  std::string text;
  for (const uint64_t call : learn.calls)
    if (call != 0) text += fmt::format("{}{}", text.empty() ? "" : "+", call);
  return text.empty() ? "never" : text;
}

}  // namespace terse
