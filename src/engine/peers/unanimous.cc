#include "engine/peers/unanimous.h"

#include <algorithm>
#include <optional>

#include "engine/peers/exchange.h"

namespace terse {
namespace {

// The first rank that says something else than this one; -1: there is none.
int first_that_differs(const Communicator& c, const Exchange& exchange) {
  const auto mine = exchange.words(c.rank);
  for (int rank = 0; rank < c.ranks; ++rank)
    if (!std::ranges::equal(exchange.words(rank), mine)) return rank;
  return -1;
}

// Tells all ranks, by the communicator's mailbox where it has one: that takes no memory. The others
// may wait already, so that a rank which cannot begin is not as they are any more.
void tell_all(Communicator& c, uint64_t wish, std::optional<Exchange>& exchange) {
  try {
    if (c.mailbox != nullptr)
      exchange.emplace(c);
    else
      exchange.emplace(c, sizeof wish);
    exchange->say({reinterpret_cast<const char*>(&wish), sizeof wish});
  } catch (const std::exception& cause) {
    c.invalidate(cause);
    throw;
  }
  // Ranks that have agreed before all use terse, and one may be late: it writes a checkpoint.
  Exchange* const alone = &*exchange;
  meet({&alone, 1}, c.agreed.number() ? Patience::kLong : Patience::kUsual);
}

}  // namespace

void require_unanimous(Communicator& c, uint64_t wish, const std::optional<Error>& trouble,
                       const char* differs) {
  c.require_usable();
  std::optional<Exchange> exchange;
  tell_all(c, trouble ? 0 : wish, exchange);
  const int other = first_that_differs(c, *exchange);
  if (other < 0 && !trouble) return;
  Exchange* const alone = &*exchange;
  part({&alone, 1});
  if (trouble) throw *trouble;
  fail(ncclInvalidUsage, "rank {} {}", other, differs);
}

}  // namespace terse
