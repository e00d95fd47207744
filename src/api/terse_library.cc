// The library's version, its last error and its phrases (terse.h).
#include "api/require.h"
#include "policy/reasons.h"

using namespace terse;

extern "C" {

terseResult_t terseGetVersion(int* version) {
  return answer("terseGetVersion", [&] { *require(version, "version") = TERSE_VERSION_CODE; });
}

const char* terseBypassReasonString(int reason) { return bypass_reason(reason); }

const char* terseGetLastError(void) { return last_error(); }

}  // extern "C"
