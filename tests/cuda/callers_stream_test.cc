// Calls of one chunk, which run on the caller's own stream: what they leave to the next call, to
// the scratch that they share, and to a stream that goes.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

#include "recorded_call.h"

namespace terse::test {
namespace {

Call small_call(size_t count = 1'000) {
  return {.collective = plan::Collective::kAllReduce,
          .scheme = parse_scheme("int8:round=stochastic"),
          .datatype = ncclFloat32,
          .count = count};
}

// Holds a stream up until it is let go.
class HeldStream {
 public:
  explicit HeldStream(cudaStream_t stream) {
    const auto wait = [](void* self) {
      while (static_cast<HeldStream*>(self)->held_)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    };
    if (hostncclLaunchHostFunc(stream, wait, this) != ncclSuccess)
      throw std::runtime_error("hostncclLaunchHostFunc");
  }
  ~HeldStream() { let_go(); }
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  void let_go() { held_ = false; }

 private:
  std::atomic<bool> held_{true};
};

// Events that a call records, and waits for.
struct Events {
  size_t records, waits;

  bool operator==(const Events&) const = default;
};

Events events_of(Piece& call, cudaStream_t stream) {
  call.play(0, stream);
  call.feed(1, stream);
  auto before = fake::calls();
  call.enqueue(stream);
  auto after = fake::calls();
  call.expect(stream);
  const auto made = [&](const char* function) { return after[function] - before[function]; };
  return {made("cudaEventRecord"), made("cudaStreamWaitEvent")};
}

// It waits for the call before, and a lane waits for this one.
TEST(CallersStream, HasTheCallItself) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece call(player, small_call());
    EXPECT_EQ(events_of(call, stream.get()), (Events{1, 2}));
  });
}

// The second call waits for the first one, whose scratch it uses: though its own stream is free.
TEST(CallersStream, IsWaitedForByCallsOnOthers) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream held, free;
    Piece first(player, small_call()), second(player, small_call());
    first.play(0, held.get());
    for (unsigned step = 1; step < 6; ++step) {
      first.feed(step, held.get());
      second.feed(step + 10, free.get());
      HeldStream hold(held.get());
      first.enqueue(held.get());
      second.enqueue(free.get());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      hold.let_go();
      second.expect(free.get());
      first.expect(held.get());
    }
  });
}

// Scratch that has to grow is not released under a call that still uses it.
TEST(CallersStream, KeepsItsScratchWhileItIsHeldUp) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream held, free;
    Piece small(player, small_call());
    small.play(0, held.get());
    Piece larger(player, small_call(1'500)), largest(player, small_call(60'000));
    small.feed(1, held.get());
    larger.feed(2, free.get());
    largest.feed(3, free.get());
    HeldStream hold(held.get());
    small.enqueue(held.get());
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      hold.let_go();
    });
    larger.enqueue(free.get());
    largest.enqueue(free.get());
    release.join();
    largest.expect(free.get());
    larger.expect(free.get());
    small.expect(held.get());
  });
}

// A program may destroy a stream as soon as it has enqueued a call on it.
TEST(CallersStream, MayBeDestroyedAfterItsCall) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece first(player, small_call()), second(player, small_call());
    first.play(0, stream.get());
    for (unsigned step = 1; step < 6; ++step) {
      first.feed(step, stream.get());
      second.feed(step + 10, stream.get());
      stream.synchronize();
      {
        const DeviceStream short_lived;
        first.enqueue(short_lived.get());
      }
      second.enqueue(stream.get());
      second.expect(stream.get());
      first.expect(stream.get());
    }
  });
}

// Calls that fork in a recording share scratch as well: each waits for the one before.
TEST(CallersStream, OfARecordingIsWaitedForByTheOthers) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream, other;
    Piece first(player, small_call()), second(player, small_call());
    first.play(0, stream.get());
    for (int again = 0; again < 2; ++again)  // the second graph takes the streams of the first
      expect_forked(first, stream.get(), second, other.get());
  });
}

// A call that could not wait for the one before has done nothing: the next one still waits for
// that.
TEST(CallersStream, ThatCannotWaitLeavesTheOrderToTheNextCall) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream, other, third;
    const DeviceEvent fork, join[2];
    Piece first(player, small_call()), failing(player, small_call()), last(player, small_call());
    first.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      must(cudaEventRecord(fork.get(), stream.get()));
      for (const cudaStream_t forked : {other.get(), third.get()})
        must(cudaStreamWaitEvent(forked, fork.get(), 0));
      first.enqueue(stream.get());
      fake::fail("cudaStreamWaitEvent", cudaErrorInvalidResourceHandle);
      EXPECT_NE(failing.try_enqueue(other.get()), ncclSuccess);
      EXPECT_TRUE(fake::failed());
      last.enqueue(third.get());
      for (int i = 0; i < 2; ++i) {
        must(cudaEventRecord(join[i].get(), i == 0 ? other.get() : third.get()));
        must(cudaStreamWaitEvent(stream.get(), join[i].get(), 0));
      }
    });
    for (unsigned k = 0; k < 8; ++k) {
      first.feed(2 * k, stream.get());
      last.feed(2 * k + 1, stream.get());
      graph.launch(stream.get());
      first.expect(stream.get(), 2 * k);
      last.expect(stream.get(), 2 * k + 1);
    }
  });
}

// Nothing says when such a call ends: it is waited for, as its scratch would be taken for idle.
TEST(CallersStream, WhoseEndCannotBeRecordedIsWaitedFor) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece call(player, small_call());
    call.play(0, stream.get());
    call.feed(1, stream.get());
    HeldStream hold(stream.get());
    std::thread release([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      hold.let_go();
    });
    fake::fail("cudaEventRecord", cudaErrorInvalidResourceHandle, 1, 2);
    EXPECT_NE(call.try_enqueue(stream.get()), ncclSuccess);
    EXPECT_TRUE(fake::failed());
    EXPECT_EQ(cudaStreamQuery(stream.get()), cudaSuccess);
    release.join();
    cudaGetLastError();
  });
}

// The legacy stream waits for all others at each launch: a lane does the work, and it waits once.
TEST(CallersStream, ThatIsTheLegacyOneHasALaneForItsCalls) {
  play_ranks(2, [&](Player& player) {
    Piece call(player, small_call());
    EXPECT_EQ(events_of(call, nullptr), (Events{2, 3}));
  });
}

}  // namespace
}  // namespace terse::test
