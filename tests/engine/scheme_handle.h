// A scheme of libterse's, as the tests hold it.
#pragma once

#include <stdexcept>
#include <string>

#include "policy/scheme.h"
#include "terse/terse.h"

namespace terse::test {

class SchemeHandle {
 public:
  // Throws std::runtime_error with libterse's own message.
  explicit SchemeHandle(const std::string& text) {
    if (terseSchemeParse(text.c_str(), &scheme_) != ncclSuccess)
      throw std::runtime_error(text + ": " + terseGetLastError());
  }
  explicit SchemeHandle(const Scheme& scheme) : SchemeHandle(print_scheme(scheme)) {}
  ~SchemeHandle() { terseSchemeDestroy(scheme_); }
  SchemeHandle(const SchemeHandle&) = delete;
  SchemeHandle& operator=(const SchemeHandle&) = delete;
  const terseScheme_t* get() const { return scheme_; }

 private:
  terseScheme_t* scheme_ = nullptr;
};

}  // namespace terse::test
