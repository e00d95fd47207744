// One rank's calls with memory of their own, eager or recorded, and what they must give.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string_view>

#include "device.h"
#include "fake.h"
#include "ranks.h"
#include "reference.h"
#include "terse_client.h"

namespace terse::test {

// A rank of a communicator, on the device of its number.
class Player {
 public:
  Player(int rank, int ranks, ncclComm_t comm, uint64_t ordinal)
      : rank(rank), ranks(ranks), comm(comm), ordinal(ordinal) {
    must(cudaSetDevice(rank));
  }

  const int rank, ranks;
  const ncclComm_t comm;
  const uint64_t ordinal;
  uint64_t sequence = 0;
};

class Piece {
 public:
  Piece(Player& player, const Call& call)
      : player_(player),
        call_(call),
        scheme_(call.scheme),
        in_(send_count(call, player.ranks) * datatype_size(call.datatype)),
        out_(recv_count(call, player.ranks) * datatype_size(call.datatype)) {
    call_.ordinal = player.ordinal;
  }

  ncclResult_t try_enqueue(cudaStream_t stream) {
    call_.sequence = player_.sequence;
    const size_t before = fallbacks();
    const ncclResult_t result =
        call_terse(call_, in_.get(), out_.get(), scheme_.get(), player_.comm, stream);
    fell_back_ = fallbacks() != before;
    if (result == ncclSuccess && !call_.scheme.off && !fell_back_) ++player_.sequence;
    return result;
  }
  // Whether the last call went to NCCL because a rank lacked memory.
  bool fell_back() const { return fell_back_; }
  void enqueue(cudaStream_t stream) {
    if (try_enqueue(stream) != ncclSuccess) throw std::runtime_error(terseGetLastError());
  }

  // New numbers for it to work on, the same for the same `step`; garbage where the result goes.
  void feed(unsigned step, cudaStream_t stream) {
    step_ = step;
    in_.upload(sent(player_.rank), stream);
    out_.upload(Bytes(recv_count(call_, player_.ranks) * datatype_size(call_.datatype), '\x77'),
                stream);
  }

  Bytes expect(cudaStream_t stream, uint64_t replays = 0) const {
    if (fell_back_) return expect_exact(stream);
    Call call = call_;
    call.replays = replays;
    const Bytes found = out_.download(stream);
    EXPECT_TRUE(found == expected(call, all_sent())[player_.rank])
        << name(call_.collective) << " " << print_scheme(call_.scheme) << ", rank " << player_.rank
        << " of " << player_.ranks << ", replays " << replays;
    return found;
  }

  // What feed() has put there.
  void expect_untouched(cudaStream_t stream) const {
    const Bytes found = out_.download(stream);
    EXPECT_EQ(found, Bytes(found.size(), '\x77'));
  }

  // What NCCL gives, but for four bits of each block.
  Bytes expect_roughly(cudaStream_t stream) const {
    const Bytes found = out_.download(stream);
    const auto truth = exact(call_, all_sent())[player_.rank];
    EXPECT_LT(relative_error(values(found, call_.datatype), truth), 0.25);
    return found;
  }

  // What NCCL gives, but for rounding.
  Bytes expect_exact(cudaStream_t stream) const {
    const Bytes found = out_.download(stream);
    const auto truth = exact(call_, all_sent())[player_.rank];
    EXPECT_LT(relative_error(values(found, call_.datatype), truth), 1e-6);
    return found;
  }

  // Eagerly, from the numbers to the check. Its times are read at the end, so that the calls of the
  // runtime that a later call makes do not depend on when they could be.
  void play(unsigned step, cudaStream_t stream) {
    feed(step, stream);
    enqueue(stream);
    expect(stream);
    fallbacks();
  }

 private:
  size_t fallbacks() const {
    terseStats_t stats{.size = sizeof stats};
    terseCommGetStats(player_.comm, &stats);
    return stats.bypasses[TERSE_BYPASS_FALLBACK];
  }

  Bytes sent(int rank) const {
    return gaussian(send_count(call_, player_.ranks), call_.datatype,
                    1000 * step_ + static_cast<unsigned>(rank));
  }

  std::vector<Bytes> all_sent() const {
    std::vector<Bytes> all;
    for (int r = 0; r < player_.ranks; ++r) all.push_back(sent(r));
    return all;
  }

  Player& player_;
  Call call_;
  const SchemeHandle scheme_;
  DeviceMemory in_, out_;
  unsigned step_ = 0;
  bool fell_back_ = false;
};

// Max blocks of memory, and max streams, that windows keep for the next ones.
inline size_t kept_memory() {
  const char* const fuse = std::getenv("TERSE_FUSE");
  return fuse != nullptr && std::string_view(fuse) == "on" ? 8 : 0;
}

inline void expect_live(const fake::Live& wanted) {
  const fake::Live found = fake::live();
  const size_t kept = kept_memory();
  EXPECT_LE(found.streams, wanted.streams + kept);
  EXPECT_EQ(found.events, wanted.events);
  EXPECT_LE(found.allocations, wanted.allocations + kept);
  EXPECT_EQ(found.graphs, wanted.graphs);
  EXPECT_EQ(found.user_objects, wanted.user_objects);
}

// Runs body(player) on a thread for each rank; afterwards nothing that terse made is left.
inline void play_ranks(int ranks, const std::function<void(Player&)>& body) {
  const fake::Live before = fake::live();
  const uint64_t ordinal = next_ordinal();
  run_ranks(ranks, [&](int rank, ncclComm_t comm) {
    Player player(rank, ranks, comm, ordinal);
    body(player);
    EXPECT_EQ(terseCommRelease(comm), ncclSuccess) << terseGetLastError();
    EXPECT_EQ(cudaPeekAtLastError(), cudaSuccess);
  });
  expect_live(before);
}

}  // namespace terse::test
