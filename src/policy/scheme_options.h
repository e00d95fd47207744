// Options of a scheme, key=value[,key=value]..., and the refusal of invalid ones.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "policy/nearest.h"

namespace terse {

// `text`: the whole scheme.
template <class... Args>
[[noreturn]] void refuse_scheme(std::string_view text, fmt::format_string<Args...> format,
                                Args&&... args) {
  fail(ncclInvalidArgument, "scheme \"{}\": {}", shortened(text),
       fmt::format(format, std::forward<Args>(args)...));
}

// Table entry of a key. A `listed` key takes several numbers, with commas between them.
template <class Draft>
struct OptionKey {
  std::string_view name;
  void (*set)(std::string_view text, std::string_view value, Draft& draft);
  bool listed = false;
};

// End of a list of numbers that continues behind a comma; npos: the end of the text.
inline size_t end_of_list(std::string_view text, size_t comma) {
  while (comma != text.npos) {
    const size_t next = text.find(',', comma + 1);
    const std::string_view item = text.substr(comma + 1, next - comma - 1);
    if (item.empty() || item.find_first_not_of("0123456789") != item.npos) break;
    comma = next;
  }
  return comma;
}

// Sets the options behind the scheme's colon, if there are any. `known`: words for the keys, for a
// message.
template <class Draft, size_t n>
void read_options(std::string_view text, const OptionKey<Draft> (&keys)[n], std::string (*known)(),
                  Draft& draft) {
  const size_t colon = text.find(':');
  if (colon == text.npos) return;
  unsigned seen = 0;
  for (std::string_view rest = text.substr(colon + 1);;) {
    size_t comma = rest.find(',');
    std::string_view option = rest.substr(0, comma);
    const size_t equals = option.find('=');
    if (equals == option.npos) refuse_scheme(text, "\"{}\" is not key=value", shortened(option));
    const std::string_view name = option.substr(0, equals);
    const auto key = std::ranges::find(keys, name, &OptionKey<Draft>::name);
    if (key == keys + n) {
      std::string_view names[n];
      for (size_t i = 0; i < n; ++i) names[i] = keys[i].name;
      const std::string_view meant = nearest(name, names);
      refuse_scheme(text, "unknown key \"{}\"; {}{}", shortened(name), known(),
                    meant.empty() ? "" : fmt::format("; did you mean \"{}\"?", meant));
    }
    const unsigned bit = 1u << (key - keys);
    if (seen & bit) refuse_scheme(text, "{} is given twice", name);
    seen |= bit;
    if (key->listed) {
      comma = end_of_list(rest, comma);
      option = rest.substr(0, comma);
    }
    key->set(text, option.substr(equals + 1), draft);
    if (comma == rest.npos) return;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace terse
