// The tables of levels (codec/codebook.h) that one communicator's calls of learned codecs go by:
// one for each kind of call, which all ranks hold alike.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "backend/backend.h"
#include "codec/spec.h"
#include "engine/comm/stream_sets.h"
#include "plan/collective.h"
#include "policy/scheme.h"
#include "policy/settings.h"

namespace terse {

// Which calls have one table.
struct CodebookKind {
  plan::Collective collective;
  size_t count;
  codec::Dtype dtype;
  codec::Spec spec;
  Learn learn;

  auto operator<=>(const CodebookKind&) const = default;
};

struct Codebook {
  float* table = nullptr;  // in the backend's memory
  bool agreed = false;     // all ranks have it
  // Calls that have gone by it, and fits of its levels. Written by the communicator's own thread.
  std::atomic<uint64_t> calls{0}, fits{0};

 private:
  friend class Codebooks;
  // The tables of calls in graphs, and how often the last one's levels had been fitted; empty: none
  // is as the levels are now.
  std::vector<float*> recorded_;
  std::optional<uint64_t> recorded_fits_;
  std::vector<float> known_;  // its levels, and how often they had been fitted
  uint64_t known_fits_ = 0;
  uint64_t given_fits_ = 0;  // with which it began, or that came with levels given since
  bool goes_on_ = false;     // from levels that were given for just these calls
  // The levels of a fit that is enqueued, as they come to the host.
  void* visible_ = nullptr;
  std::vector<Copy> copy_;
  Event copied_ = nullptr;
  uint64_t copied_fits_ = 0;
};

// Released at its end, when no call uses it any more.
class Codebooks {
 public:
  // The settings outlive it.
  Codebooks(Backend& backend, const Settings& settings)
      : backend_(backend), given_(settings.levels) {}
  ~Codebooks();
  Codebooks(const Codebooks&) = delete;
  Codebooks& operator=(const Codebooks&) = delete;

  // Makes the table, unless it is there: of the levels that are given for such calls, or of those
  // that are equally far from each other. Blocks for what is enqueued on the track. Throws Error.
  void make(const CodebookKind& kind, StreamSet& track);

  // All ranks have it.
  void agree(const CodebookKind& kind) { all_.at(kind).agreed = true; }

  // Null where not all ranks have it.
  Codebook* find(const CodebookKind& kind);

  // In place of those that were given before, for tables that are there and for those to come. No
  // call may be under way. Blocks. Throws Error.
  void give(std::vector<Levels> levels);

  // The table that a call in a graph goes by, as the other is now: a fit may go on beside the
  // graph, and the ranks would see it at different times. One for all that are recorded between two
  // fits, whose number is alike on all ranks, whatever else each has recorded. At the first one
  // after a fit it blocks for what the communicator has enqueued, which may be that fit. Throws
  // Error.
  float* recorded(Codebook& codebook, StreamSets& tracks);

  // A fit is enqueued, and the stream comes past it: its levels come to the host.
  void fitted(Codebook& codebook, Stream stream);
  // Takes what has come; whether something has. Any thread, beside the communicator's own.
  bool collect() noexcept;

  // By kind, as they are known on the host. Any thread; none where another one has them for long.
  std::vector<Levels> levels() const;
  // The same of those that were fitted here, and not only given; and of those that were not, but
  // given for just these calls, of which more have been made.
  std::vector<Levels> fitted_levels() const;
  std::vector<Levels> continued_levels() const;

  // Of all tables.
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Levels> levels_of(bool (*wanted)(const Codebook&)) const;
  // Null: such a table begins with levels that are equally far from each other.
  const Levels* given_for(const CodebookKind& kind) const;
  void say_that_none_fit(const CodebookKind& kind) const;
  void release(Codebook& codebook) noexcept;
  void upload(Codebook& codebook, const Levels& levels, Stream stream);
  std::unique_ptr<CUstream_st, std::function<void(Stream)>> make_stream();

  Backend& backend_;
  std::vector<Levels> given_;
  // Of what levels() and collect() read, and another thread writes.
  mutable std::mutex mutex_;
  std::map<CodebookKind, Codebook> all_;
  std::vector<Codebook*> coming_;  // whose levels are on their way to the host
  std::atomic<size_t> bytes_{0};
};

}  // namespace terse
