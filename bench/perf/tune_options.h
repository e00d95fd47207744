// The command line of terse-tune, and what it may measure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codec/codec.h"
#include "collective.h"
#include "options.h"
#include "plan/collective.h"

namespace terse::perf {

constexpr char kTuneProgram[] = "terse-tune";

struct TunedKind {
  const char* name;  // as profiles have it
  const Collective& collective;
  plan::Collective in_plans;
};

struct TunedType {
  const char* name;  // as profiles have it
  const char* perf;
  codec::Dtype dtype;
};

struct TuneOptions {
  Options perf;
  std::string output, name, round = "nearest";
  double seconds = 60;
  std::vector<std::string> schemes{"bf16", "int8", "int6", "int4", "linear8"};
  std::vector<std::string> collectives{"allreduce", "allgather", "reducescatter"};
  std::vector<std::string> types{"float32", "bfloat16"};
};

// Of the options' names.
const TunedKind& tuned_kind(const std::string& name);
const TunedType& tuned_type(const std::string& name);

// The exit code where there is nothing to do; the text is printed.
std::optional<int> parse_tune(int argc, char** argv, TuneOptions* o);

}  // namespace terse::perf
