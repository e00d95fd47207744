// Calls that a program records in graphs: every replay gives the reference's bytes, whatever else
// runs on the communicator.
#include <array>
#include <barrier>
#include <deque>

#include "client_stats.h"
#include "recorded_call.h"
#include "summed_reference.h"

namespace terse::test {
namespace {

using plan::Collective;

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
           {"int8", "int4:round=stochastic,algo=twoshot", "learned4:learn=never",
            "minmax8:block=1024,round=shift", "linear8", "exp8"}) {
        if (!plan::has_algorithm(collective, sharing_of(parse_scheme(scheme).spec))) continue;
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
}

TEST(Capture, ReplaysDrawAnew) {
  for (const char* scheme :
       {"int4:round=stochastic", "linear8", "exp8", "learned3:learn=never,round=stochastic"})
    play_ranks(2, [&](Player& player) {
      const DeviceStream stream;
      Piece piece(player, call_of(Collective::kAllReduce, scheme, 5'000));
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

// A rank whose recording has failed records again: when levels are fitted goes by the calls that
// run.
TEST(Capture, WhatOneRankRecordsMoreOftenDoesNotCount) {
  std::array<std::vector<Bytes>, 2> results;
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "learned4:learn=1+3", 5'000));
    for (unsigned call = 1; call <= 4; ++call) {
      piece.feed(call, stream.get());
      piece.enqueue(stream.get());
      results[player.rank].push_back(piece.expect_roughly(stream.get()));
      if (call == 1 && player.rank == 0)
        const RecordedGraph unused(stream.get(), [&] { piece.enqueue(stream.get()); });
    }
  });
  EXPECT_EQ(results[0], results[1]);
}

// A fit may go on while a graph runs, and ranks would see it at different times.
TEST(Capture, LevelsThatAreFittedLaterAreNotThoseOfAGraph) {
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "learned3:learn=1+2", 5'000));
    const auto replay = [&](const RecordedGraph& graph) {
      piece.feed(7, stream.get());
      graph.launch(stream.get());
      return piece.expect_roughly(stream.get());
    };
    const auto levels = [&] {
      std::string text(10'000, 0);
      size_t bytes = 0;
      EXPECT_EQ(terseCommGetLevels(player.comm, text.data(), text.size(), &bytes), ncclSuccess);
      return text.substr(text.find("at ="));
    };
    piece.feed(1, stream.get());
    piece.enqueue(stream.get());
    stream.synchronize();
    const std::string before = levels();
    const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
    const Bytes result = replay(graph);
    piece.feed(2, stream.get());
    piece.enqueue(stream.get());
    stream.synchronize();
    EXPECT_NE(levels(), before);
    EXPECT_EQ(replay(graph), result);
    const RecordedGraph later(stream.get(), [&] { piece.enqueue(stream.get()); });
    EXPECT_NE(replay(later), result);
    EXPECT_EQ(replay(graph), result);
  });
}

// A recording that failed, as on one rank alone, leaves nothing that a later one goes by.
TEST(Capture, LevelsOfAGraphDoNotDependOnWhatOneRankHasRecordedBefore) {
  std::array<Bytes, 2> results;
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "learned3:learn=1+2", 5'000));
    const auto run = [&](unsigned seed) {
      piece.feed(seed, stream.get());
      piece.enqueue(stream.get());
      stream.synchronize();
    };
    run(1);
    if (player.rank == 0)
      const RecordedGraph unused(stream.get(), [&] { piece.enqueue(stream.get()); });
    run(2);
    const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
    piece.feed(7, stream.get());
    graph.launch(stream.get());
    results[player.rank] = piece.expect_roughly(stream.get());
  });
  EXPECT_EQ(results[0], results[1]);
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
      // An algorithm that is named, and is the collective's, is not given up, however much is
      // exact.
      const bool reduces_all = collective == Collective::kAllReduce;
      const char* const scheme = reduces_all ? "int2:algo=twoshot" : "int2:algo=direct";
      Piece piece(player, call_of(collective, scheme, kCount));
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
      const terseStats_t stats = client_stats(player.comm);
      EXPECT_EQ(stats.calls, 3u);
      EXPECT_EQ(stats.bypasses[TERSE_BYPASS_EXACT], 0u);
    });
}

