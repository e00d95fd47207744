// Calls that a program records in graphs: every replay gives the reference's bytes, whatever else
// runs on the communicator.
#include <barrier>
#include <deque>
#include <thread>

#include "player.h"

namespace terse::test {
namespace {

using plan::Collective;

// Several chunks for a call of some thousand elements.
[[maybe_unused]] const bool small_chunks = setenv("TERSE_CHUNK_BYTES", "16384", 1) == 0;

Call call_of(Collective collective, const char* scheme, size_t count,
             ncclDataType_t datatype = ncclFloat32) {
  return {.collective = collective,
          .scheme = parse_scheme(scheme),
          .datatype = datatype,
          .count = count};
}

constexpr Collective kAll[] = {Collective::kAllReduce, Collective::kAllGather,
                               Collective::kReduceScatter};

// AllToAll and Scatter also copy.
constexpr Collective kMore[] = {Collective::kAllReduce,     Collective::kAllGather,
                                Collective::kReduceScatter, Collective::kAllToAll,
                                Collective::kBroadcast,     Collective::kScatter};

TEST(Capture, EveryReplayGivesTheReferenceBytes) {
  for (const int ranks : {2, 3})
    for (const Collective collective : kMore)
      for (const char* scheme :
           {"int8", "int4:round=stochastic,algo=twoshot", "minmax8:block=1024,round=shift"})
        play_ranks(ranks, [&](Player& player) {
          const DeviceStream stream;
          Piece piece(player, call_of(collective, scheme, 6'001, ncclBfloat16));
          piece.play(0, stream.get());
          const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
          for (unsigned k = 0; k < 4; ++k) {
            piece.feed(1 + k, stream.get());
            graph.launch(stream.get());
            piece.expect(stream.get(), k);
          }
        });
}

TEST(Capture, ReplaysDrawAnew) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "int4:round=stochastic", 5'000));
    piece.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
    std::vector<Bytes> results;
    for (unsigned k = 0; k < 3; ++k) {
      piece.feed(7, stream.get());
      graph.launch(stream.get());
      results.push_back(piece.expect(stream.get(), k));
    }
    EXPECT_TRUE(results[0] != results[1]);
    EXPECT_TRUE(results[1] != results[2]);
    EXPECT_TRUE(results[0] != results[2]);
  });
}

// They go together, each with scratch of its own.
TEST(Capture, AGroupOfSeveralCalls) {
  play_ranks(3, [&](Player& player) {
    const DeviceStream stream;
    std::deque<Piece> pieces;
    for (const size_t count : {300, 500, 200, 900, 100})
      pieces.emplace_back(player, call_of(kAll[count / 100 % 3], "int8", count));
    const auto all = [&] {
      ASSERT_EQ(terseGroupStart(), ncclSuccess);
      for (Piece& piece : pieces) piece.enqueue(stream.get());
      ASSERT_EQ(terseGroupEnd(), ncclSuccess) << terseGetLastError();
    };
    for (Piece& piece : pieces) piece.feed(0, stream.get());
    all();
    for (Piece& piece : pieces) piece.expect(stream.get());
    const RecordedGraph graph(stream.get(), all);
    for (unsigned k = 0; k < 3; ++k) {
      for (Piece& piece : pieces) piece.feed(1 + k, stream.get());
      graph.launch(stream.get());
      for (Piece& piece : pieces) piece.expect(stream.get(), k);
      for (Piece& piece : pieces) piece.feed(5 + k, stream.get());
      all();  // eagerly, between the replays
      for (Piece& piece : pieces) piece.expect(stream.get());
    }
  });
}

TEST(Capture, WhatIsExcludedIsExactInEveryReplay) {
  constexpr size_t kCount = 3'000;
  for (const Collective collective : kAll)
    play_ranks(2, [&](Player& player) {
      const DeviceStream stream;
      Piece piece(player, call_of(collective, "int2", kCount));
      piece.play(0, stream.get());
      const size_t whole = kCount * (collective == Collective::kAllReduce ? 1 : 2);
      const terseRange_t everything{0, whole};
      ASSERT_EQ(terseCommExclude(player.comm, whole, &everything, 1), ncclSuccess)
          << terseGetLastError();
      piece.feed(1, stream.get());
      piece.enqueue(stream.get());
      piece.expect_exact(stream.get());
      const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
      for (unsigned k = 2; k < 4; ++k) {
        piece.feed(k, stream.get());
        graph.launch(stream.get());
        piece.expect_exact(stream.get());
      }
    });
}

TEST(Capture, SeveralCallsMakeOneGraph) {
  play_ranks(3, [&](Player& player) {
    const DeviceStream stream;
    std::deque<Piece> pieces;
    size_t count = 500;
    for (const Collective collective : kAll)  // each needs more scratch than the one before
      pieces.emplace_back(player, call_of(collective, "int5:round=stochastic", count *= 8));
    pieces[0].play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      for (Piece& piece : pieces) piece.enqueue(stream.get());
    });
    for (unsigned k = 0; k < 3; ++k) {
      for (Piece& piece : pieces) piece.feed(k, stream.get());
      graph.launch(stream.get());
      for (size_t i = 0; i < pieces.size(); ++i)
        pieces[i].expect(stream.get(), k * pieces.size() + i);
    }
  });
}

