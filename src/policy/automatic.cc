#include "policy/automatic.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/float_mode.h"
#include "policy/scheme_options.h"

namespace terse {
namespace {

constexpr int kFewestBits = 2, kWidestBits = 16;

struct Allowance {
  std::optional<uint64_t> bits, seed;
  std::optional<double> error;
  std::optional<codec::Rounding> rounding;
  bool own_exact = false;
};

std::optional<double> parse_share(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  if (!(value > 0 && value <= 1)) return {};
  return value;
}

void parse_bits(std::string_view text, std::string_view value, Allowance& allowed) {
  allowed.bits = parse_number(value);
  if (!allowed.bits || *allowed.bits < kFewestBits || *allowed.bits > kWidestBits)
    refuse_scheme(text, "bits is \"{}\", but must be {} to {}", value, kFewestBits, kWidestBits);
}

void parse_error(std::string_view text, std::string_view value, Allowance& allowed) {
  allowed.error = parse_share(value);
  if (!allowed.error)
    refuse_scheme(text, "error is \"{}\", but must be above 0 and no more than 1, such as 0.02",
                  value);
}

void parse_rounding(std::string_view text, std::string_view value, Allowance& allowed) {
  if (value != "nearest" && value != "stochastic")
    refuse_scheme(text, "round is \"{}\", but must be nearest or stochastic", value);
  allowed.rounding = value == "nearest" ? codec::Rounding::kNearest : codec::Rounding::kStochastic;
}

void parse_seed(std::string_view text, std::string_view value, Allowance& allowed) {
  allowed.seed = parse_number(value);
  if (!allowed.seed) refuse_scheme(text, "seed is \"{}\", but must be a number below 2^64", value);
}

void parse_own(std::string_view text, std::string_view value, Allowance& allowed) {
  if (value != "exact" && value != "quantized")
    refuse_scheme(text, "own is \"{}\", but must be exact or quantized", value);
  allowed.own_exact = value == "exact";
}

constexpr OptionKey<Allowance> kAutoKeys[] = {{"bits", parse_bits},
                                              {"error", parse_error},
                                              {"round", parse_rounding},
                                              {"own", parse_own},
                                              {"seed", parse_seed}};

std::string auto_keys() { return "auto has bits, error, round, own and seed"; }

// Normal numbers: Box and Muller's of a counter.
std::vector<float> gaussian(size_t n) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i) {
    const auto uniform = [&](uint64_t k) {
      return (static_cast<double>(codec::splitmix64(2 * i + k) >> 11) + 0.5) * 0x1p-53;
    };
    const double radius = std::sqrt(-2 * std::log(uniform(0)));
    x[i] = static_cast<float>(radius * std::cos(2 * M_PI * uniform(1)));
  }
  return x;
}

double error_of_encoding(const codec::Spec& spec) {
  // Never destroyed: calls may come while the program exits.
  static const std::vector<float>& x = *new std::vector<float>(gaussian(size_t{1} << 14));
  std::vector<uint8_t> body(codec::body_size(spec, x.size()));
  std::vector<float> got(x.size());
  const auto convert = [&](codec::Source from, codec::Target to) {
    codec::combine({.sources = {&from, 1}, .target = to, .total = x.size(), .count = x.size()});
  };
  convert({x.data(), codec::Dtype::kFloat32}, {body.data(), spec});
  convert({body.data(), spec}, {got.data(), codec::Dtype::kFloat32});
  double error = 0, norm = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    error += (double{got[i]} - x[i]) * (double{got[i]} - x[i]);
    norm += double{x[i]} * x[i];
  }
  return std::sqrt(error / norm);
}

// Mean square of the largest magnitude of n: the integral of 2 m P(it is above m).
double mean_square_of_absmax(double n) {
  constexpr double kStep = 1.0 / 256;
  double sum = 0;
  for (double m = kStep / 2; m < 12; m += kStep)
    sum += 2 * m * (1 - std::pow(std::erf(m / std::sqrt(2.0)), n)) * kStep;
  return sum;
}

