// What a stream hands on by an event: that it got there, and what had failed by then.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "call_completion.h"
#include "stream.h"

namespace hostnccl {
namespace {

// The text of what synchronize throws; empty: nothing.
std::string text_of(Stream& stream) {
  try {
    stream.synchronize();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ncclRemoteError);
    return failure.text();
  }
  return {};
}

void attach(Stream& stream, Outcome outcome) {
  auto done = std::make_shared<Completion>();
  stream.attach([done, outcome] { done->finish(outcome); }, done);
}

const Failure kLost(ncclRemoteError, "a peer was lost");

TEST(StreamFailure, FollowsTheEvent) {
  Stream first, second, third;
  Event early, late;
  early.record(&first);
  attach(first, kLost);
  late.record(&first);
  second.wait_for(early.latest());
  EXPECT_EQ(text_of(second), "");
  third.wait_for(late.latest());
  EXPECT_EQ(text_of(third), "a peer was lost");
  EXPECT_EQ(text_of(third), "");  // once
  EXPECT_EQ(text_of(first), "a peer was lost");

  late.record(&first);  // it has been told
  second.wait_for(late.latest());
  EXPECT_EQ(text_of(second), "");
}

TEST(StreamFailure, FollowsTheEventThoughItComesLater) {
  Stream first, second, third;
  Event event, onward;
  auto done = std::make_shared<Completion>();
  first.attach([] {}, done);
  event.record(&first);
  second.wait_for(event.latest());
  onward.record(&second);
  third.wait_for(onward.latest());
  done->finish(kLost);
  EXPECT_EQ(text_of(third), "a peer was lost");
}

// Whoever has seen the one must not find the other undone.
TEST(StreamFailure, TheStreamAndItsLastEventAreDoneAtOnce) {
  for (int i = 0; i < 5000; ++i) {
    Stream* const stream = new Stream;
    Event event;
    stream->run([] {});
    event.record(stream);
    if (i % 2 == 0) {
      stream->synchronize();
      ASSERT_TRUE(event.latest()->finished()) << i;
    } else {
      event.latest()->wait();
      ASSERT_TRUE(stream->is_idle()) << i;
    }
    delete stream;
  }
}

}  // namespace
}  // namespace hostnccl
