// The tables of levels (codec/codebook.h) that one communicator's calls of learned codecs go by:
// one for each kind of call, which all ranks hold alike.
#pragma once

#include <atomic>
#include <compare>
#include <cstdint>
#include <map>

#include "backend/backend.h"
#include "codec/spec.h"
#include "engine/comm/track.h"
#include "plan/collective.h"
#include "policy/scheme.h"

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
  uint64_t calls = 0;      // that have gone by it
  uint64_t fits = 0;       // of its levels, which were equally far from each other before
  bool agreed = false;     // all ranks have it
};

// Released at its end, when no call uses it any more.
class Codebooks {
 public:
  explicit Codebooks(Backend& backend) : backend_(backend) {}
  ~Codebooks();
  Codebooks(const Codebooks&) = delete;
  Codebooks& operator=(const Codebooks&) = delete;

  // Makes the table, of levels that are equally far from each other, unless it is there. Blocks for
  // what is enqueued on the track. Throws Error.
  void make(const CodebookKind& kind, Track& track);

  // All ranks have it.
  void agree(const CodebookKind& kind) { all_.at(kind).agreed = true; }

  // Null where not all ranks have it.
  Codebook* find(const CodebookKind& kind);

  // Of all of them.
  size_t bytes() const { return bytes_; }

 private:
  Backend& backend_;
  std::map<CodebookKind, Codebook> all_;
  std::atomic<size_t> bytes_{0};
};

}  // namespace terse