// The rounded value is uniform within a step. Ranks that share their draws err as to nearest
// (plan/shared_draw.h).
double error_on_shared_grid(const codec::Spec& spec) {
  const int ranks = std::max<int>(1, spec.ranks);
  const double step = 1.0 / codec::levels(spec.bits, ranks);
  const double per_step = spec.rounding == codec::Rounding::kNearest || ranks > 1 ? 12 : 6;
  const double elements = 1.0 * spec.block * ranks;
  return step * std::sqrt(mean_square_of_absmax(elements) / per_step);
}

// Excludes codecs of which the error of one encoding does not tell all: merged codes err with each
// merge, learned levels are fitted by a job, and fp16 overflows; and the fit for the least squared
// error, as profiles have the times of the fit to absmax.
bool may_be_chosen(const codec::Descriptor& d) {
  return d.sharing != codec::Sharing::kMerged && !d.codebook && d.name != "fp16" &&
         d.fit == codec::Fit::kAbsmax;
}

const char* name_of(codec::Rounding rounding) {
  return rounding == codec::Rounding::kNearest ? "nearest" : "stochastic";
}

double most_error(const Auto& a) {
  if (a.error != 0) return a.error;
  if (a.bits > 8) return gaussian_error(parse_scheme("bf16:round=stochastic").spec);
  return gaussian_error(
      parse_scheme(fmt::format("int{}:round={}", a.bits, name_of(a.rounding))).spec);
}

}  // namespace

Scheme parse_auto(std::string_view text) {
  const codec::DefaultFloatEnvironment environment;  // alike on all ranks
  Allowance allowed;
  read_options(text, kAutoKeys, auto_keys, allowed);
  Scheme scheme;
  const uint64_t usual = allowed.error ? kFewestBits : 8;
  scheme.automatic = {static_cast<uint8_t>(allowed.bits.value_or(usual)), allowed.error.value_or(0),
                      allowed.rounding.value_or(codec::Rounding::kNearest), allowed.own_exact};
  scheme.seed = allowed.seed;
  return scheme;
}

std::string print_auto(const Scheme& s) {
  std::string text = fmt::format("auto:bits={}", s.automatic->bits);
  if (s.automatic->error != 0) text += fmt::format(",error={}", s.automatic->error);
  text += fmt::format(",round={}", name_of(s.automatic->rounding));
  if (s.automatic->own_exact) text += ",own=exact";
  if (s.seed) text += fmt::format(",seed={}", *s.seed);
  return text;
}

std::string short_name(const Scheme& scheme) {
  const std::string text = print_scheme(scheme);
  const std::string codec = text.substr(0, text.find(':'));
  if (scheme.spec.rounding == codec::descriptor(scheme.spec.codec).default_rounding) return codec;
  return fmt::format("{}:round={}", codec, name_of(scheme.spec.rounding));
}

std::vector<Scheme> candidates(const Scheme& scheme, int ranks) {
  const Auto& a = *scheme.automatic;
  const double most = most_error(a);
  std::vector<Scheme> found;
  const auto consider = [&](const codec::Spec& spec) {
    Scheme usual;
    usual.spec = spec;
    std::optional<Scheme> fitted = on_ranks(usual, ranks);
    if (!fitted || fitted->spec.bits != spec.bits) return;
    if (gaussian_error(fitted->spec) > most) return;
    fitted->seed = scheme.seed;
    fitted->delta.own_exact = a.own_exact && sharing_of(fitted->spec) == plan::Sharing::kNone;
    found.push_back(*fitted);
  };
  for (const codec::Descriptor& d : codec::kDescriptors)
    if (may_be_chosen(d))
      for (int bits = std::max<int>(d.min_bits, a.bits); bits <= d.max_bits; ++bits)
        consider(codec::default_spec(d, bits, a.rounding));
  std::ranges::stable_sort(found, std::greater(), [](const Scheme& s) { return s.spec.bits; });
  return found;
}

// Cached, as it takes a while and auto asks for each new size of a call.
double gaussian_error(const codec::Spec& spec) {
  static std::mutex mutex;
  static auto& known = *new std::map<codec::Spec, double>;
  const std::lock_guard lock(mutex);
  const auto found = known.find(spec);
  if (found != known.end()) return found->second;
  const double error = sharing_of(spec) == plan::Sharing::kSummed ? error_on_shared_grid(spec)
                                                                  : error_of_encoding(spec);
  return known.emplace(spec, error).first->second;
}

}  // namespace terse
