// What AllGathers of differences go out from, of one communicator: memory of the shadows that plans
// keep (plan/delta.h), and whose they are.
//
// Calls of one kind may be of many buffers, as a model has many layers of one size. Which one a
// call is of, its rank finds out by itself: by the receive buffer, where others' shards stay in it,
// or by what it sends; which in any case must be near to what it sent last. The ranks compare what
// they found before they rely on it (peers/deltas.h).
#pragma once

#include <atomic>
#include <compare>
#include <deque>
#include <list>
#include <map>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "codec/checksum.h"
#include "plan/delta.h"
#include "policy/scheme.h"

namespace terse {

struct ShadowKind {
  size_t count;  // of a shard
  codec::Dtype dtype;
  codec::Spec spec;
  Differences delta;

  auto operator<=>(const ShadowKind&) const = default;
};

// Why a call went in full.
enum class InFull { kFirst, kOthers, kEvery, kMemory, kNonfinite };
constexpr size_t kInFulls = 5;

struct Shadow {
  uint64_t id = 0;  // of its base, one for all ranks
  void* memory = nullptr;
  size_t bytes = 0;              // of memory
  const void* buffer = nullptr;  // where it was received last
  uint64_t content = 0;          // the check of what this rank sent last
  std::vector<float> sample;     // some elements of that
  uint32_t calls = 0;            // since one was in full
  uint64_t used = 0;             // when, in calls of the kind
  bool overwritten = false;      // by a gather with extreme elements
  bool fell_back = false;        // the last call was NCCL's after all, on all ranks
  uint64_t round = 0;            // of calls that were decided on together: the last that had it
  InFull why = InFull::kFirst;   // the last one in full was so
  bool failed = false;           // ... and was counted as one for which ranks hold something else
};

// How much memory a shadow of `bytes` has: one of four sizes to each power of two, so that what is
// freed of one size serves another, of a machine that keeps what it is given back.
size_t shadow_room(size_t bytes);

// Whether elements of a shard may be those of the same one at a later time.
bool is_near(std::span<const float> last, std::span<const float> now);

class Shadows {
 public:
  Shadows(Backend& backend, int ranks) : backend_(backend), ranks_(ranks) {}
  ~Shadows();
  Shadows(const Shadows&) = delete;
  Shadows& operator=(const Shadows&) = delete;

  // Calls that are decided on together are of as many shadows: what one has found or been given, no
  // other finds or is given until the next round.
  void begin_round() { ++round_; }

  // That of a receive buffer; or of what is sent: the nearest one, if it is near, and among equals
  // the one that was used longest ago. Null: there is none.
  Shadow* find(const ShadowKind& kind, const void* buffer);
  Shadow* find(const ShadowKind& kind, std::span<const float> sample);

  // How many of a kind this rank has. Ranks may have found different ones.
  size_t count(const ShadowKind& kind) const;

  // Whether calls of the kind found so often that ranks hold something else that they ask no more.
  // Alike on all ranks, as they are told `fewest`, the least count() of any of them.
  bool gave_up(const ShadowKind& kind) const;

  // Frees what is kept of a kind that is given up; or of that kind of which no call ever was of
  // differences and which was used longest ago, before a call of another kind is given memory,
  // where many are so: others than weights are gathered, too, in ever new sizes. Nothing may use
  // what is freed. The former is alike on all ranks; the latter is not, for ranks may have found
  // different shadows: what one has freed it does not hold, as the ranks then find out.
  void free(const ShadowKind& kind);
  bool has_many_unproven(const ShadowKind& but) const;
  void free_one_unproven(const ShadowKind& but);

  // Frees the shadows of a kind that are of weights which have changed wholly, as where they began
  // at zero: of those no call was for long in which all others had many. As free_one_unproven().
  bool has_stale(const ShadowKind& kind) const;
  void free_stale(const ShadowKind& kind);

  // The kind that is to be dropped before there is `next`, with all that is known of it; nothing
  // may use what is freed. Of ever new kinds too many would be known: it is that one of which no
  // call ever was of differences and which was asked for longest ago. Null: there is none. Alike on
  // all ranks, as is what a kind that comes again then begins with.
  static constexpr size_t kMaxKinds = 1024;
  const ShadowKind* superfluous(const ShadowKind& next) const;
  void drop(const ShadowKind& kind);

  // There is a call of the kind in this round.
  void note(const ShadowKind& kind) { kinds_[kind].round = round_; }

  // For a call in full that found `found`, or null: with a new id. Its memory is null where there
  // is none to be had.
  Shadow& renew(const ShadowKind& kind, Shadow* found, size_t bytes, InFull why, size_t fewest);
  // For a call in full of which nothing is kept: not all elements of all ranks are finite, and
  // differences to one that is not would never be again. Its receive buffer is what shadows in
  // place are of. Whether it is the first such call of the kind.
  bool pass_by(const ShadowKind& kind, Shadow* found);
  // The next calls of messages that have `elements` in all go in full.
  void forget(size_t elements);
  // For a call of which a rank could not say what it holds, for want of a little memory. Whether it
  // is the first one.
  bool do_without(Shadow* found);
  // For a call that does not go in full.
  void use(const ShadowKind& kind, Shadow& shadow, bool unchanged);
  // For a call that was to go so, of that shadow, or null, and was NCCL's after all, on all ranks:
  // it is not counted, and the next one of the shadow is a first one.
  void take_back(const ShadowKind& kind, Shadow* shadow, plan::Gathers gathers);

  // Checks that are under way, each with its parts in visible memory.
  codec::Checksum& check(size_t i);
  // For samples, in the backend's memory; and how they come there, which an enqueued copy reads.
  static constexpr size_t kSampled = 1024;  // elements
  void* room();
  std::vector<Copy> copies;

  size_t kinds() const { return kinds_.size(); }
  // Of any thread, for the report.
  size_t bytes() const { return bytes_; }
  size_t differences() const { return differences_; }
  size_t unchanged() const { return unchanged_; }
  size_t in_full(InFull why) const { return in_full_[static_cast<size_t>(why)]; }

 private:
  struct Kind {
    std::list<Shadow> shadows;
    uint64_t ids = 0, calls = 0;
    size_t failures = 0;  // since there last was a call of differences
    size_t fewest = 0;
    bool passed_by = false;
    bool proven = false;  // there was a call of differences
    uint64_t round = 0;   // the last one with a call of the kind
  };
  bool is_unproven(const Kind& kind) const;
  static bool is_stale(const Kind& kind, const Shadow& shadow);
  void release(const Shadow& shadow);
  void free(Kind& kind);
  static void forget(Shadow& shadow);
  Shadow& place_for_one_more(Kind& kind);
  void allocate(Shadow& shadow, size_t bytes);
  bool is_taken(const Shadow& shadow) const { return shadow.round == round_; }
  void touch(Kind& kind, Shadow& shadow);

  Backend& backend_;
  const int ranks_;
  std::map<ShadowKind, Kind> kinds_;
  uint64_t round_ = 1;
  std::deque<codec::Checksum> checks_;
  void* room_ = nullptr;
  std::atomic<size_t> bytes_{0};
  bool did_without_ = false;
  std::atomic<size_t> differences_{0}, unchanged_{0}, in_full_[kInFulls] = {};
};

}  // namespace terse
