#pragma once

namespace terse::cli {

// Source, compiler and GPUs of this build (cmake/build_facts.cmake).
struct BuildFacts {
  const char *commit, *compiler, *cuda_module;
};

extern const BuildFacts kBuildFacts;

}  // namespace terse::cli
