// A fuzz target's assertion: says what was expected, and stops there.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <string>

inline void expect(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "expected: %s\n", what.c_str());
  std::abort();
}
