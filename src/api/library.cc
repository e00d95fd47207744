// The library's version and its last error (terse.h).
#include "api/require.h"

using namespace terse;

extern "C" {

terseResult_t terseGetVersion(int* version) {
  return guard("terseGetVersion", [&] { *require(version, "version") = TERSE_VERSION_CODE; });
}

const char* terseGetLastError(void) { return last_error(); }

}  // extern "C"
