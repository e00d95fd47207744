// Schemes as text (terse.h).
#include <cstring>

#include "api/require.h"

using namespace terse;

extern "C" {

terseResult_t terseSchemeParse(const char* text, terseScheme_t** scheme) {
  return answer("terseSchemeParse", [&] {
    *require(scheme, "scheme") = nullptr;
    *scheme = new terseScheme{parse_scheme(require(text, "text"))};
  });
}

void terseSchemeDestroy(terseScheme_t* scheme) { delete scheme; }

terseResult_t terseSchemePrint(const terseScheme_t* scheme, char* text, size_t capacity) {
  return answer("terseSchemePrint", [&] {
    const std::string printed = print_scheme(require(scheme));
    require(text, "text");
    if (printed.size() >= capacity)
      fail(ncclInvalidArgument, "{} bytes are needed, {} are there", printed.size() + 1, capacity);
    std::memcpy(text, printed.c_str(), printed.size() + 1);
  });
}

}  // extern "C"
