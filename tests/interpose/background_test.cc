// Communicators that NCCL makes in the background: their ranks have compared settings by the time
// that a program hears that they are ready, whatever it does first. Under
// TERSE_SCHEME="allreduce,sendrecv bytes=4K.. -> int8".
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <latch>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "clients.h"
#include "nodes_of.h"
#include "terse/terse.h"

namespace terse::test {
namespace {

using Clock = std::chrono::steady_clock;
using Floats = std::vector<float>;

constexpr size_t kFew = 100, kMany = 50'000;

// What int8 cannot hold, but nearly.
Floats wave(size_t count, int seed) {
  Floats x(count);
  for (size_t i = 0; i < count; ++i) x[i] = static_cast<float>((i * 7 + seed) % 997);
  return x;
}

void expect_compressed(const Floats& x, const Floats& truth) {
  EXPECT_NE(x, truth);
  for (size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], truth[i], 997.0f / 127) << i;
}

void expect_sum_of_two(ncclComm_t comm) {
  Floats x = wave(kMany, 3), twice = x;
  for (float& value : twice) value *= 2;
  const ncclResult_t result =
      ncclAllReduce(x.data(), x.data(), kMany, ncclFloat32, ncclSum, comm, nullptr);
  ASSERT_EQ(settled(result, comm), ncclSuccess) << ncclGetLastError(comm);
  for (size_t i = 0; i < kMany; ++i) ASSERT_NEAR(x[i], twice[i], 4 * 997.0f / 127) << i;
  EXPECT_NE(x, twice);
}

ncclResult_t transfer(bool sends, Floats& x, ncclComm_t comm) {
  const int peer = sends ? 1 : 0;
  return sends ? ncclSend(x.data(), x.size(), ncclFloat32, peer, comm, nullptr)
               : ncclRecv(x.data(), x.size(), ncclFloat32, peer, comm, nullptr);
}

// A rank's communicator when NCCL's part is done, of which the program has not heard.
ncclComm_t made_by_nccl(int rank, int ranks, const ncclUniqueId& id) {
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ncclResult_t state = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  while (state == ncclInProgress) usleep(100), pncclCommGetAsyncError(comm, &state);
  EXPECT_EQ(state, ncclSuccess);
  return comm;
}

// The order between two ranks is that of their calls, though one of them has these in a group and
// the other one has not, and though the second message alone is compressed.
TEST(Background, MessagesMayComeFirstInAGroupOnOneRankOnly) {
  for (const int grouping : {0, 1})
    on_threads(2, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = made_with(non_blocking(), rank, 2, id);
      const bool sends = rank == 0;
      Floats few = sends ? wave(kFew, 1) : Floats(kFew);
      Floats many = sends ? wave(kMany, 2) : Floats(kMany);
      if (rank == grouping) {
        ASSERT_EQ(ncclGroupStart(), ncclSuccess);
        for (Floats* x : {&few, &many}) EXPECT_EQ(transfer(sends, *x, comm), ncclSuccess);
        ASSERT_EQ(settled(ncclGroupEnd(), comm), ncclSuccess) << ncclGetLastError(comm);
      } else {
        for (Floats* x : {&few, &many})
          ASSERT_EQ(settled(transfer(sends, *x, comm), comm), ncclSuccess)
              << ncclGetLastError(comm);
      }
      if (!sends) {
        EXPECT_EQ(few, wave(kFew, 1));
        expect_compressed(many, wave(kMany, 2));
      }
      ncclCommDestroy(comm);
    });
}

TEST(Background, ARankThatNeverAsksHoldsUpNoOther) {
  constexpr int kRanks = 3;
  std::latch ready(kRanks - 1);
  on_threads(kRanks, [&](int rank, const ncclUniqueId& id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, kRanks, id, rank, &config);
    if (rank < kRanks - 1) {
      EXPECT_EQ(settled(made, comm), ncclSuccess);
      Floats x = wave(kMany, rank);
      EXPECT_EQ(settled(transfer(rank == 0, x, comm), comm), ncclSuccess);
      if (rank == 1) expect_compressed(x, wave(kMany, 0));
      ready.count_down();
    } else {
      ready.wait();
    }
    ncclCommDestroy(comm);
  });
}

