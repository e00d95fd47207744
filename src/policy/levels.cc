#include "policy/levels.h"

#include <algorithm>
#include <bit>
#include <filesystem>
#include <functional>

#include "codec/float_mode.h"
#include "codec/spec.h"
#include "policy/datatype.h"
#include "policy/draft.h"
#include "policy/names.h"
#include "policy/scheme.h"
#include "policy/toml_file.h"

namespace terse {
namespace {

class LevelsParser {
 public:
  LevelsParser(std::string_view text, const std::string& path) : file_(text, path) {}

  std::vector<Levels> parse() const {
    static constexpr std::string_view kKeys[] = {"levels"};
    std::vector<Levels> all;
    for (const Entry& e : TomlFile::entries(file_.table())) {
      file_.find_key(e, kKeys);
      for (const toml::table* table : file_.tables_of(e)) all.push_back(levels_of(*table));
    }
    return all;
  }

 private:
  using Entry = TomlFile::Entry;

  Levels levels_of(const toml::table& table) const {
    static constexpr std::string_view kKeys[] = {"collective", "count", "dtype", "scheme",
                                                 "calls",      "fits",  "at"};
    constexpr uint64_t kMax = uint64_t{1} << 53;
    Levels levels;
    for (const Entry& e : TomlFile::entries(table)) {
      file_.find_key(e, kKeys);
      if (e.key == "count")
        levels.count = file_.whole_of(e, 0, kMax);
      else if (e.key == "calls" || e.key == "fits")
        (e.key == "calls" ? levels.calls : levels.fits) = file_.whole_of(e, 0, kMax);
      else if (e.key == "at")
        levels.at = numbers(e);
      else
        at(file_.place(e.value->source().begin),
           [&, text = file_.text_of(e)] { set_name(e.key, text, levels); });
    }
    const toml::source_position& begin = table.source().begin;
    if (levels.at.empty()) file_.refuse(begin, "[[levels]] has no list at");
    if (levels.spec && levels.spec->bits != levels.bits())
      file_.refuse(begin, "the scheme has {} levels, but at has {}", 1 << levels.spec->bits,
                   levels.at.size());
    return levels;
  }

  // Sets what names identify.
  static void set_name(std::string_view key, const std::string& name, Levels& levels) {
    if (key == "collective") {
      levels.collective = find_collective(name);
    } else if (key == "dtype") {
      levels.dtype = find_compressed_dtype(name);
    } else {
      const Scheme scheme = parse_scheme(name);
      if (scheme.off || scheme.automatic || !codec::descriptor(scheme.spec.codec).codebook)
        fail(ncclInvalidArgument, "\"{}\" learns no levels; learned2 to learned8 do", name);
      levels.spec = scheme.spec;
    }
  }

  std::vector<float> numbers(const Entry& e) const {
    const toml::array* const list = e.value->as_array();
    if (list == nullptr) file_.refuse(e.at, "at is a list of numbers");
    const size_t n = list->size();
    if (n < size_t{1} << codec::kMinBits || n > size_t{1} << codec::kMaxBits ||
        !std::has_single_bit(n))
      file_.refuse(e.at, "at has {} numbers, but must have a power of two of them, {} to {}", n,
                   1 << codec::kMinBits, 1 << codec::kMaxBits);
    std::vector<float> all;
    for (const toml::node& node : *list) {
      const auto number = static_cast<float>(file_.number_of(node, "a level"));
      const toml::source_position& begin = node.source().begin;
      if (!(number >= 0 && number <= 1))
        file_.refuse(begin, "a level is {}, but must be from 0 to 1", number);
      if (!all.empty() && number < all.back())
        file_.refuse(begin, "a level is {}, less than the one before it, {}", number, all.back());
      all.push_back(number);
    }
    return all;
  }

  const TomlFile file_;
};

std::string next_table(const Levels& l, bool is_first) {
  std::string text = is_first ? "[[levels]]\n" : "\n[[levels]]\n";
  if (l.collective)
    text += fmt::format("collective = \"{}\"\n", print_collectives(set_of(*l.collective)));
  if (l.count) text += fmt::format("count = {}\n", *l.count);
  if (l.dtype) text += fmt::format("dtype = \"{}\"\n", print_dtype(*l.dtype));
  if (l.spec) text += fmt::format("scheme = \"{}\"\n", print_scheme({.spec = *l.spec}));
  text += fmt::format("calls = {}\nfits = {}\nat = [", l.calls, l.fits);
  for (size_t i = 0; i < l.at.size(); ++i) text += fmt::format("{}{}", i ? ", " : "", l.at[i]);
  return text + "]\n";
}

}  // namespace

int Levels::bits() const { return std::bit_width(at.size()) - 1; }

bool Levels::fit(plan::Collective c, uint64_t n, codec::Dtype d, const codec::Spec& s) const {
  if (bits() != s.bits || collective.value_or(c) != c || count.value_or(n) != n ||
      dtype.value_or(d) != d || spec.value_or(s) != s)
    return false;
  return s.rounding == codec::Rounding::kNearest || (at.front() == 0 && at.back() == 1);
}

std::vector<Levels> parse_levels(std::string_view text, const std::string& path) {
  const codec::DefaultFloatEnvironment environment;  // alike on all ranks
  return LevelsParser(text, path).parse();
}

std::vector<Levels> read_levels(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error) && !error) return {};
  return parse_levels(text_of_file(path, "a file of levels", kMaxLevelsBytes), path);
}

std::string print_levels(std::span<const Levels> all) {
  std::string text;
  for (const Levels& each : all) text += next_table(each, text.empty());
  return text;
}

std::string print_most_used(std::vector<Levels> all, size_t most) {
  if (std::string text = print_levels(all); text.size() <= most) return text;
  std::ranges::stable_sort(all, std::greater{}, &Levels::calls);
  std::string text;
  for (const Levels& each : all) {
    const std::string table = next_table(each, text.empty());
    if (text.size() + table.size() > most) break;
    text += table;
  }
  return text;
}

}  // namespace terse
