#include "engine/call/exclusion.h"

#include <span>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/unanimous.h"

namespace terse {
namespace {

void require_healthy(size_t elements, std::span<const terseRange_t> ranges) {
  if (elements == 0) fail(ncclInvalidArgument, "messages of no elements exclude nothing");
  size_t end = 0;
  for (size_t i = 0; i < ranges.size(); ++i) {
    const terseRange_t& range = ranges[i];
    if (range.count == 0) fail(ncclInvalidArgument, "range {} has no elements", i);
    if (i > 0 && range.first < end)
      fail(ncclInvalidArgument, "range {} begins at element {}, within or before range {}", i,
           range.first, i - 1);
    if (range.first > elements || range.count > elements - range.first)
      fail(ncclInvalidArgument, "range {}, elements {} to {}, is beyond the message's {}", i,
           range.first, range.first + (range.count - 1), counted(elements, "element"));
    end = range.first + range.count;
  }
}

uint64_t fingerprint_of(size_t elements, std::span<const terseRange_t> ranges) {
  std::string text = fmt::format("{}:", elements);
  for (const terseRange_t& range : ranges) text += fmt::format(" {}+{}", range.first, range.count);
  return fingerprint(text);
}

}  // namespace

void exclude(ncclComm_t comm, size_t elements, const terseRange_t* first, size_t count,
             const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "exclusions cannot be changed within a group");
  const std::span<const terseRange_t> ranges(first, first == nullptr ? 0 : count);
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  c.with_context([&] {
    const auto trouble = trouble_with([&] {
      if (ranges.size() != count) fail(ncclInvalidArgument, "the ranges are null");
      require_healthy(elements, ranges);
    });
    require_unanimous(c, fingerprint_of(elements, ranges), trouble,
                      "excludes other ranges than this rank");
  });
  after_agreeing(c, [&] {
    std::vector<plan::Range> exact;
    for (const terseRange_t& range : ranges) exact.push_back({range.first, range.count});
    c.routing().plans().exclude(elements, std::move(exact));
    c.memory().shadows().forget(elements);  // shadows are of other ranges
  });
}

}  // namespace terse
