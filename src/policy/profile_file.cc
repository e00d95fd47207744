#include "policy/profile_file.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <tuple>

#include "base/text.h"
#include "codec/float_mode.h"
#include "policy/automatic.h"
#include "policy/datatype.h"
#include "policy/draft.h"
#include "policy/names.h"
#include "policy/nearest.h"
#include "policy/scheme.h"
#include "policy/toml_file.h"

namespace terse {
namespace {

using model::Curve;
using model::FusedCalls;
using model::Link;
using model::Profile;
using model::Rates;

// Number of a table, and its bounds. The canonical order is that of the lists.
template <class Owner>
struct Field {
  std::string_view key;
  double Owner::*member;
  double least, most;
  std::string_view unit;
  bool required = true;
};

constexpr Field<Link> kLink[] = {
    {"latency", &Link::latency, 0, kMaxLatency, "seconds"},
    {"bandwidth", &Link::bandwidth, kMinRate, kMaxRate, "bytes a second"}};
constexpr Field<Rates> kRates[] = {
    {"encode", &Rates::encode, kMinRate, kMaxRate, "elements a second"},
    {"decode", &Rates::decode, kMinRate, kMaxRate, "elements a second"}};
constexpr Field<Profile> kProfile[] = {{"message", &Profile::message, 0, 10, "seconds", false},
                                       {"launch", &Profile::launch, 0, 10, "seconds", false},
                                       {"overlap", &Profile::overlap, 0, 1, "", false}};

constexpr Field<FusedCalls> kFused[] = {
    {"launch", &FusedCalls::launch, 0, kMaxLatency, "seconds"},
    {"flag", &FusedCalls::flag, 0, kMaxLatency, "seconds"},
    {"bandwidth", &FusedCalls::bandwidth, kMinRate, kMaxRate, "bytes a second"},
    {"overlap", &FusedCalls::overlap, 0, 1, "", false}};

constexpr int kMaxRanks = 1 << 20;

template <class Owner, size_t n>
const Field<Owner>* find(const Field<Owner> (&numbers)[n], std::string_view key) {
  const auto found = std::ranges::find(numbers, key, &Field<Owner>::key);
  return found == std::end(numbers) ? nullptr : found;
}

class ProfileParser {
 public:
  ProfileParser(std::string_view text, const std::string& path) : file_(text, path) {}

  Profile parse() {
    static constexpr std::string_view kKeys[] = {
        "name",      "source",  "gpu",    "devices", "node_ranks", "nics",
        "max_nodes", "message", "launch", "overlap", "within",     "between",
        "pods",      "fused",   "coding", "codec",   "measured"};
    for (const Entry& e : TomlFile::entries(file_.table())) {
      if (e.key == "name") {
        profile_.name = file_.text_of(e);
      } else if (e.key == "source") {
        profile_.source = file_.text_of(e);
      } else if (e.key == "gpu") {
        profile_.gpu = file_.flag_of(e);
      } else if (e.key == "devices") {
        profile_.devices = file_.texts_of(e);
      } else if (e.key == "node_ranks") {
        profile_.node_ranks = ranks_of(e);
      } else if (e.key == "nics") {
        profile_.nics = ranks_of(e);
      } else if (e.key == "max_nodes") {
        profile_.max_nodes = ranks_of(e);
      } else if (const auto* number = find(kProfile, e.key)) {
        set(*number, e, profile_);
      } else if (e.key == "within" || e.key == "between") {
        (e.key == "within" ? profile_.within : profile_.between) = numbers<Link>(kLink, e);
      } else if (e.key == "pods") {
        profile_.pods = numbers<Link>(kLink, e);
      } else if (e.key == "fused") {
        profile_.fused = fused_calls(e);
      } else if (e.key == "coding") {
        profile_.coding = numbers<Rates>(kRates, e);
      } else if (e.key == "codec") {
        for (const Entry& codec : TomlFile::entries(file_.table_of(e))) rates(codec);
      } else if (e.key == "measured") {
        for (const toml::table* table : file_.tables_of(e)) curve(*table);
      } else {
        file_.find_key(e, kKeys);  // throws that it is unknown
      }
    }
    require_whole();
    return std::move(profile_);
  }

 private:
  using Entry = TomlFile::Entry;

  template <class Owner>
  void set(const Field<Owner>& number, const Entry& e, Owner& owner) const {
    owner.*number.member = file_.number_of(e, number.least, number.most, number.unit);
  }

  int ranks_of(const Entry& e) const { return static_cast<int>(file_.whole_of(e, 1, kMaxRanks)); }

