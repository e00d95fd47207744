// What is said of a text that cannot be right.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "base/error.h"

namespace terse {

template <class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& e) {
    EXPECT_EQ(e.result, ncclInvalidArgument);
    return e.message;
  }
  return "accepted";
}

}  // namespace terse
