// Bases of AllGathers of differences, of one communicator: memory of the shadows that plans keep
// (plan/delta.h), and the buffers they belong to.
//
// Calls of one kind may have many buffers, as a model has many layers of one size. A rank
// recognises a call's buffer by itself: by the receive buffer, if others' shards stay in it, or by
// what it sends; in any case that must be near to what it sent last. Ranks compare what they
// recognised before they rely on it (peers/deltas.h).
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

// Reason of a call in full.
enum class InFull { kFirst, kOthers, kEvery, kMemory, kNonfinite };
constexpr size_t kInFulls = 5;

struct Shadow {
  uint64_t id = 0;  // of its base, alike on all ranks
  void* memory = nullptr;
  size_t bytes = 0;              // of memory
  const void* buffer = nullptr;  // last receive buffer
  uint64_t content = 0;          // check of what this rank sent last
  std::vector<float> sample;     // some elements of what this rank sent last
  uint32_t calls = 0;            // since the last one in full
  uint64_t used = 0;             // last use, in calls of the kind
  bool overwritten = false;      // by a gather with extreme elements
  bool fell_back = false;        // the last call became NCCL's on all ranks
  uint64_t round = 0;            // last round that used it
  InFull why = InFull::kFirst;   // reason of the last call in full
  bool failed = false;           // the last call in full counted as a difference between ranks
};

// Bytes allocated for a shadow of `bytes`: one of four sizes for each power of two, so that freed
// memory serves another size on a machine that keeps it.
size_t shadow_room(size_t bytes);

// Returns true if elements of a shard may be those of the same shard at a later time.
bool is_near(std::span<const float> last, std::span<const float> now);

class Shadows {
 public:
  Shadows(Backend& backend, int ranks) : backend_(backend), ranks_(ranks) {}
  ~Shadows();
  Shadows(const Shadows&) = delete;
  Shadows& operator=(const Shadows&) = delete;

  // Begins a round of calls that are decided on together: each takes a shadow of its own.
  void begin_round() { ++round_; }

  // Finds the shadow of a receive buffer; or of what is sent: the nearest one, if it is near, and
  // among equals the least recently used. Null: there is none.
  Shadow* find(const ShadowKind& kind, const void* buffer);
  Shadow* find(const ShadowKind& kind, std::span<const float> sample);

  // Number of shadows of a kind on this rank. Ranks may have found different ones.
  size_t count(const ShadowKind& kind) const;

  // Returns true if calls of the kind found so often that ranks hold something else that they ask
  // no more. Alike on all ranks, which exchange `fewest`, the min of count() over ranks.
  bool gave_up(const ShadowKind& kind) const;

  // Frees the shadows of a kind that gave up; or those of the least recently used kind that never
  // had a call of differences, if many kinds are so, before a call of another kind is given memory:
  // not only weights are gathered, and in ever new sizes. Nothing may use what is freed. The former
  // is alike on all ranks; the latter is not, as ranks may have found different shadows, and find
  // out then.
  void free(const ShadowKind& kind);
  bool has_many_unproven(const ShadowKind& but) const;
  void free_one_unproven(const ShadowKind& but);

  // Frees the shadows of weights that have changed wholly, as if they began at zero: no call used
  // them for long in which all others used many. As free_one_unproven().
  bool has_stale(const ShadowKind& kind) const;
  void free_stale(const ShadowKind& kind);

  // Kind to be dropped with all that is known of it before `next` is added: the least recently
  // asked kind that never had a call of differences. Nothing may use what is freed. Null: there is
  // room. Alike on all ranks, as is the state of a kind that comes again.
  static constexpr size_t kMaxKinds = 1024;
  const ShadowKind* superfluous(const ShadowKind& next) const;
  void drop(const ShadowKind& kind);

  // Notes a call of the kind in this round.
  void note(const ShadowKind& kind) { kinds_[kind].round = round_; }

  // Renews a shadow, `found` or a new one, with a new id, for a call in full. Its memory is null if
  // there is none to be had.
  Shadow& renew(const ShadowKind& kind, Shadow* found, size_t bytes, InFull why, size_t fewest);
  // Notes a call in full of which nothing is kept, as not all elements of all ranks are finite, and
  // differences to infinity never end. Shadows in place are of its receive buffer. Returns true for
  // the first such call of the kind.
  bool pass_by(const ShadowKind& kind, Shadow* found);
  // Makes the next calls of messages with `elements` in all go in full.
  void forget(size_t elements);
  // Notes a call for which a rank lacked a little memory to say what it holds. Returns true for the
  // first one.
  bool do_without(Shadow* found);
  // Notes a call that does not go in full.
  void use(const ShadowKind& kind, Shadow& shadow, bool unchanged);
  // Notes a call of the shadow, or null, that became NCCL's on all ranks: it is not counted, and
  // the next one of the shadow is a first one.
  void take_back(const ShadowKind& kind, Shadow* shadow, plan::Gathers gathers);

  // Checks under way, each with its parts in visible memory.
  codec::Checksum& check(size_t i);
  // Samples, in the backend's memory; and their way there, which an enqueued copy reads.
  static constexpr size_t kSampled = 1024;  // elements
  void* room();
  std::vector<Copy> copies;

  size_t kinds() const { return kinds_.size(); }
  // Bytes of all shadows, from any thread, for the report.
  size_t bytes() const { return bytes_; }
  size_t differences() const { return differences_; }
  size_t unchanged() const { return unchanged_; }
  size_t in_full(InFull why) const { return in_full_[static_cast<size_t>(why)]; }

 private:
  struct Kind {
    std::list<Shadow> shadows;
    uint64_t ids = 0, calls = 0;
    size_t failures = 0;  // since the last call of differences
    size_t fewest = 0;
    bool passed_by = false;
    bool proven = false;  // had a call of differences
    uint64_t round = 0;   // last round with a call of the kind
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
