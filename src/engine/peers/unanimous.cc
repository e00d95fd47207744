#include "engine/peers/unanimous.h"

#include <algorithm>

#include "engine/peers/host_all_gather.h"

namespace terse {
namespace {

// First rank with other words than this one; -1: none.
int first_that_differs(const Communicator& c, const HostAllGather& exchange) {
  const auto mine = exchange.received(c.rank);
  for (int rank = 0; rank < c.ranks; ++rank)
    if (!std::ranges::equal(exchange.received(rank), mine)) return rank;
  return -1;
}

// Poisons the communicator if this rank cannot begin, as the others may wait already.
template <class Begin>
auto begin(Communicator& c, const Begin& body) {
  try {
    return body();
  } catch (const std::exception& cause) {
    c.health.poison(cause);
    throw;
  }
}

}  // namespace

void require_unanimous(Communicator& c, uint64_t wish, const std::optional<Error>& trouble,
                       const char* differs) {
  c.health.require_usable();
  // Takes no memory if the communicator has a control buffer.
  HostAllGather exchange = begin(c, [&] {
    return c.control_buffer != nullptr ? HostAllGather(c) : HostAllGather(c, sizeof wish);
  });
  HostAllGather* const alone = &exchange;
  if (trouble) wish = 0;
  begin(c, [&] { exchange.post({reinterpret_cast<const char*>(&wish), sizeof wish}); });
  // Ranks that have agreed before all use terse, and one may be late, writing a checkpoint.
  run_all_gathers({&alone, 1}, c.agreed.number() ? Timeout::kLateRank : Timeout::kInit);
  const int other = first_that_differs(c, exchange);
  if (other < 0 && !trouble) return;
  drain_all_gathers({&alone, 1});
  if (trouble) throw *trouble;
  fail(ncclInvalidUsage, "rank {} {}", other, differs);
}

}  // namespace terse