  // `other(e)` takes a key that is no number.
  template <class Owner, size_t n, class Other>
  Owner numbers(const Field<Owner> (&all)[n], const Entry& of, const Other& other) const {
    Owner owner;
    unsigned seen = 0;
    const toml::table& table = file_.table_of(of);
    for (const Entry& e : TomlFile::entries(table)) {
      const Field<Owner>* const number = find(all, e.key);
      if (number == nullptr) {
        other(e, owner);
        continue;
      }
      set(*number, e, owner);
      seen |= 1u << (number - all);
    }
    for (size_t i = 0; i < n; ++i)
      if (all[i].required && !(seen >> i & 1))
        file_.refuse(of.at, "{} has no {}, in {}", of.key, all[i].key, all[i].unit);
    return owner;
  }

  template <class Owner, size_t n>
  Owner numbers(const Field<Owner> (&all)[n], const Entry& of) const {
    return numbers(all, of, [&](const Entry& e, Owner&) {
      file_.refuse(e.at, "unknown key \"{}\"; known are {} and {}", e.key, all[0].key, all[1].key);
    });
  }

  FusedCalls fused_calls(const Entry& of) const {
    static constexpr std::string_view kKeys[] = {"launch", "flag", "bandwidth", "overlap",
                                                 "estimate"};
    return numbers(kFused, of, [&](const Entry& e, FusedCalls& fused) {
      file_.find_key(e, kKeys);  // throws that it is unknown
      fused.estimate = file_.flag_of(e);
    });
  }

  void rates(const Entry& e) {
    const std::vector<std::string> names = codec_names();
    const std::vector<std::string_view> known(names.begin(), names.end());
    if (std::ranges::find(known, e.key) == known.end())
      file_.refuse(e.at, "unknown codec \"{}\"{}", e.key, hint(e.key, known));
    profile_.codecs.emplace(e.key, numbers<Rates>(kRates, e));
  }

  void curve(const toml::table& table) {
    Curve curve;
    static constexpr std::string_view kKeys[] = {"collective", "dtype",  "ranks", "nodes",
                                                 "scheme",     "points", "fused"};
    unsigned seen = 1u << 6;  // fused may be left out
    for (const Entry& e : TomlFile::entries(table)) {
      seen |= 1u << file_.find_key(e, kKeys);
      if (e.key == "ranks" || e.key == "nodes")
        (e.key == "ranks" ? curve.ranks : curve.nodes) = ranks_of(e);
      else if (e.key == "points")
        points(e, curve);
      else if (e.key == "fused")
        curve.fused = file_.flag_of(e);
      else
        at(file_.place(e.value->source().begin),
           [&, text = file_.text_of(e)] { set_name(e.key, text, curve); });
    }
    const toml::source_position& begin = table.source().begin;
    for (size_t i = 0; i < std::size(kKeys); ++i)
      if (!(seen >> i & 1)) file_.refuse(begin, "[[measured]] has no {}", kKeys[i]);
    if (curve.nodes > curve.ranks)
      file_.refuse(begin, "{} cannot be on {}", counted(curve.ranks, "rank"),
                   counted(curve.nodes, "node"));
    require_new(curve, begin);
    profile_.measured.push_back(std::move(curve));
  }

  void require_new(const Curve& curve, const toml::source_position& begin) const {
    const auto key = [](const Curve& c) {
      return std::tie(c.collective, c.dtype, c.ranks, c.nodes, c.scheme, c.fused);
    };
    for (const Curve& other : profile_.measured)
      if (key(other) == key(curve))
        file_.refuse(begin, "{} of {}, {} on {}, {}, is [[measured]] twice",
                     print_collectives(set_of(curve.collective)), print_dtype(curve.dtype),
                     counted(curve.ranks, "rank"), counted(curve.nodes, "node"), curve.scheme);
  }

  // Name of a curve, as curves are looked up.
  static std::string name_of_curve(const std::string& text) {
    if (text == model::kNative) return text;
    const Scheme scheme = parse_scheme(text);
    const std::string name = short_name(scheme);
    if (scheme.off || scheme.automatic || parse_scheme(name) != scheme)
      fail(ncclInvalidArgument,
           "\"{}\" is no format, such as int8, nor one with its rounding alone", text);
    return name;
  }

  // Sets what names identify.
  static void set_name(std::string_view key, const std::string& name, Curve& curve) {
    if (key == "collective") {
      curve.collective = find_collective(name);
    } else if (key == "dtype") {
      curve.dtype = find_compressed_dtype(name);
    } else {
      curve.scheme = name_of_curve(name);
    }
  }

