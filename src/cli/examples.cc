#include "cli/examples.h"

#include <fmt/format.h>

namespace terse::cli {
namespace {

constexpr Example kExamples[] = {
    {"run", "terse run -- torchrun --nnodes 2 --nproc-per-node 8 train.py",
     "a training, with 8 bits on the wire between nodes"},
    {"run", "mpirun -n 8 terse run --scheme safe -- ./program",
     "under mpirun, or srun; also within a node"},
    {"run", "terse run --scheme fast --report out -- ./program",
     "four bits for gradients, and reports"},
    {"run", "terse run --policy rules.toml --dry-run -- ./program",
     "what would be set, to look at"},
    {"report", "terse report out --html out.html", "what it saved, and its errors, of all ranks"},
    {"compare", "terse compare observed compressed", "two runs beside each other"},
    {"explain", "terse explain --bytes 64M --ranks 16 --nodes 2 --scheme int4:intra=int8",
     "what becomes of an AllReduce"},
    {"scheme", "terse scheme int4:round=stochastic,block=64", "is it right, and how many bits"},
    {"tune", "mpirun -n 8 terse tune -o profile.toml", "measure the ranks of a job, for auto"},
    {"forecast", "terse forecast --profile h100-8x-3200gbit --dtype bf16 --ranks 64",
     "predictions for a machine that is not here"},
    {"completion", "eval \"$(terse completion bash)\"", "in ~/.bashrc"},
};

}  // namespace

std::span<const Example> examples() { return kExamples; }

std::string examples_of(std::string_view command) {
  std::string text;
  for (const Example& example : kExamples)
    if (command.empty() || example.command == command)
      text += fmt::format("  {}\n      {}\n", example.line, example.meaning);
  return text.empty() ? "" : "Examples:\n" + text;
}

}  // namespace terse::cli
