// A policy in a TOML file (policy.h).
#include "policy/conditions.h"
#include "policy/draft.h"
#include "policy/nearest.h"
#include "policy/toml_file.h"

namespace terse {
namespace {

class FileParser {
 public:
  FileParser(std::string_view text, const std::string& path, Floor floor)
      : file_(text, path), floor_(floor) {}

  Policy parse() {
    for (const Entry& entry : TomlFile::entries(file_.table())) rules(entry);
    return std::move(policy_);
  }

 private:
  using Entry = TomlFile::Entry;

  void rules(const Entry& entry) {
    static constexpr std::string_view kKeys[] = {"rule"};
    if (entry.key != "rule") {
      if (const Condition* c = find_condition(entry.key); c != nullptr || entry.key == "scheme")
        file_.refuse(entry.at, "\"{}\" belongs to a rule, under [[rule]]", entry.key);
      file_.find_key(entry, kKeys);  // throws that it is unknown
    }
    const toml::array* list = entry.value->as_array();
    if (list == nullptr) file_.refuse(entry.at, "rules begin with [[rule]]");
    for (const toml::node& node : *list) {
      if (!node.is_table()) file_.refuse(node.source().begin, "a rule is a table, [[rule]]");
      rule(*node.as_table());
    }
  }

  void rule(const toml::table& table) {
    static constexpr std::string_view kMore[] = {"scheme"};
    const toml::source_position begin = table.source().begin;
    Draft draft{.number = ++number_, .line = begin.line};
    const toml::node* scheme = nullptr;
    for (const Entry& entry : TomlFile::entries(table)) {
      if (entry.key == "scheme") {
        scheme = entry.value;
      } else if (const Condition* c = find_condition(entry.key)) {
        condition(*c, *entry.value, draft);
      } else {
        file_.refuse(entry.at, "unknown key \"{}\"{}", entry.key, hint_key(entry.key, kMore));
      }
    }
    if (scheme == nullptr) file_.refuse(begin, "the rule has no scheme");
    const std::string text = value_of(*scheme, false);
    draft.scheme = text;
    at(file_.place(scheme->source().begin), [&] { add_rule(draft, floor_, policy_); });
  }

  void condition(const Condition& c, const toml::node& value, Draft& draft) const {
    const auto add = [&](const toml::node& one) {
      const std::string text = value_of(one, c.kind == ConditionKind::kRange);
      at(file_.place(one.source().begin), [&] { add_value(c, text, draft); });
    };
    const toml::array* list = c.kind == ConditionKind::kNames ? value.as_array() : nullptr;
    if (list == nullptr) return add(value);
    if (list->empty()) file_.refuse(value.source().begin, "the list is empty; leave {} out", c.key);
    for (const toml::node& one : *list) add(one);
  }

  std::string value_of(const toml::node& node, bool number) const {
    if (const auto text = node.value_exact<std::string>()) return *text;
    if (const auto integer = node.value_exact<int64_t>(); integer && number)
      return fmt::format("{}", *integer);
    file_.refuse(node.source().begin, "a text in quotes{} is expected here",
                 number ? " or a number" : "");
  }

  const TomlFile file_;
  const Floor floor_;
  unsigned number_ = 0;
  Policy policy_;
};

}  // namespace

Policy parse_policy_file(std::string_view text, const std::string& path, Floor floor) {
  return FileParser(text, path, floor).parse();
}

Policy read_policy_file(const std::string& path, Floor floor) {
  return parse_policy_file(text_of_file(path, "a policy"), path, floor);
}

}  // namespace terse
