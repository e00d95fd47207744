// Memory that the kernels of several ranks share, and the flags in it by which they wait for each
// other: who wrote and read what, and what each thread knows to be over.
//
// A thread knows what it has done itself, what a barrier, or the end of the kernel before, has put
// before it, and what was before the release of a flag whose value it acquired. Two accesses to a
// byte of which at least one writes must be by the same thread, or known to be in an order: so a
// missing fence is noticed in every schedule that comes to it, however early its data arrives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "global_memory.h"
#include "random.h"
#include "site.h"

namespace terse::simt {

// Memory that other ranks may touch.
struct RankWindow {
  void* data;
  size_t bytes;
  std::string name;
  size_t initialized = 0;  // first bytes, which the host has written before all kernels
};

namespace internal {

// Numbers of all ranks' threads: each rank has those of as many blocks, of as many threads.
struct Numbers {
  size_t ranks, blocks, threads;

  size_t all() const { return ranks * blocks * threads; }
  size_t of_rank(size_t rank) const { return rank * blocks * threads; }
  size_t of_block(size_t rank, size_t block) const { return of_rank(rank) + block * threads; }
  std::string name(size_t number) const;  // "rank 1's block 0, thread 3"
};

class WindowMemory {
 public:
  WindowMemory(std::vector<RankWindow> windows, const Numbers& numbers);

  // Throw a Fault if the access is wrong. Memory outside of the windows is a rank's own.
  void touch(Operation operation, const void* at, size_t bytes, size_t thread, Site site);
  // The flag's value arrives later, after those that the thread gave it before; what the thread
  // knows comes along, unless the release is left out.
  void release(void* flag, size_t bytes, uint64_t value, size_t thread, Site site, bool orders);
  uint64_t acquire(const void* flag, size_t bytes, size_t thread, Site site, bool orders);

  // All of the threads know what each of them does: at a barrier, or between two kernels.
  void meet(size_t first, size_t count);

  // Lets the value of one flag arrive, which is drawn. False: none is on its way.
  bool deliver(Random& random);
  // Returns true if others have arrived since it was asked last: those of which a thread has
  // learned by another flag that they were given.
  bool has_news() { return std::exchange(has_news_, false); }
  // Number of those that have.
  uint64_t delivered() const { return delivered_; }

  // "offset 4 of \"rank 1's window\""
  std::string place(const void* at) const;
  const Numbers& numbers() const { return numbers_; }

 private:
  using Clock = std::vector<uint32_t>;  // by thread: what is known of it
  struct Access {
    size_t thread = 0;
    uint32_t time = 0;  // 0: none
    Site site;
  };
  struct Byte {
    Access write;
    std::vector<Access> reads;  // since then
    bool is_flag = false, is_initialized = false;
  };
  struct Message {
    uint64_t value;
    Clock known;
    Access release;
  };
  struct Flag {
    void* at;
    size_t bytes;
    Access last;  // release
    Clock known;  // of the value that has arrived
    std::deque<Message> on_its_way;
  };
  struct Region {
    RankWindow window;
    std::vector<Byte> bytes;
    std::map<size_t, Flag> flags;  // by offset

    size_t offset(const void* at) const {
      return static_cast<size_t>(static_cast<const char*>(at) - static_cast<char*>(window.data));
    }
  };

  // Null: the memory is in no window. Throws a Fault if it is in part of one.
  Region* region_of(const void* at, size_t bytes, Site site);
  Flag& flag_of(const void* at, size_t bytes, size_t thread, Site site);
  Access now(size_t thread, Site site) const { return {thread, clocks_[thread][thread], site}; }
  bool is_over(const Access& before, size_t thread) const {
    return before.time == 0 || before.thread == thread ||
           before.time <= clocks_[thread][before.thread];
  }
  void read(Byte& byte, const void* at, const Access& access) const;
  void write(Byte& byte, const void* at, const Access& access) const;
  [[noreturn]] void conflict(const char* what, const void* at, const Access& access,
                             const char* before_what, const Access& before) const;
  void arrive(Flag& flag);
  static void join(Clock& to, const Clock& from);
  // Later accesses of the thread are not a part of what others know by now.
  void begin_next(size_t thread) { ++clocks_[thread][thread]; }

  const Numbers numbers_;
  std::vector<Region> regions_;
  std::vector<Clock> clocks_;
  std::set<Flag*> on_their_way_;
  uint64_t delivered_ = 0;
  bool has_news_ = false;
};

}  // namespace internal
}  // namespace terse::simt
