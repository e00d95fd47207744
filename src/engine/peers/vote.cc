#include "engine/peers/vote.h"

namespace terse {
namespace {

// Prints a TERSE_VERSION_CODE: "0.1.0".
std::string print_version(uint64_t code) {
  return fmt::format("{}.{}.{}", code / 10'000, code / 100 % 100, code % 100);
}

}  // namespace

void require_same_build(const Communicator& c, int rank, const BuildMark& theirs,
                        const BuildMark& mine) {
  if (theirs.version != mine.version)
    c.fail(ncclInvalidUsage, "rank {} has version {} of terse, this rank {}", rank,
           print_version(theirs.version), print_version(mine.version));
  if (theirs.layout != mine.layout)
    c.fail(ncclInvalidUsage,
           "rank {} has another build of terse {} than this rank: the ranks need the same one",
           rank, print_version(mine.version));
}

}  // namespace terse
