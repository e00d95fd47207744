// The options of a scheme, key=value[,key=value]..., and how one that cannot be right is refused.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"

namespace terse {

// `text`: the whole scheme.
template <class... Args>
[[noreturn]] void refuse_scheme(std::string_view text, fmt::format_string<Args...> format,
                                Args&&... args) {
  fail(ncclInvalidArgument, "scheme \"{}\": {}", text,
       fmt::format(format, std::forward<Args>(args)...));
}

// A table entry for each key.
template <class Draft>
struct OptionKey {
  std::string_view name;
  void (*set)(std::string_view text, std::string_view value, Draft& draft);
};

// Sets what is behind the scheme's colon, if there is one. `known`: gives words for the keys, for a
// message.
template <class Draft, size_t n>
void read_options(std::string_view text, const OptionKey<Draft> (&keys)[n], std::string (*known)(),
                  Draft& draft) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return;
  unsigned seen = 0;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const size_t comma = rest.find(',');
    const std::string_view option = rest.substr(0, comma);
    const size_t equals = option.find('=');
    if (equals == option.npos) refuse_scheme(text, "\"{}\" is not key=value", option);
    const std::string_view name = option.substr(0, equals);
    const auto key = std::ranges::find(keys, name, &OptionKey<Draft>::name);
    if (key == keys + n) refuse_scheme(text, "unknown key \"{}\"; {}", name, known());
    const unsigned bit = 1u << (key - keys);
    if (seen & bit) refuse_scheme(text, "{} is given twice", name);
    seen |= bit;
    key->set(text, option.substr(equals + 1), draft);
    if (comma == rest.npos) return;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace terse