  void points(const Entry& e, Curve& curve) const {
    const toml::array* const list = e.value->as_array();
    if (list == nullptr || list->empty())
      file_.refuse(e.at, "points is a list of [bytes, seconds]");
    for (const toml::node& node : *list) {
      const toml::array* const pair = node.as_array();
      const toml::source_position& begin = node.source().begin;
      if (pair == nullptr || pair->size() != 2) file_.refuse(begin, "a point is [bytes, seconds]");
      const double bytes = file_.number_of(*pair->get(0), "bytes");
      const double seconds = file_.number_of(*pair->get(1), "seconds");
      if (!(bytes >= 1 && bytes <= 0x1p60)) file_.refuse(begin, "no message has {} bytes", bytes);
      if (!(seconds > 0 && seconds <= 1e6)) file_.refuse(begin, "no call takes {} s", seconds);
      const Curve::Point point{static_cast<size_t>(bytes), seconds};
      if (!curve.points.empty() && curve.points.back().bytes >= point.bytes)
        file_.refuse(begin, "points come by rising size");
      curve.points.push_back(point);
    }
  }

  void require_whole() const {
    const auto refuse = [&](const char* what) {
      file_.refuse({1, 1}, "the profile says nothing of {}", what);
    };
    if (!profile_.within && !profile_.between && profile_.measured.empty())
      refuse("links, [within] a node or [between] nodes, nor of what was [[measured]]");
    if (profile_.fused && !profile_.within) refuse("[within], the links of ranks that are fused");
    if ((profile_.within || profile_.between) && profile_.coding.encode == 0)
      refuse("[coding], the rate of codecs");
  }

  const TomlFile file_;
  Profile profile_;
};

template <class Owner, size_t n>
std::string print(const Field<Owner> (&numbers)[n], const Owner& owner) {
  std::string text;
  for (const Field<Owner>& number : numbers)
    text += fmt::format("{} = {}\n", number.key, owner.*number.member);
  return text;
}

std::string print_curve(const Curve& c) {
  std::string points;
  for (const Curve::Point& p : c.points)
    points += fmt::format("{}[{}, {}]", points.empty() ? "" : ", ", p.bytes, p.seconds);
  return fmt::format(
      "\n[[measured]]\ncollective = \"{}\"\ndtype = \"{}\"\nranks = {}\nnodes = {}\n"
      "scheme = {}\n{}points = [{}]\n",
      print_collectives(set_of(c.collective)), print_dtype(c.dtype), c.ranks, c.nodes,
      toml_quoted(c.scheme), c.fused ? "fused = true\n" : "", points);
}

}  // namespace

Profile parse_profile(std::string_view text, const std::string& path) {
  const codec::DefaultFloatEnvironment environment;  // alike on all ranks
  return ProfileParser(text, path).parse();
}

bool is_known_profile(std::string_view name) {
  return std::ranges::find(known_profiles(), name, &KnownProfile::name) != known_profiles().end();
}

Profile read_profile(const std::string& name) {
  std::vector<std::string_view> names;
  for (const KnownProfile& known : known_profiles()) {
    if (known.name == name) return parse_profile(known.text, name);
    names.push_back(known.name);
  }
  std::error_code ignored;
  if (name.find('/') == name.npos && !name.ends_with(".toml") &&
      !std::filesystem::exists(name, ignored))
    fail(
        ncclInvalidArgument,
        "there is no profile \"{}\": neither a file, nor one of those that `terse forecast --list` "
        "names{}",
        shortened(name), hint(name, names));
  return parse_profile(text_of_file(name, "a profile"), name);
}

std::string print_profile(const Profile& p) {
  std::string text = fmt::format("name = {}\nsource = {}\ngpu = {}\nnode_ranks = {}\n",
                                 toml_quoted(p.name), toml_quoted(p.source), p.gpu, p.node_ranks);
  if (!p.devices.empty()) {
    std::string devices;
    for (const std::string& device : p.devices)
      devices += (devices.empty() ? "" : ", ") + toml_quoted(device);
    text += fmt::format("devices = [{}]\n", devices);
  }
  if (p.nics != 1) text += fmt::format("nics = {}\n", p.nics);
  if (p.max_nodes != 0) text += fmt::format("max_nodes = {}\n", p.max_nodes);
  text += print(kProfile, p);
  if (p.within) text += "\n[within]\n" + print(kLink, *p.within);
  if (p.between) text += "\n[between]\n" + print(kLink, *p.between);
  if (p.pods) text += "\n[pods]\n" + print(kLink, *p.pods);
  if (p.fused)
    text +=
        "\n[fused]\n" + print(kFused, *p.fused) + (p.fused->estimate ? "estimate = true\n" : "");
  if (p.coding != Rates{}) text += "\n[coding]\n" + print(kRates, p.coding);
  for (const auto& [codec, rates] : p.codecs)
    text += fmt::format("\n[codec.{}]\n", codec) + print(kRates, rates);
  for (const Curve& c : p.measured) text += print_curve(c);
  return text;
}

}  // namespace terse
