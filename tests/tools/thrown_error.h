// What a call of the engine throws.
#pragma once

#include <string>

#include "base/error.h"

namespace terse::test {

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.message;
  }
  return "none";
}

}  // namespace terse::test
