// What a stream hands on by an event: that it got there, and what had failed by then.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "completion.h"
#include "stream.h"

namespace hostnccl {
namespace {

// The text of what Synchronize throws; empty: nothing.
std::string TextOf(Stream& stream) {
  try {
    stream.Synchronize();
  } catch (const Failure& failure) {
    EXPECT_EQ(failure.code(), ncclRemoteError);
    return failure.text();
  }
  return {};
}

void Attach(Stream& stream, Outcome outcome) {
  auto done = std::make_shared<Completion>();
  stream.Attach([done, outcome] { done->Finish(outcome); }, done);
}

const Failure kLost(ncclRemoteError, "a peer was lost");

TEST(Passing, AFailureFollowsTheEvent) {
  Stream first, second, third;
  Event early, late;
  early.Record(&first);
  Attach(first, kLost);
  late.Record(&first);
  second.WaitFor(early.latest());
  EXPECT_EQ(TextOf(second), "");
  third.WaitFor(late.latest());
  EXPECT_EQ(TextOf(third), "a peer was lost");
  EXPECT_EQ(TextOf(third), "");  // once
  EXPECT_EQ(TextOf(first), "a peer was lost");

  late.Record(&first);  // it has been told
  second.WaitFor(late.latest());
  EXPECT_EQ(TextOf(second), "");
}

TEST(Passing, AFailureThatIsStillToComeFollowsToo) {
  Stream first, second, third;
  Event event, onward;
  auto done = std::make_shared<Completion>();
  first.Attach([] {}, done);
  event.Record(&first);
  second.WaitFor(event.latest());
  onward.Record(&second);
  third.WaitFor(onward.latest());
  done->Finish(kLost);
  EXPECT_EQ(TextOf(third), "a peer was lost");
}

// Whoever has seen the one must not find the other undone.
TEST(Passing, TheStreamAndItsLastEventAreDoneAtOnce) {
  for (int i = 0; i < 5000; ++i) {
    Stream* const stream = new Stream;
    Event event;
    stream->Run([] {});
    event.Record(stream);
    if (i % 2 == 0) {
      stream->Synchronize();
      ASSERT_TRUE(event.latest()->finished()) << i;
    } else {
      event.latest()->Wait();
      ASSERT_TRUE(stream->IsIdle()) << i;
    }
    delete stream;
  }
}

}  // namespace
}  // namespace hostnccl