TEST(Background, OneThreadMayAskForOneRankAfterTheOther) {
  constexpr int kRanks = 3;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  std::vector<ncclComm_t> comms(kRanks);
  ncclConfig_t config = non_blocking();
  ASSERT_EQ(ncclGroupStart(), ncclSuccess);
  for (int r = 0; r < kRanks; ++r) ncclCommInitRankConfig(&comms[r], kRanks, id, r, &config);
  const ncclResult_t made = ncclGroupEnd();
  for (const ncclComm_t comm : comms) ASSERT_EQ(settled(made, comm), ncclSuccess);
  for (const ncclComm_t comm : comms) ncclCommDestroy(comm);
}

// A program may ask for the whole alone, and then has the part.
TEST(Background, APartIsReadyWhenItsWholeIs) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t whole = made_with(non_blocking(), rank, 2, id);
    ncclComm_t part = nullptr;
    const ncclResult_t split = ncclCommSplit(whole, 0, rank, &part, nullptr);
    ASSERT_TRUE(split == ncclSuccess || split == ncclInProgress);
    ASSERT_EQ(settled(ncclInProgress, whole), ncclSuccess);
    ASSERT_NE(part, nullptr);
    ncclResult_t state = ncclInProgress;
    ASSERT_EQ(ncclCommGetAsyncError(part, &state), ncclSuccess);
    EXPECT_EQ(state, ncclSuccess);
    expect_sum_of_two(part);
    ncclCommDestroy(part);
    ncclCommDestroy(whole);
  });
}

Place begun_part(ncclComm_t whole, int rank) {
  Place place = std::make_unique<ncclComm_t>(nullptr);
  const ncclResult_t split = ncclCommSplit(whole, 0, rank, place.get(), nullptr);
  EXPECT_TRUE(split == ncclSuccess || split == ncclInProgress) << split;
  return place;
}

// A program may see the part's handle, and go on with that: one rank asks for the part, another one
// just calls. The whole may be asked when nothing is left of the part.
TEST(Background, APartIsReadyWhenItSaysSo) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t whole = made_with(non_blocking(), rank, 2, id);
    Place place = begun_part(whole, rank);
    const ncclComm_t part = seen(*place);
    if (rank == 0) {
      ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
      EXPECT_EQ(nodes_of(part), 1u);
    }
    Floats few(kFew, 1.0f);
    const ncclResult_t native =
        ncclAllReduce(few.data(), few.data(), kFew, ncclFloat32, ncclSum, part, nullptr);
    ASSERT_EQ(settled(native, part), ncclSuccess) << ncclGetLastError(part);
    EXPECT_EQ(few, Floats(kFew, 2.0f));
    EXPECT_EQ(nodes_of(part), 1u);
    expect_sum_of_two(part);
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    place.reset();
    EXPECT_EQ(settled(ncclInProgress, whole), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

// Of two ranks, or of two communicators: what is asked for first waits for what comes after it.
struct TwoRanks {
  TwoRanks() {
    ncclUniqueId id;
    EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess);
    ncclConfig_t config = non_blocking();
    EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    for (int r = 0; r < 2; ++r) ncclCommInitRankConfig(&wholes[r], 2, id, r, &config);
    const ncclResult_t made = ncclGroupEnd();
    for (const ncclComm_t whole : wholes) EXPECT_EQ(settled(made, whole), ncclSuccess);
  }
  ~TwoRanks() {
    for (const auto& comms : {parts, wholes})
      for (const ncclComm_t comm : comms) EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  }
  TwoRanks(const TwoRanks&) = delete;
  TwoRanks& operator=(const TwoRanks&) = delete;

  void split() {
    for (int r = 0; r < 2; ++r) {
      const ncclResult_t begun = ncclCommSplit(wholes[r], 0, r, &parts[r], nullptr);
      EXPECT_TRUE(begun == ncclSuccess || begun == ncclInProgress) << begun;
    }
  }

  std::array<ncclComm_t, 2> wholes{}, parts{};
};

