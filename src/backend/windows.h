// Windows: memory of each rank into which its peers write, for fused calls (plan/fuse.h).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "codec/call_header.h"
#include "codec/codec.h"

struct CUstream_st;

namespace terse {

// Memory that is copied as it is. On a host nothing is where *verdict, if there is one, is not 0.
struct Copy {
  void* target;
  const void* source;
  size_t bytes;
  const uint32_t* verdict = nullptr;
};

// What a rank's peers open its window by; the bytes are the backend's own.
struct WindowHandle {
  std::array<char, 128> bytes{};
};

// Windows of all ranks of a communicator, as one of them has them. Each has areas of equal size,
// as far as calls of their kind are made. Before the first call the ranks take four steps, and each
// waits for all others between two of them: make the own window; open(); write_pattern();
// check_pattern().
class Windows {
 public:
  // For what is pushed, and what is shared, in calls with two halves; and for those with one half,
  // by turns.
  enum Area : size_t { kPushed, kShared, kFirstTurn, kSecondTurn };
  static constexpr size_t kAreas = 4;
  // Kinds of calls whose areas there are.
  struct Kinds {
    bool halves = false, turns = false;

    bool has(size_t area) const { return area < kFirstTurn ? halves : turns; }
  };
  static size_t bytes(size_t area_bytes, const Kinds& kinds) {
    return area_bytes * 2 * (size_t{kinds.halves} + size_t{kinds.turns});
  }

  virtual ~Windows() = default;

  virtual WindowHandle handle() const = 0;
  // Opens the windows of all ranks. Throws Error, which names the rank whose window is out of
  // reach.
  virtual void open(std::span<const WindowHandle> by_rank) = 0;
  // Writes into the windows of all peers what these expect, or begins to.
  virtual void write_pattern() = 0;
  // Throws Error, which names the rank whose bytes have not arrived.
  virtual void check_pattern() = 0;

  // Names a call that is done in steps to all peers, who may wait in another one. `number`: of the
  // call on its communicator.
  virtual void name(uint64_t number, const codec::CallHeader& call) = 0;
  // Windows before these, in which peers may still wait; null: none.
  virtual void follow(Windows* earlier) = 0;

  // Area of a rank's window, aligned to 256 bytes.
  virtual char* area(int rank, size_t number) const = 0;
  // Returns true if fused calls themselves find the area of their turn: they are bound to the
  // first.
  virtual bool counts_turns() const { return false; }
};

// Window that a rank asks a backend for.
struct WindowRequest {
  int rank, ranks;
  size_t area_bytes;
  Windows::Kinds kinds;
  bool may_share_gpu = false;  // with other ranks, whose kernels may wait for its own to end
};

// Fused call on one rank. Places are bound: pushes write into the peers' areas.
struct FusedCall {
  // What a make has packed into the own area, which goes to the same place of all peers.
  struct Shared {
    size_t area, offset, bytes;
  };

  Windows* windows = nullptr;
  bool pushing = false, sharing = false;  // halves of the call
  std::vector<codec::Combine> pushes, makes, takes;
  std::vector<Shared> shared;
  std::vector<Copy> copies;
  uint64_t number = 0;    // of the call on its communicator
  codec::CallHeader own;  // compared with the peers' before any result is written
  codec::Mismatch* report = nullptr;
  const uint32_t* is_ended = nullptr;  // visible: not 0 once is_over() would be true, for good
  const uint64_t* replays = nullptr;   // as for Backend::combine()

  // Returns true if the program or NCCL has ended what the call waits for.
  bool (*is_over)(const FusedCall&) = nullptr;
  // Called where the call ends without a result. `gone`: rank that has left before it, or -1.
  void (*failed)(const FusedCall&, int gone) = nullptr;
  const void* context = nullptr;
  CUstream_st* stream = nullptr;  // that it runs on
};

}  // namespace terse
