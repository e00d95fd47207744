// Helpers of the C interface (terse.h), each of whose functions checks its arguments, does its
// work, and turns exceptions into results.
#pragma once

#include <nccl.h>  // before terse.h, whose types then are NCCL's

#include "base/error.h"
#include "policy/scheme.h"
#include "policy/settings.h"
#include "terse/terse.h"

struct terseScheme {
  terse::Scheme value;
};

namespace terse {

// Runs guard(), with errors printed as TERSE_LOG has it, also those of the first call.
template <class Body>
terseResult_t answer(const char* call, const Body& body) noexcept {
  settings();
  return guard(call, body);
}

// Throw Error(ncclInvalidArgument) for what is null.
inline const Scheme& require(const terseScheme_t* scheme) {
  if (scheme == nullptr) fail(ncclInvalidArgument, "the scheme is null");
  return scheme->value;
}

template <class T>
T* require(T* pointer, const char* name) {
  if (pointer == nullptr) fail(ncclInvalidArgument, "{} is null", name);
  return pointer;
}

}  // namespace terse