TEST(Background, OneThreadMayAskForOneWholeAfterTheOther) {
  for (const bool grouped : {true, false}) {
    TwoRanks ranks;
    if (grouped) {
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
    }
    ranks.split();
    if (grouped) {
      EXPECT_EQ(ncclGroupEnd(), ncclInProgress);
    }
    for (const ncclComm_t whole : ranks.wholes)
      ASSERT_EQ(settled(ncclInProgress, whole), ncclSuccess) << grouped;
    for (const ncclComm_t part : ranks.parts) EXPECT_EQ(nodes_of(part), 1u);
  }
}

TEST(Background, OneThreadMayAskForOnePartAfterTheOther) {
  TwoRanks ranks;
  ranks.split();
  for (ncclComm_t& part : ranks.parts) seen(part);
  for (const ncclComm_t part : ranks.parts) ASSERT_EQ(settled(ncclInProgress, part), ncclSuccess);
}

TEST(Background, OneThreadMayDestroyOnePartAfterTheOther) {
  TwoRanks ranks;
  ranks.split();
  for (ncclComm_t& part : ranks.parts) seen(part);
}

TEST(Background, TwoRanksMayAskForPartsInDifferentOrders) {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  on_threads(2, [&](int rank, const ncclUniqueId&) {
    ncclComm_t wholes[2], parts[2] = {};
    for (int i = 0; i < 2; ++i) wholes[i] = made_with(non_blocking(), rank, 2, ids[i]);
    ASSERT_EQ(ncclGroupStart(), ncclSuccess);
    for (int i = 0; i < 2; ++i) ncclCommSplit(wholes[i], 0, rank, &parts[i], nullptr);
    ASSERT_EQ(ncclGroupEnd(), ncclInProgress);
    for (const int i : {rank, 1 - rank}) ASSERT_EQ(settled(ncclInProgress, wholes[i]), ncclSuccess);
    for (const ncclComm_t part : parts) expect_sum_of_two(part);
    for (const ncclComm_t part : parts) EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    for (const ncclComm_t whole : wholes) EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

// It has not the thread that goes on with it.
TEST(Background, AForkedChildDoesNotWaitForWhatItsParentHasBegun) {
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  ncclConfig_t config = non_blocking();
  ncclComm_t comm = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, 0, &config), ncclInProgress);  // and no other rank
  const pid_t child = fork();
  if (child == 0) {
    alarm(20);
    _exit(ncclCommDestroy(comm) == ncclSuccess ? 1 : 0);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(Background, ARankThatOnlyDestroysItsPartHoldsUpNoOther) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t whole = made_with(non_blocking(), rank, 2, id);
    Place place = begun_part(whole, rank);
    const ncclComm_t part = seen(*place);
    if (rank == 0) {
      EXPECT_EQ(settled(ncclInProgress, part), ncclSuccess);
    }
    EXPECT_EQ(ncclCommDestroy(part), ncclSuccess);
    place.reset();
    EXPECT_EQ(settled(ncclInProgress, whole), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

TEST(Background, OfAPartThatIsAbortedNothingIsLeft) {
  std::latch made(2);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    const ncclComm_t whole = made_with(non_blocking(), rank, 2, id);
    Place place = begun_part(whole, rank);
    const ncclComm_t part = seen(*place);
    made.arrive_and_wait();
    EXPECT_EQ(ncclCommAbort(part), ncclSuccess);
    place.reset();
    EXPECT_EQ(settled(ncclInProgress, whole), ncclSuccess);
    EXPECT_EQ(ncclCommDestroy(whole), ncclSuccess);
  });
}

// By which its messages name it, and its random numbers are drawn. All its ranks ask.
int number_of(ncclComm_t comm) {
  const auto set_levels = reinterpret_cast<decltype(&tersePreloadSetLevels)>(
      dlsym(RTLD_DEFAULT, "tersePreloadSetLevels"));
  EXPECT_NE(set_levels(comm, "no levels"), ncclSuccess);
  const std::string message = ncclGetLastError(comm);
  const size_t sign = message.find("communicator #");
  EXPECT_NE(sign, message.npos) << message;
  return sign == message.npos ? -1 : std::stoi(message.substr(message.find('#') + 1));
}

// Here the second is there first.
TEST(Background, NumbersAreInTheProgramsOrder) {
  ncclUniqueId second_id;
  ASSERT_EQ(ncclGetUniqueId(&second_id), ncclSuccess);
  std::latch second_is_made(1), number_is_known(2);
  on_threads(2, [&](int rank, const ncclUniqueId& first_id) {
    ncclConfig_t config = non_blocking();
    ncclComm_t first = nullptr, second = nullptr;
    ncclResult_t first_made = ncclInProgress;
    const auto make_first = [&] {
      first_made = ncclCommInitRankConfig(&first, 2, first_id, rank, &config);
    };
    if (rank == 0) make_first();
    const ncclResult_t second_made = ncclCommInitRankConfig(&second, 2, second_id, rank, &config);
    ASSERT_EQ(settled(second_made, second), ncclSuccess);
    if (rank == 0)
      second_is_made.count_down();
    else
      second_is_made.wait(), make_first();
    ASSERT_EQ(settled(first_made, first), ncclSuccess);
    const int number = number_of(first);
    number_is_known.arrive_and_wait();  // the last error is the process's
    EXPECT_LT(number, number_of(second));
    for (const ncclComm_t comm : {first, second}) ncclCommDestroy(comm);
  });
}

// Who makes its call without asking waits in it.
TEST(Background, ACallWaitsForTheRanksToMeet) {
  on_threads(2, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = made_by_nccl(rank, 2, id);
    expect_sum_of_two(comm);
    ncclCommDestroy(comm);
  });
}

// NCCL lets no call begin after that one.
TEST(Background, AFinalizationWaitsForTheRanksToMeet) {
  for (int attempt = 0; attempt < 10; ++attempt)
    on_threads(2, [](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = made_by_nccl(rank, 2, id);
      ASSERT_EQ(settled(ncclCommFinalize(comm), comm), ncclSuccess) << ncclGetLastError(comm);
      EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
    });
}

// Where one rank is without terse, as here, the other one has an error after TERSE_TIMEOUT (that
// interpose.processes tests), and may give up before.
TEST(Background, AnAbortEndsIt) {
  std::latch made(2), aborted(1);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    if (rank == 1) {
      const ncclComm_t unseen = made_unseen(rank, 2, id);
      made.arrive_and_wait();
      aborted.wait();
      ncclCommAbort(unseen);
      return;
    }
    const ncclComm_t comm = made_by_nccl(rank, 2, id);
    made.arrive_and_wait();
    ncclResult_t state = ncclSuccess;
    for (int i = 0; i < 100; ++i) {
      ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      ASSERT_EQ(state, ncclInProgress);
    }
    const auto start = Clock::now();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(20));
    aborted.count_down();
  });
}