TEST(Capture, GraphsAndEagerCallsTakeTurns) {
  play_ranks(3, [&](Player& player) {
    const DeviceStream stream, other;
    const char* scheme = "int6:round=stochastic";
    Piece first(player, call_of(Collective::kAllReduce, scheme, 9'000));
    Piece second(player, call_of(Collective::kReduceScatter, scheme, 4'000, ncclFloat16));
    Piece eager(player, call_of(Collective::kAllGather, scheme, 100));
    Piece larger(player, call_of(Collective::kAllReduce, scheme, 60'000));
    eager.play(0, stream.get());
    const RecordedGraph one(stream.get(), [&] { first.enqueue(stream.get()); });
    const RecordedGraph two(stream.get(), [&] { second.enqueue(stream.get()); });
    for (unsigned k = 0; k < 3; ++k) {
      // All at once, on two streams.
      first.feed(k, stream.get());
      second.feed(k, other.get());
      Piece& between = k == 1 ? larger : eager;
      between.feed(k, stream.get());
      one.launch(stream.get());
      between.enqueue(stream.get());
      two.launch(other.get());
      first.expect(stream.get(), k);
      between.expect(stream.get());
      second.expect(other.get(), k);
    }
  });
}

TEST(Capture, AnotherGraphTakesTheTrackOfOneThatIsGone) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    const char* scheme = "int8:round=stochastic";
    Piece small(player, call_of(Collective::kAllReduce, scheme, 3'000));
    Piece large(player, call_of(Collective::kAllReduce, scheme, 30'000));
    small.play(0, stream.get());
    static std::barrier together(2);
    const auto streams = [] {
      together.arrive_and_wait();
      const size_t now = fake::live().streams;
      together.arrive_and_wait();
      return now;
    };
    size_t with_one = 0;
    for (Piece* piece : {&small, &large, &small}) {
      const RecordedGraph graph(stream.get(), [&] { piece->enqueue(stream.get()); });
      for (unsigned k = 0; k < 2; ++k) {
        piece->feed(k, stream.get());
        graph.launch(stream.get());
        piece->expect(stream.get(), k);
      }
      if (with_one == 0) with_one = streams();
      EXPECT_EQ(streams(), with_one);
    }
    const RecordedGraph one(stream.get(), [&] { small.enqueue(stream.get()); });
    const RecordedGraph two(stream.get(), [&] { large.enqueue(stream.get()); });
    EXPECT_GT(streams(), with_one) << "both may run at once";
  });
}

TEST(Capture, ASchemesFirstUseIsAnError) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece known(player, call_of(Collective::kAllReduce, "int8", 1'000));
    Piece unknown(player, call_of(Collective::kAllReduce, "int4", 1'000));
    known.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      EXPECT_EQ(unknown.try_enqueue(stream.get()), ncclInvalidUsage);
      const std::string message = terseGetLastError();
      EXPECT_NE(message.find("for the first time while a graph is recorded"), std::string::npos)
          << message;
      known.enqueue(stream.get());  // the recording goes on
    });
    known.feed(1, stream.get());
    graph.launch(stream.get());
    known.expect(stream.get());
    unknown.play(2, stream.get());
  });
}

// A stream's order holds: what is enqueued before and after a call is before and after it in the
// graph.
TEST(Capture, KeepsTheOrderOfTheStream) {
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
TEST(Capture, CallsOnForkedStreamsFollowEachOther) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream, other;
    const DeviceEvent fork, join;
    const char* scheme = "int7:round=stochastic";
    Piece first(player, call_of(Collective::kAllReduce, scheme, 20'000));
    Piece second(player, call_of(Collective::kAllReduce, scheme, 20'000));
    first.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      must(cudaEventRecord(fork.get(), stream.get()));
      must(cudaStreamWaitEvent(other.get(), fork.get(), 0));
      first.enqueue(stream.get());
      second.enqueue(other.get());
      must(cudaEventRecord(join.get(), other.get()));
      must(cudaStreamWaitEvent(stream.get(), join.get(), 0));
    });
    for (unsigned k = 0; k < 6; ++k) {
      first.feed(2 * k, stream.get());
      second.feed(2 * k + 1, stream.get());
      graph.launch(stream.get());
      first.expect(stream.get(), 2 * k);
      second.expect(stream.get(), 2 * k + 1);
    }
  });
}

TEST(Capture, NativeCallsAreRecordedToo) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    const DeviceMemory data(4 * 10);
    const SchemeHandle off(parse_scheme("off"));
    Piece before(player, call_of(Collective::kAllReduce, "int8", 10));
    before.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      EXPECT_EQ(terseAllReduce(data.get(), data.get(), 10, ncclFloat32, ncclSum, off.get(),
                               player.comm, stream.get()),
                ncclSuccess);
    });
    auto* values = static_cast<float*>(data.get());
    std::fill_n(values, 10, 1.5f);
    for (const float sum : {3.0f, 6.0f, 12.0f}) {
      graph.launch(stream.get());
      stream.synchronize();
      EXPECT_EQ(values[9], sum);
    }
  });
}

// One thread, one graph, all ranks: their streams fork from the first one and join it.
TEST(Capture, OneThreadRecordsAllRanks) {
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

// While some threads record, others make their first calls, which allocate and wait.
TEST(Capture, IsNotBrokenByCallsOfOtherThreads) {
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

TEST(Capture, ABrokenOneLeavesNothingBehind) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "int8:round=stochastic", 5'000));
    piece.play(0, stream.get());
    must(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    piece.enqueue(stream.get());
    EXPECT_EQ(cudaStreamSynchronize(stream.get()), cudaErrorStreamCaptureUnsupported);
    EXPECT_EQ(piece.try_enqueue(stream.get()), ncclInvalidUsage);
    EXPECT_NE(std::string(terseGetLastError()).find("capture was broken"), std::string::npos)
        << terseGetLastError();
    cudaGraph_t graph = nullptr;
    EXPECT_EQ(cudaStreamEndCapture(stream.get(), &graph), cudaErrorStreamCaptureInvalidated);
    cudaGetLastError();
    piece.play(1, stream.get());
    const RecordedGraph second(stream.get(), [&] { piece.enqueue(stream.get()); });
    for (unsigned k = 0; k < 2; ++k) {
      piece.feed(k, stream.get());
      second.launch(stream.get());
      piece.expect(stream.get(), k);
    }
  });
}

}  // namespace
}  // namespace terse::test
