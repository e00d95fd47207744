#pragma once

namespace terse::cli {

// Of what terse was built, how, and for which GPUs (cmake/build_facts.cmake).
struct BuildFacts {
  const char *commit, *compiler, *cuda_module;
};

extern const BuildFacts kBuildFacts;

}  // namespace terse::cli
