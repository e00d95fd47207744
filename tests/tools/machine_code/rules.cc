#include "rules.h"

#include <map>

namespace terse::machine {
namespace {

std::map<std::string_view, const Rule*> make_index() {
  std::map<std::string_view, const Rule*> index;
  for (const auto rules : {integer_rules(), predicate_rules(), move_rules(), real_rules(),
                           conversion_rules(), memory_rules(), control_rules(), collective_rules()})
    for (const Rule& rule : rules) index.emplace(rule.name, &rule);
  return index;
}

// Uniform forms: a rule's name with a U before it.
constexpr std::string_view kUniformForms[] = {"UIADD3",
                                              "UIMAD",
                                              "UIMAD.WIDE",
                                              "UISETP",
                                              "ULEA",
                                              "ULEA.HI",
                                              "ULOP3",
                                              "UMOV",
                                              "UPRMT",
                                              "USEL",
                                              "USHF",
                                              "UFLO.U32",
                                              "ULDC",
                                              "UFFMA",
                                              "UFADD",
                                              "UFMUL",
                                              "UPLOP3",
                                              "UMOV.64",
                                              "USEL.64",
                                              "UVIMNMX",
                                              "UI2F",
                                              "UI2FP.F32",
                                              "UF2I.FTZ.U32.TRUNC.NTZ",
                                              "UIMAD.HI",
                                              "UIADD3.64"};

}  // namespace

const Rule* find_rule(std::string_view name) {
  static const auto index = make_index();
  for (const std::string_view uniform : kUniformForms)
    if (name == uniform) name.remove_prefix(1);
  const auto found = index.find(name);
  return found == index.end() ? nullptr : found->second;
}

}  // namespace terse::machine