// What waited for the ranks to meet is not for NCCL any more, whose communicator has gone.
TEST(Background, AnAbortEndsTheCallsThatWait) {
  std::latch made(2), aborted(1);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    if (rank == 1) {  // without terse
      const ncclComm_t unseen = made_unseen(rank, 2, id);
      made.arrive_and_wait();
      aborted.wait();
      ncclCommAbort(unseen);
      return;
    }
    const ncclComm_t comm = made_by_nccl(rank, 2, id);
    made.arrive_and_wait();
    ncclResult_t result = ncclSuccess;
    std::string message;
    std::latch begun(1);
    std::thread waiting([&] {
      Floats x(kMany);
      begun.count_down();
      result = ncclAllReduce(x.data(), x.data(), kMany, ncclFloat32, ncclSum, comm, nullptr);
      message = ncclGetLastError(nullptr);
    });
    begun.wait();
    std::this_thread::sleep_for(std::chrono::seconds(1));
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
    aborted.count_down();
    waiting.join();
    EXPECT_EQ(result, ncclInvalidUsage);
    EXPECT_NE(message.find("was aborted while the call waited"), message.npos) << message;
  });
}

// As NCCL does. A program may go on without asking, and a rank may never come.
TEST(Background, WhatNcclIsStillAtIsRefusedAtOnce) {
  std::latch refused(1);
  on_threads(2, [&](int rank, const ncclUniqueId& id) {
    if (rank == 1) refused.wait();
    ncclConfig_t config = non_blocking();
    ncclComm_t comm = nullptr, part = nullptr;
    const ncclResult_t made = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
    Floats x = wave(kMany, rank), sum(kMany);
    const auto reduce = [&] {
      return ncclAllReduce(x.data(), sum.data(), kMany, ncclFloat32, ncclSum, comm, nullptr);
    };
    if (rank == 0) {
      const auto expect_refused = [](ncclResult_t result) {
        EXPECT_EQ(result, ncclInvalidArgument);
        const std::string message = ncclGetLastError(nullptr);
        EXPECT_NE(message.find("still being initialised"), message.npos) << message;
      };
      EXPECT_EQ(made, ncclInProgress);
      expect_refused(reduce());
      expect_refused(ncclSend(x.data(), kMany, ncclFloat32, 1, comm, nullptr));
      expect_refused(ncclCommSplit(comm, 0, 0, &part, nullptr));
      expect_refused(ncclCommFinalize(comm));
      expect_refused(ncclCommRevoke(comm, 0));
      expect_refused(ncclCommDestroy(comm));
      EXPECT_EQ(ncclGroupStart(), ncclSuccess);
      expect_refused(reduce());
      EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
      void* handle = nullptr;
      EXPECT_EQ(ncclCommRegister(comm, x.data(), kMany, &handle),
                pncclCommRegister(comm, x.data(), kMany, &handle));
      ncclResult_t state = ncclSuccess;
      EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      EXPECT_EQ(state, ncclInProgress);
      EXPECT_EQ(sum, Floats(kMany));
      refused.count_down();
    }
    ASSERT_EQ(settled(made, comm), ncclSuccess);
    ASSERT_EQ(settled(reduce(), comm), ncclSuccess) << ncclGetLastError(comm);
    Floats truth = wave(kMany, 0);
    const Floats other = wave(kMany, 1);
    for (size_t i = 0; i < kMany; ++i) truth[i] += other[i];
    for (size_t i = 0; i < kMany; ++i) ASSERT_NEAR(sum[i], truth[i], 4 * 997.0f / 127) << i;
    EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
  });
}

// While the ranks tell each other their nodes, as where a monitor asks.
TEST(Background, StatisticsMayBeAskedForMeanwhile) {
  const auto stats_of =
      reinterpret_cast<decltype(&tersePreloadStats)>(dlsym(RTLD_DEFAULT, "tersePreloadStats"));
  for (int attempt = 0; attempt < 10; ++attempt)
    on_threads(2, [&](int rank, const ncclUniqueId& id) {
      ncclConfig_t config = non_blocking();
      ncclComm_t comm = nullptr;
      ncclResult_t state = ncclCommInitRankConfig(&comm, 2, id, rank, &config);
      terseStats_t stats{};
      stats.size = sizeof stats;
      while (state == ncclInProgress) {
        ASSERT_EQ(stats_of(comm, &stats), ncclSuccess);
        EXPECT_LE(stats.nodes, 1u);
        ASSERT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
      }
      EXPECT_EQ(state, ncclSuccess);
      ASSERT_EQ(stats_of(comm, &stats), ncclSuccess);
      EXPECT_EQ(stats.nodes, 1u);
      ncclCommDestroy(comm);
    });
}

}  // namespace
}  // namespace terse::test
