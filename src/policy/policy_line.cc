// A policy on one line (policy.h).
#include <optional>

#include "policy/conditions.h"
#include "policy/draft.h"

namespace terse {
namespace {

constexpr std::string_view kBlanks = " \t\n\r";

struct Word {
  std::string_view text;
  size_t at = 0;  // in the line
};

class LineParser {
 public:
  LineParser(std::string_view text, Floor floor) : text_(text), floor_(floor) {}

  Policy parse() {
    do {
      rule();
    } while (take(";"));
    return std::move(policy_);
  }

 private:
  static std::string column(size_t place) { return fmt::format("column {}", place + 1); }

  template <class... Args>
  [[noreturn]] static void refuse(size_t place, fmt::format_string<Args...> format,
                                  Args&&... args) {
    fail(ncclInvalidArgument, "{}: {}", column(place),
         fmt::format(format, std::forward<Args>(args)...));
  }

  void rule() {
    Draft draft{.number = ++number_};
    seen_ = 0;
    std::vector<Word> before;
    while (const std::optional<Word> w = word()) before.push_back(*w);
    const size_t arrow = at_;
    Word scheme;
    if (take("->") || take(":")) {
      if (before.empty()) refuse(arrow, "conditions are missing before \"->\"");
      for (const Word& w : before) condition(w, draft);
      const std::optional<Word> next = word();
      if (!next) refuse(at_, "a scheme is missing after \"->\"");
      scheme = *next;
      if (const std::optional<Word> more = word())
        refuse(more->at, "\"{}\" after the scheme", more->text);
      if (starts("->")) refuse(at_, "a second \"->\" in one rule");
    } else {
      if (before.empty()) refuse(at_, "a rule is missing");
      if (before.size() > 1) refuse_arrowless(before);
      require_no_condition(before.front());
      scheme = before.front();
      require_no_option(scheme);
    }
    draft.scheme = scheme.text;
    at(column(scheme.at), [&] { add_rule(draft, floor_, policy_); });
    scheme_ = scheme;
  }

  // Refuses several words without "->": rules that lack it, or a scheme with blanks.
  [[noreturn]] void refuse_arrowless(const std::vector<Word>& words) const {
    const std::string_view text = through(words.front(), words.back());
    if (const std::string meant = meant_scheme(text); !meant.empty())
      refuse(words.front().at, "\"{}\" is no scheme; did you mean \"{}\"?", text, meant);
    refuse(words[1].at, "\"->\" is missing between the conditions and the scheme");
  }

  // Refuses "nodes=2.." alone: a shell takes the ">" of "->" for a file, and leaves no more.
  void require_no_condition(const Word& word) const {
    const std::string_view key = word.text.substr(0, word.text.find('='));
    if (number_ == 1 && key.size() < word.text.size() && find_condition(key) != nullptr)
      refuse(
          word.at,
          "\"{0}\" is a condition without a scheme; rules with \"->\" need quotes: '{0} -> safe'",
          word.text);
  }

  // Refuses "int4;block=64", whose semicolon has begun a rule.
  void require_no_option(const Word& word) const {
    if (number_ == 1 || word.text.find('=') == word.text.npos) return;
    const std::string_view text = through(scheme_, word);
    const std::string meant = meant_scheme(text);
    if (!meant.empty())
      refuse(scheme_.at, "\"{}\" is no scheme, for \";\" separates rules; did you mean \"{}\"?",
             text, meant);
  }

  // Text from the beginning of one word to the end of another.
  std::string_view through(const Word& first, const Word& last) const {
    return text_.substr(first.at, last.at + last.text.size() - first.at);
  }

  // Parses key=value, or names of collectives.
  void condition(const Word& word, Draft& draft) {
    const size_t equals = word.text.find('=');
    const bool bare = equals == word.text.npos;
    const std::string_view key = bare ? "collective" : word.text.substr(0, equals);
    const Word value = bare ? word : Word{word.text.substr(equals + 1), word.at + equals + 1};
    const Condition* c = find_condition(key);
    if (c == nullptr) refuse(word.at, "unknown key \"{}\"{}", key, hint_key(key, {}));
    const size_t index = c - conditions().data();
    if (seen_ & 1u << index) refuse(word.at, "{} is given twice", key);
    seen_ |= 1u << index;
    if (c->kind != ConditionKind::kNames)
      return at(column(value.at), [&] { add_value(*c, unquote(value.text), draft); });
    for (size_t begin = 0; begin <= value.text.size();) {
      const size_t comma = std::min(value.text.find(',', begin), value.text.size());
      at(column(value.at + begin),
         [&] { add_value(*c, value.text.substr(begin, comma - begin), draft); });
      begin = comma + 1;
    }
  }

  void skip_blanks() { at_ = std::min(text_.find_first_not_of(kBlanks, at_), text_.size()); }
  bool starts(std::string_view sign) const { return text_.substr(at_).starts_with(sign); }

  bool take(std::string_view sign) {
    if (!starts(sign)) return false;
    at_ += sign.size();
    return true;
  }

  // Returns true at ": " behind a condition, which is as good as "->"; behind a codec's name it is
  // a scheme with a blank.
  bool ends_conditions(size_t begin) const {
    const std::string_view text = text_.substr(begin, at_ - begin);
    const std::string_view key = text.substr(0, text.find('='));
    const std::string_view last = text.substr(text.rfind(',') + 1);
    return starts(": ") &&
           (key.size() < text.size()
                ? find_condition(key) != nullptr
                : std::ranges::count(collective_names(), last, &CollectiveName::name) != 0);
  }

  // Word up to a blank or a sign outside of quotes; none before a sign, and at the end.
  std::optional<Word> word() {
    skip_blanks();
    if (starts(": ")) return {};
    const size_t begin = at_;
    size_t quote = 0;
    bool quoted = false;
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (quoted && c == '\\') {
        at_ = std::min(at_ + 1, text_.size() - 1);
      } else if (c == '"') {
        quoted = !quoted;
        quote = at_;
      } else if (!quoted && (kBlanks.find(c) != kBlanks.npos || c == ';' || starts("->") ||
                             ends_conditions(begin))) {
        break;
      }
    }
    if (quoted) refuse(quote, "a closing quote is missing");
    if (at_ == begin) return {};
    return Word{text_.substr(begin, at_ - begin), begin};
  }

  const std::string_view text_;
  const Floor floor_;
  size_t at_ = 0;
  unsigned number_ = 0;
  Word scheme_;        // of the previous rule
  unsigned seen_ = 0;  // conditions, by their place in the table
  Policy policy_;
};

}  // namespace

Policy parse_policy_line(std::string_view text, Floor floor) {
  return LineParser(text, floor).parse();
}

}  // namespace terse
