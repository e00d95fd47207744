#include "engine/peers/unanimous.h"

#include "engine/peers/vote.h"

namespace terse {

void require_unanimous(Communicator& c, uint64_t wish, const std::optional<Error>& trouble,
                       const char* differs) {
  c.health().require_usable();
  if (trouble) wish = 0;
  std::optional<Vote<uint64_t>> vote;
  try {
    vote.emplace(c, wish);
  } catch (const std::exception& cause) {
    c.health().poison(cause);  // the others may wait already
    throw;
  }
  HostAllGather* const alone = &vote->all_gather();
  // Ranks that have agreed before all use terse, and one may be late, writing a checkpoint.
  run_all_gathers({&alone, 1}, c.agreed().number() ? Timeout::kLateRank : Timeout::kInit);
  vote->read();
  try {
    vote->require_same_builds();
    if (trouble) throw *trouble;
    if (const auto other = vote->first([&](uint64_t theirs) { return theirs != wish; }))
      fail(ncclInvalidUsage, "rank {} {}", *other, differs);
  } catch (const Error&) {
    drain_all_gathers({&alone, 1});
    throw;
  }
}

}  // namespace terse
