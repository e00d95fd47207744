// Functions of a communicator apart from its calls (terse.h).
#include "api/require.h"
#include "engine/call/comm_levels.h"
#include "engine/call/comm_statistics.h"
#include "engine/call/exclusion.h"
#include "engine/comm/directory.h"
#include "policy/settings.h"

using namespace terse;

extern "C" {

terseResult_t terseCommRelease(ncclComm_t comm) {
  return answer("terseCommRelease", [&] {
    require(comm, "the communicator");
    release_communicator(comm, false);
    give_memory_back();
  });
}

terseResult_t terseCommAbort(ncclComm_t comm) {
  return answer("terseCommAbort", [&] {
    require(comm, "the communicator");
    abort_communicator(comm);
  });
}

terseResult_t terseCommExclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges,
                               size_t count) {
  return answer("terseCommExclude", [&] { exclude(comm, elements, ranges, count, settings()); });
}

terseResult_t terseCommSetLevels(ncclComm_t comm, const char* levels) {
  return answer("terseCommSetLevels", [&] { give_levels(comm, levels, settings()); });
}

terseResult_t terseCommGetLevels(ncclComm_t comm, char* text, size_t capacity, size_t* bytes) {
  return answer("terseCommGetLevels", [&] {
    require(bytes, "bytes");
    require_exists(comm, settings());
    *bytes = get_levels(comm, text, capacity);
  });
}

terseResult_t terseCommGetStats(ncclComm_t comm, terseStats_t* stats) {
  return answer("terseCommGetStats", [&] {
    require_exists(comm, settings());
    get_statistics(comm, stats);
  });
}

}  // extern "C"
