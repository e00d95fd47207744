#include "engine/call/stream_join.h"

#include <algorithm>

namespace terse {
namespace {

// A call on a stream that is synchronous is done when it returns, and waits for others likewise.
void synchronize(Backend& b, const std::vector<Stream>& streams) {
  for (const Stream stream : streams)
    if (stream != nullptr) b.synchronize(stream);
}

void join_streams(Communicator& c, const std::vector<Stream>& streams) {
  Backend& b = c.backend;
  if (b.null_stream_is_synchronous() && std::ranges::find(streams, Stream{}) != streams.end())
    return synchronize(b, streams);
  const Stream first = streams.front();
  const Event event = c.memory().stream_sets().of(first).caller_event();
  for (const Stream stream : streams) {
    if (stream == first) continue;
    b.record(event, stream);
    b.wait(first, event);
  }
  b.record(event, first);
  for (const Stream stream : streams)
    if (stream != first) b.wait(stream, event);
}

}  // namespace

void StreamJoin::add(Communicator& communicator, Stream stream) {
  auto part = std::ranges::find(parts_, &communicator, &Part::communicator);
  if (part == parts_.end()) part = parts_.insert(part, {&communicator, {}});
  if (std::ranges::find(part->streams, stream) == part->streams.end())
    part->streams.push_back(stream);
}

void StreamJoin::require_one_recording() const {
  for (const auto& [communicator, streams] : parts_)
    for (const Stream stream : streams)
      if (communicator->recording(stream) != communicator->recording(streams.front()))
        communicator->fail(ncclInvalidUsage,
                           "the streams of a group's calls must all be recorded in one graph, or "
                           "none of them");
}

void StreamJoin::meet() const {
  for (const Part& part : parts_)
    if (part.streams.size() > 1)
      part.communicator->with_context([&] { join_streams(*part.communicator, part.streams); });
}

}  // namespace terse
