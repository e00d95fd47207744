// What programs say to the preload library itself (terse.h).
#include "engine/call/exclusion.h"
#include "interpose/last_error.h"
#include "interpose/next.h"
#include "policy/settings.h"

using namespace terse;
using namespace terse::interpose;

#pragma GCC visibility push(default)
extern "C" terseResult_t tersePreloadExclude(ncclComm_t comm, size_t elements,
                                             const terseRange_t* ranges, size_t count) {
  return ours("tersePreloadExclude", [&] {
    require_valid(settings());
    // Where nothing is compressed all is exact.
    if (settings().policy.compresses()) exclude(comm, elements, ranges, count, settings());
    return ncclSuccess;
  });
}
#pragma GCC visibility pop
