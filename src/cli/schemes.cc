// `terse schemes`: every codec with its bits, its blocks, what it does to Gaussian data, and where
// it comes from.
#include <cmath>
#include <vector>

#include "cli/commands.h"
#include "cli/text.h"
#include "codec/codec.h"
#include "policy/scheme.h"

namespace terse::cli {
namespace {

using codec::Descriptor;

// Numbers of a bell curve: Box and Muller's of a counter.
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

// The L2 norm of the error over that of the data, of one encoding.
double error_of(const codec::Spec& spec, const std::vector<float>& x) {
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

std::string blocks_of(const Descriptor& d) {
  if (d.params == 0) return "none";
  if (codec::has_one_block(d)) return fmt::format("{}", d.min_block);
  return fmt::format("{}..{}", d.min_block, d.max_block);
}

void print_schemes() {
  const std::vector<float> x = gaussian(size_t{1} << 18);
  fmt::print("{:<12}{:>10}  {:<10}{:>10}{:>12}   {}\n", "name", "bits", "block", "error",
             "stochastic", "source");
  for (const Descriptor& d : codec::kDescriptors) {
    for (int bits = d.min_bits; bits <= d.max_bits; ++bits) {
      codec::Spec spec{d.id, codec::Rounding::kNearest, static_cast<uint8_t>(bits),
                       static_cast<uint16_t>(d.usual_block), d.usual_scale};
      const double stored = 8.0 * static_cast<double>(codec::body_size(spec, x.size())) /
                            static_cast<double>(x.size());
      const double nearest = error_of(spec, x);
      spec.rounding = codec::Rounding::kStochastic;
      const std::string stochastic =
          codec::valid(spec) ? fmt::format("{:.3g} %", 100 * error_of(spec, x)) : "";
      const std::string name =
          codec::has_one_width(d) ? std::string(d.name) : fmt::format("{}{}", d.name, bits);
      fmt::print("{:<12}{:>10.4g}  {:<10}{:>8.3g} %{:>12}   {}\n", name, stored, blocks_of(d),
                 100 * nearest, stochastic, d.source);
    }
  }
  fmt::print(
      "\nBits an element with the usual block and fp32 elements; error: of one encoding of "
      "Gaussian "
      "data,\nL2 norm over that of the data, rounded to nearest and stochastically. `terse scheme` "
      "checks one\nwith its options, `terse presets` lists choices by collective.\n");
}

}  // namespace

void add_schemes(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schemes", "List the codecs that schemes name");
  command->callback(print_schemes);
}

}  // namespace terse::cli