TEST(Capture, WhatIsLeftToNcclForItsExclusionsMayBeRecorded) {
  constexpr size_t kCount = 3'000;
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    Piece piece(player, call_of(Collective::kAllReduce, "int2", kCount));
    piece.play(0, stream.get());
    const terseRange_t everything{0, kCount};
    ASSERT_EQ(terseCommExclude(player.comm, kCount, &everything, 1), ncclSuccess)
        << terseGetLastError();
    const RecordedGraph graph(stream.get(), [&] { piece.enqueue(stream.get()); });
    for (unsigned k = 1; k < 3; ++k) {
      piece.feed(k, stream.get());
      graph.launch(stream.get());
      piece.expect_exact(stream.get());
    }
    const terseStats_t stats = client_stats(player.comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_EXACT], 1u);
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

// A graph cannot wait for the ranks' answer: recorded, the call is NCCL's, and the next one that is
// not recorded finds out what has become of the buffer.
TEST(Capture, DifferencesAreNotRecorded) {
  constexpr size_t kCount = 5'000, kBytes = 2 * kCount * sizeof(float);
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    const SchemeHandle scheme("int4:block=2048,delta=inplace");
    DeviceMemory shard(kBytes / 2), all(kBytes);
    const auto gather = [&] {
      ASSERT_EQ(terseAllGather(shard.get(), all.get(), kCount, ncclFloat32, scheme.get(),
                               player.comm, stream.get()),
                ncclSuccess)
          << terseGetLastError();
    };
    const auto feed = [&](unsigned seed) {
      shard.upload(gaussian(kCount, ncclFloat32, seed + player.rank), stream.get());
    };
    feed(1);
    gather();
    const RecordedGraph graph(stream.get(), gather);
    for (const unsigned seed : {10, 20}) {
      feed(seed);
      graph.launch(stream.get());
      Bytes both = gaussian(kCount, ncclFloat32, seed);
      const Bytes second = gaussian(kCount, ncclFloat32, seed + 1);
      both.insert(both.end(), second.begin(), second.end());
      EXPECT_TRUE(all.download(stream.get()) == both) << "exactly";
    }
    gather();
    const terseStats_t stats = client_stats(player.comm);
    EXPECT_EQ(stats.bypasses[TERSE_BYPASS_DELTA], 1u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_FIRST], 1u);
    EXPECT_EQ(stats.delta_full[TERSE_FULL_OTHERS], 1u);
    EXPECT_EQ(stats.delta_calls, 0u);
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

// Those that NCCL has had since 2.28, each of all ranks.
TEST(Capture, NativeCallsOfShardsAreRecordedToo) {
  constexpr size_t kFew = 10;
  play_ranks(2, [&](Player& player) {
    const DeviceStream stream;
    const DeviceMemory send(2 * 4 * kFew), exchanged(2 * 4 * kFew), gathered(2 * 4 * kFew),
        scattered(4 * kFew);
    const SchemeHandle off(parse_scheme("off"));
    Piece before(player, call_of(Collective::kAllReduce, "int8", kFew));
    before.play(0, stream.get());
    const RecordedGraph graph(stream.get(), [&] {
      EXPECT_EQ(terseAllToAll(send.get(), exchanged.get(), kFew, ncclFloat32, off.get(),
                              player.comm, stream.get()),
                ncclSuccess);
      EXPECT_EQ(terseGather(send.get(), gathered.get(), kFew, ncclFloat32, 1, off.get(),
                            player.comm, stream.get()),
                ncclSuccess);
      EXPECT_EQ(terseScatter(send.get(), scattered.get(), kFew, ncclFloat32, 0, off.get(),
                             player.comm, stream.get()),
                ncclSuccess);
    });
    const auto floats = [](const DeviceMemory& memory) {
      return static_cast<float*>(memory.get());
    };
    for (const int round : {1, 2}) {
      // Shard s of rank r: 10 r + s, and 100 more each round.
      const auto value = [&](int rank, int shard) { return 100.0f * round + 10 * rank + shard; };
      for (const int shard : {0, 1})
        std::fill_n(floats(send) + shard * kFew, kFew, value(player.rank, shard));
      graph.launch(stream.get());
      stream.synchronize();
      for (const int from : {0, 1}) {
        EXPECT_EQ(floats(exchanged)[from * kFew + 3], value(from, player.rank));
        if (player.rank == 1) {
          EXPECT_EQ(floats(gathered)[from * kFew + 3], value(from, 0));
        }
      }
      EXPECT_EQ(floats(scattered)[3], value(0, player.rank));
    }
  });
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
