#include "engine/exclusion.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "engine/directory.h"
#include "engine/exchange.h"
#include "engine/group.h"
#include "policy/settings.h"

namespace terse {
namespace {

using plan::Collective;

// Elements of the piece that each rank has of the whole message; 0: exclusions are not for such
// calls.
size_t piece_of(const Request& r) {
  const bool has_exclusions = r.collective == Collective::kAllReduce ||
                              r.collective == Collective::kAllGather ||
                              r.collective == Collective::kReduceScatter;
  return has_exclusions ? r.count : 0;
}

const std::vector<terseRange_t>* exclusions_of(const Job& job) {
  const Communicator& c = *job.communicator;
  if (c.exclusions.empty() || piece_of(job.request) == 0) return nullptr;
  const bool pieces = job.request.collective != Collective::kAllReduce;
  const auto known = c.exclusions.find(pieces ? c.ranks * job.request.count : job.request.count);
  return known == c.exclusions.end() ? nullptr : &known->second;
}

const char* at(const void* buffer, size_t bytes) {
  return static_cast<const char*>(buffer) + bytes;
}

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

void find_segments(const Job& job, std::pmr::vector<Segment>& segments) {
  const std::vector<terseRange_t>* ranges = exclusions_of(job);
  if (ranges == nullptr) return;
  const Request& r = job.request;
  const size_t size = datatype_size(r.datatype);
  const size_t piece = piece_of(r);
  size_t aside = 0;
  for (const terseRange_t& range : *ranges)
    for (size_t first = range.first, end = first + range.count; first < end;) {
      const size_t owner = first / piece;
      const size_t count = std::min(end, (owner + 1) * piece) - first;
      segments.push_back({static_cast<int>(owner), first, count, aside, count * size});
      aside += count * size;
      first += count;
    }
}

size_t aside_bytes(const Job& job) {
  const std::vector<terseRange_t>* ranges = exclusions_of(job);
  if (ranges == nullptr) return 0;
  size_t elements = 0;
  for (const terseRange_t& range : *ranges) elements += range.count;
  return elements * datatype_size(job.request.datatype);
}

Request native_call(const Request& request, const Segment& segment, void* aside) {
  const size_t size = datatype_size(request.datatype);
  Request native = request;
  native.count = segment.count;
  native.recv = aside;
  native.root = segment.owner;
  size_t first = segment.first;
  if (request.collective == Collective::kAllGather) {
    native.collective = Collective::kBroadcast;
    first -= segment.owner * request.count;
  } else if (request.collective == Collective::kReduceScatter) {
    native.collective = Collective::kReduce;
  }
  native.send = at(request.send, first * size);
  return native;
}

void* result_place(const Job& job, const Segment& segment) {
  const Request& r = job.request;
  size_t first = segment.first;
  if (r.collective == Collective::kReduceScatter) {
    if (segment.owner != job.communicator->rank) return nullptr;
    first -= segment.owner * r.count;
  }
  return static_cast<char*>(r.recv) + first * datatype_size(r.datatype);
}

plan::Traffic native_traffic(const Job& job, std::span<const Segment> segments) {
  const Communicator& c = *job.communicator;
  plan::Traffic sum;
  for (const Segment& s : segments)
    sum += plan::raw_traffic(native_call(job.request, s, nullptr).collective, s.bytes,
                             {c.ranks, c.rank, s.owner}, c.topology);
  return sum;
}

void exclude(ncclComm_t comm, size_t elements, const terseRange_t* first, size_t count) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "exclusions cannot be changed within a group");
  const std::span<const terseRange_t> ranges(first, first == nullptr ? 0 : count);
  const CommunicatorPointer held = communicator(comm);
  Communicator& c = *held;
  try {
    std::optional<Error> trouble = trouble_with(elements, ranges);
    if (ranges.size() != count) trouble = Error(ncclInvalidArgument, "the ranges are null");
    agree_on(c, fingerprint(elements, ranges), trouble);
  } catch (Error& e) {
    c.sign(e);
    throw;
  }
  if (ranges.empty())
    c.exclusions.erase(elements);
  else
    c.exclusions[elements].assign(ranges.begin(), ranges.end());
}

}  // namespace terse
