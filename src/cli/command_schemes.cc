// `terse schemes`: every codec with its bits, blocks, error on Gaussian data, and source.
#include "cli/commands.h"
#include "cli/texts.h"
#include "cli/wrap.h"
#include "codec/codec.h"
#include "policy/automatic.h"

namespace terse::cli {
namespace {

using codec::Descriptor;

constexpr size_t kElements = size_t{1} << 18;  // for the count of bits

std::string blocks_of(const Descriptor& d) {
  if (d.params == 0) return "none";
  if (codec::has_one_block(d)) return fmt::format("{}", d.min_block);
  return fmt::format("{}..{}", d.min_block, d.max_block);
}

std::string table() {
  std::string text = fmt::format("{:<14}{:>8}  {:<10}{:>10}{:>12}   {}\n", "name", "bits", "block",
                                 "error", "stochastic", "source");
  for (const Descriptor& d : codec::kDescriptors) {
    for (int bits = d.min_bits; bits <= d.max_bits; ++bits) {
      codec::Spec spec = codec::default_spec(d, bits, codec::Rounding::kNearest);
      const double stored =
          8.0 * static_cast<double>(codec::body_size(spec, kElements)) / kElements;
      const double nearest = gaussian_error(spec);
      spec.rounding = codec::Rounding::kStochastic;
      const std::string stochastic =
          codec::valid(spec) ? fmt::format("{:.3g} %", 100 * gaussian_error(spec)) : "";
      std::string name(d.name);
      if (!codec::has_one_width(d)) name += fmt::format("{}", bits);
      if (d.fit == codec::Fit::kMse) name += ":fit=mse";
      text += fmt::format("{:<14}{:>8.4g}  {:<10}{:>8.3g} %{:>12}   {}\n", name, stored,
                          blocks_of(d), 100 * nearest, stochastic, d.source);
    }
  }
  return text +
         "\nBits an element with the usual block and fp32 elements; error: of one encoding of "
         "Gaussian data, L2 norm over that of the data, rounded to nearest and stochastically; of "
         "linear and exp8 one rank's, not that of a sum. `terse scheme` checks one with its "
         "options, `terse presets` lists choices by collective.\n";
}

}  // namespace

void add_schemes(CLI::App& app) {
  CLI::App* command = app.add_subcommand("schemes", "List the codecs that schemes name");
  command->callback([] { print_wrapped(table()); });
}

}  // namespace terse::cli
