#include "engine/call/exclusion.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "engine/call/group.h"
#include "engine/comm/directory.h"
#include "engine/peers/exchange.h"

namespace terse {
namespace {

void require_sound(size_t elements, std::span<const terseRange_t> ranges) {
  if (elements == 0) fail(ncclInvalidArgument, "messages of no elements exclude nothing");
  size_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const terseRange_t& range = ranges[i];
    if (range.count == 0) fail(ncclInvalidArgument, "range {} has no elements", i);
    if (i > 0 && range.first < end)
      fail(ncclInvalidArgument, "range {} begins at element {}, within or before range {}", i,
           range.first, i - 1);
    if (range.first > elements || range.count > elements - range.first)
      fail(ncclInvalidArgument, "range {}, elements {} to {}, is beyond the message's {} elements",
           i, range.first, range.first + (range.count - 1), elements);
    end = range.first + range.count;
  }
}

uint64_t fingerprint(size_t elements, std::span<const terseRange_t> ranges) {
  std::string text = fmt::format("{}:", elements);
  for (const terseRange_t& range : ranges) text += fmt::format(" {}+{}", range.first, range.count);
  return terse::fingerprint(text);
}

// The first rank that says something else than this one; -1: there is none.
int first_that_differs(const Communicator& c, const Exchange& exchange) {
  const auto mine = exchange.words(c.rank);
  for (int rank = 0; rank < c.ranks; ++rank)
    if (!std::ranges::equal(exchange.words(rank), mine)) return rank;
  return -1;
}

// The ranks compare what they want, and all hear of it where one of them has `trouble`.
void agree_on(Communicator& c, uint64_t wish, const std::optional<Error>& trouble) {
  Exchange exchange(c, sizeof wish);
  Exchange* const alone = &exchange;
  if (trouble) wish = 0;
  exchange.say({reinterpret_cast<const char*>(&wish), sizeof wish});
  meet({&alone, 1}, Patience::kUsual);
  const int other = first_that_differs(c, exchange);
  if (other < 0 && !trouble) return;
  part(exchange);
  if (trouble) throw *trouble;
  fail(ncclInvalidUsage, "rank {} excludes other ranges than this rank", other);
}

std::optional<Error> trouble_with(size_t elements, std::span<const terseRange_t> ranges) {
  try {
    require_sound(elements, ranges);
    return {};
  } catch (const Error& e) {
    return e;
  }
}

}  // namespace

void exclude(ncclComm_t comm, size_t elements, const terseRange_t* first, size_t count,
             const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "exclusions cannot be changed within a group");
  const std::span<const terseRange_t> ranges(first, first == nullptr ? 0 : count);
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  c.signing([&] {
    std::optional<Error> trouble = trouble_with(elements, ranges);
    if (ranges.size() != count) trouble = Error(ncclInvalidArgument, "the ranges are null");
    agree_on(c, fingerprint(elements, ranges), trouble);
  });
  std::vector<plan::Range> exact;
  for (const terseRange_t& range : ranges) exact.push_back({range.first, range.count});
  c.plans.exclude(elements, std::move(exact));
}

}  // namespace terse
