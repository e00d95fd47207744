// Recorded calls among what else streams and threads do.
#include <barrier>
#include <deque>
#include <thread>

#include "recorded_call.h"

namespace terse::test {
namespace {

using plan::Collective;

// A stream's order holds: what is enqueued before and after a call is before and after it in the
// graph.
TEST(CaptureStreams, KeepsTheOrderOfTheStream) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    const size_t bytes = 4 * 3'000;
    Piece first(player, call_of(Collective::kAllReduce, "int8", 3'000));
    Piece second(player, call_of(Collective::kAllReduce, "off", 3'000));
    const DeviceMemory data(bytes);
    first.play(0, stream.get());
    const SchemeHandle scheme(parse_scheme("int8"));
    void* const at = data.get();
    std::vector<char> in(bytes), middle(bytes), out(bytes);
    const RecordedGraph graph(stream.get(), [&] {
      must(cudaMemcpyAsync(at, in.data(), bytes, cudaMemcpyHostToDevice, stream.get()));
      for (char* result : {middle.data(), out.data()}) {
        if (terseAllReduce(at, at, 3'000, ncclFloat32, ncclSum, scheme.get(), player.comm,
                           stream.get()) != ncclSuccess)
          throw std::runtime_error(terseGetLastError());
        must(cudaMemcpyAsync(result, at, bytes, cudaMemcpyDeviceToHost, stream.get()));
      }
    });
    for (unsigned k = 0; k < 6; ++k) {  // in six orders
      const Bytes mine = gaussian(3'000, ncclFloat32, 10 * k + player.rank);
      const Bytes peers = gaussian(3'000, ncclFloat32, 10 * k + 1 - player.rank);
      in = mine;
      graph.launch(stream.get());
      stream.synchronize();
      const Call call = call_of(Collective::kAllReduce, "int8", 3'000);
      const std::vector<Bytes> sent =
          player.rank == 0 ? std::vector{mine, peers} : std::vector{peers, mine};
      const std::vector<Bytes> once = expected(call, sent);
      ASSERT_TRUE(middle == once[0]) << k;
      ASSERT_TRUE(out == expected(call, once)[0]) << k;
    }
  });
}

// They share scratch, and nothing but the communicator puts them in an order.
TEST(CaptureStreams, CallsOnForkedStreamsFollowEachOther) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream, other;
    const Call call = call_of(Collective::kAllReduce, "int7:round=stochastic", 20'000);
    Piece first(player, call), second(player, call);
    first.play(0, stream.get());
    expect_forked(first, stream.get(), second, other.get());
  });
}

// One thread, one graph, all ranks: their streams fork from the first one and join it.
TEST(CaptureStreams, OneThreadRecordsAllRanks) {
  constexpr int kRanks = 3;
  const fake::Live before = fake::live();
  const uint64_t ordinal = next_ordinal();
  std::vector<ncclComm_t> comms(kRanks);
  ASSERT_EQ(ncclCommInitAll(comms.data(), kRanks, nullptr), ncclSuccess);
  {
    const Call call = call_of(Collective::kAllReduce, "int4:round=stochastic", 20'000);
    std::deque<Player> players;
    std::deque<Piece> pieces;
    std::deque<DeviceStream> streams;
    std::deque<DeviceEvent> events;
    for (int r = 0; r < kRanks; ++r) {
      pieces.emplace_back(players.emplace_back(r, kRanks, comms[r], ordinal), call);
      streams.emplace_back();
      events.emplace_back();
    }
    const cudaStream_t first = streams[0].get();
    const auto all = [&] {
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (int r = 0; r < kRanks; ++r) pieces[r].enqueue(streams[r].get());
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    };
    for (int r = 0; r < kRanks; ++r) pieces[r].feed(0, streams[r].get());
    all();
    for (int r = 0; r < kRanks; ++r) pieces[r].expect(streams[r].get());
    must(cudaSetDevice(0));
    const RecordedGraph graph(first, [&] {
      must(cudaEventRecord(events[0].get(), first));
      for (int r = 1; r < kRanks; ++r)
        must(cudaStreamWaitEvent(streams[r].get(), events[0].get(), 0));
      all();
      for (int r = 1; r < kRanks; ++r) {
        must(cudaSetDevice(r));
        must(cudaEventRecord(events[r].get(), streams[r].get()));
        must(cudaStreamWaitEvent(first, events[r].get(), 0));
      }
    });
    for (unsigned k = 0; k < 4; ++k) {
      for (Piece& piece : pieces) piece.feed(k, first);
      graph.launch(first);
      for (Piece& piece : pieces) piece.expect(first, k);
    }
    for (const ncclComm_t comm : comms) EXPECT_EQ(terseCommRelease(comm), ncclSuccess);
    // The graph may still run, and so has its memory until it is gone; then the next such call
    // frees it.
    EXPECT_GT(fake::live().allocations, before.allocations);
  }
  EXPECT_EQ(terseCommRelease(comms[0]), ncclSuccess);
  for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
  expect_live(before);
}

// NCCL takes no such group, and the communicator is as it was.
TEST(CaptureStreams, AGroupThatIsRecordedInPartIsRefused) {
  for (const bool plain_first : {true, false})
    play_ranks(2, [&](Player& player) {
      const DeviceStream plain, recorded;
      Piece a(player, call_of(Collective::kAllReduce, "int8", 5'000));
      Piece b(player, call_of(Collective::kAllReduce, "int8", 5'000));
      a.play(0, plain.get());
      must(cudaStreamBeginCapture(recorded.get(), cudaStreamCaptureModeThreadLocal));
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      const auto enqueue = [](Piece& piece, const DeviceStream& stream) {
        EXPECT_EQ(piece.try_enqueue(stream.get()), ncclSuccess);
      };
      if (plain_first) enqueue(a, plain);
      enqueue(b, recorded);
      if (!plain_first) enqueue(a, plain);
      EXPECT_EQ(terseGroupEnd(), ncclInvalidUsage);
      EXPECT_NE(std::string(terseGetLastError()).find("must all be recorded"), std::string::npos)
          << terseGetLastError();
      EXPECT_EQ(fake::capture_of(plain.get()), 0u);
      cudaGraph_t graph = nullptr;
      EXPECT_EQ(cudaStreamEndCapture(recorded.get(), &graph), cudaSuccess);
      if (graph != nullptr) cudaGraphDestroy(graph);
      a.play(1, plain.get());
    });
}

// While some threads record, others make their first calls, which allocate and wait.
TEST(CaptureStreams, IsNotBrokenByCallsOfOtherThreads) {
  const fake::Live before = fake::live();
  const uint64_t ordinals[] = {next_ordinal(), next_ordinal()};
  static std::barrier all(4), recorders(2), callers(2);
  const Call call = call_of(Collective::kAllReduce, "int8", 5'000);
  const auto record = [&](int rank, ncclComm_t comm) {
    Player player(rank, 2, comm, ordinals[0]);
    const DeviceStream stream;
    Piece piece(player, call);
    piece.play(0, stream.get());
    all.arrive_and_wait();  // the memory is there
    {
      const RecordedGraph graph(
          stream.get(),
          [&] {
            all.arrive_and_wait();
            all.arrive_and_wait();  // the callers have called
            piece.enqueue(stream.get());
            recorders.arrive_and_wait();
          },
          cudaStreamCaptureModeGlobal);
      recorders.arrive_and_wait();
      piece.feed(1, stream.get());
      graph.launch(stream.get());
      piece.expect(stream.get());
    }
    all.arrive_and_wait();
    terseCommRelease(comm);
  };
  const auto make_call = [&](int rank, ncclComm_t comm) {
    Player player(rank, 2, comm, ordinals[1]);
    const DeviceStream stream;
    Piece piece(player, call);
    piece.feed(0, stream.get());
    stream.synchronize();
    all.arrive_and_wait();
    all.arrive_and_wait();
    EXPECT_EQ(piece.try_enqueue(stream.get()), ncclSuccess) << terseGetLastError();
    all.arrive_and_wait();
    all.arrive_and_wait();  // the graphs are done
    piece.expect(stream.get());
    terseCommRelease(comm);
  };
  // Communicators are numbered as they first agree: that of the recorders before the other.
  std::thread others([&] { run_ranks(2, make_call); });
  run_ranks(2, record);
  others.join();
  expect_live(before);
}

}  // namespace
}  // namespace terse::test
