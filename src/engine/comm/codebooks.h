// Tables of levels (codec/codebook.h) of one communicator's learned codecs: one for each kind of
// call, alike on all ranks.
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

// Kind of calls that share a table.
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
  bool agreed = false;     // on all ranks
  // Calls that have used the table, and fits of its levels. Written by the communicator's own
  // thread.
  std::atomic<uint64_t> calls{0}, fits{0};

 private:
  friend class Codebooks;
  // Tables of calls in graphs. Empty: none has the present levels.
  std::vector<float*> recorded_;
  std::optional<uint64_t> recorded_fits_;
  std::vector<float> known_;  // its levels, and their number of fits
  uint64_t known_fits_ = 0;
  uint64_t given_fits_ = 0;  // fits of the levels it began with, or that were given since
  bool goes_on_ = false;     // began with levels given for just these calls
  // Levels of an enqueued fit, on their way to the host.
  void* visible_ = nullptr;
  std::vector<Copy> copy_;
  Event copied_ = nullptr;
  uint64_t copied_fits_ = 0;
};

// All tables. Released at the communicator's end, when no call uses them any more.
class Codebooks {
 public:
  // The settings outlive it.
  Codebooks(Backend& backend, const Settings& settings)
      : backend_(backend), given_(settings.levels) {}
  ~Codebooks();
  Codebooks(const Codebooks&) = delete;
  Codebooks& operator=(const Codebooks&) = delete;

  // Makes the table unless it is there: of levels given for such calls, or of equally spaced ones.
  // Blocks for what is enqueued on the stream set. Throws Error.
  void make(const CodebookKind& kind, StreamSet& track);

  // Notes that all ranks have the table.
  void agree(const CodebookKind& kind) { all_.at(kind).agreed = true; }

  // Returns null if not all ranks have it.
  Codebook* find(const CodebookKind& kind);

  // Replaces the given levels, of present and later tables. No call may be under way. Blocks.
  // Throws Error.
  void give(std::vector<Levels> levels);

  // Table of a call in a graph, with the present levels: a later fit runs beside the graph, and
  // ranks would see it at different times. One table serves all calls recorded between two fits,
  // whose number is alike on all ranks. The first call after a fit blocks for what the communicator
  // has enqueued, which may be that fit. Throws Error.
  float* recorded(Codebook& codebook, StreamSets& tracks);

  // Copies the levels of an enqueued fit to the host, once the stream has come past it.
  void fitted(Codebook& codebook, Stream stream);
  // Takes the levels that have come to the host; returns true if there are any. May be called from
  // any thread.
  bool collect() noexcept;

  // Levels by kind, as the host knows them. May be called from any thread; empty if another one
  // holds them for long.
  std::vector<Levels> levels() const;
  // Levels that were fitted here; and levels that were given for just these calls, and that more
  // calls have used since.
  std::vector<Levels> fitted_levels() const;
  std::vector<Levels> continued_levels() const;

  // Bytes of all tables.
  size_t bytes() const { return bytes_; }

 private:
  std::vector<Levels> levels_of(bool (*wanted)(const Codebook&)) const;
  // Returns null if the table begins with equally spaced levels.
  const Levels* given_for(const CodebookKind& kind) const;
  void say_that_none_fit(const CodebookKind& kind) const;
  void release(Codebook& codebook) noexcept;
  void upload(Codebook& codebook, const Levels& levels, Stream stream);
  std::unique_ptr<CUstream_st, std::function<void(Stream)>> make_stream();

  Backend& backend_;
  std::vector<Levels> given_;
  // Guards what levels() and collect() read and another thread writes.
  mutable std::mutex mutex_;
  std::map<CodebookKind, Codebook> all_;
  std::vector<Codebook*> coming_;  // tables whose levels are on their way to the host
  std::atomic<size_t> bytes_{0};
};

}  // namespace terse
