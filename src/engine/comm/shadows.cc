#include "engine/comm/shadows.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <utility>

#include "base/error.h"
#include "codec/float_mode.h"

namespace terse {
namespace {

// Max shadows of a kind. Programs with more buffers of one size and type begin anew with the
// oldest.
constexpr size_t kMaxShadows = 256;

// Kinds of which no call came back.
constexpr std::ptrdiff_t kMaxUnproven = 32;

// A training step changes most weights by much less than a quarter; in another layer most are
// others.
constexpr double kNear = 1.0 / 4;

double square(double x) { return x * x; }

// The mean over elements of the square of what part of each has changed, of those that are not 0
// before and after: 1 for what has changed wholly or is not a number. So a few large elements that
// are alike in all layers, as the weights of norms are, say nothing of the others.
double distance(std::span<const float> last, std::span<const float> now) {
  const codec::DefaultFloatMode mode;
  if (last.size() != now.size()) return std::numeric_limits<double>::infinity();
  double changed = 0;
  size_t seen = 0;
  for (size_t i = 0; i < now.size(); ++i) {
    if (last[i] == now[i]) {
      seen += now[i] != 0 ? 1 : 0;
      continue;
    }
    const double change = square(static_cast<double>(now[i]) - last[i]), whole = square(now[i]);
    changed += change < whole ? change / whole : 1;
    ++seen;
  }
  return seen == 0 ? 0 : changed / static_cast<double>(seen);
}

}  // namespace

size_t shadow_room(size_t bytes) {
  const size_t step = std::max<size_t>(std::bit_floor(bytes) / 4, 1);
  return (bytes + step - 1) / step * step;
}

bool is_near(std::span<const float> last, std::span<const float> now) {
  return distance(last, now) < kNear;
}

Shadows::~Shadows() {
  for (auto& [which, kind] : kinds_) free(kind);
  for (const codec::Checksum& check : checks_) backend_.release_visible(check.parts);
  if (room_ != nullptr) backend_.release(room_);
}

void Shadows::release(const Shadow& shadow) {
  if (shadow.memory == nullptr) return;
  backend_.release(shadow.memory);
  bytes_ -= shadow.bytes;
}

void Shadows::free(Kind& kind) {
  for (const Shadow& shadow : kind.shadows) release(shadow);
  kind.shadows.clear();
}

void Shadows::free(const ShadowKind& kind) { free(kinds_[kind]); }

bool Shadows::is_unproven(const Kind& kind) const {
  return !kind.proven && !kind.shadows.empty() && kind.round != round_;
}

bool Shadows::has_many_unproven(const ShadowKind& but) const {
  const auto counts = [&](const auto& one) { return one.first != but && is_unproven(one.second); };
  return std::ranges::count_if(kinds_, counts) >= kMaxUnproven;
}

void Shadows::free_one_unproven(const ShadowKind& but) {
  Kind* oldest = nullptr;
  for (auto& [which, kind] : kinds_)
    if (which != but && is_unproven(kind) && (oldest == nullptr || kind.round < oldest->round))
      oldest = &kind;
  if (oldest != nullptr) free(*oldest);
}

bool Shadows::is_stale(const Kind& kind, const Shadow& shadow) {
  return kind.calls - shadow.used > 256 + 64 * kind.shadows.size();
}

bool Shadows::has_stale(const ShadowKind& which) const {
  const Kind& kind = kinds_.at(which);
  return std::ranges::any_of(kind.shadows, [&](const Shadow& s) { return is_stale(kind, s); });
}

void Shadows::free_stale(const ShadowKind& which) {
  Kind& kind = kinds_.at(which);
  for (auto shadow = kind.shadows.begin(); shadow != kind.shadows.end();) {
    const bool stale = is_stale(kind, *shadow);
    if (stale) release(*shadow);
    shadow = stale ? kind.shadows.erase(shadow) : std::next(shadow);
  }
}

// Chooses by when a kind was noted, which all ranks have alike; what a rank has of the kind may
// differ.
const ShadowKind* Shadows::superfluous(const ShadowKind& next) const {
  if (kinds_.size() < kMaxKinds || kinds_.contains(next)) return nullptr;
  const std::pair<const ShadowKind, Kind>* oldest = nullptr;
  size_t unproven = 0;
  for (const auto& one : kinds_) {
    if (one.second.proven) continue;
    ++unproven;
    if (one.second.round != round_ &&
        (oldest == nullptr || one.second.round < oldest->second.round))
      oldest = &one;
  }
  return unproven < kMaxKinds || oldest == nullptr ? nullptr : &oldest->first;
}

void Shadows::drop(const ShadowKind& kind) {
  const auto known = kinds_.find(kind);
  free(known->second);
  kinds_.erase(known);
}

size_t Shadows::count(const ShadowKind& kind) const {
  const auto known = kinds_.find(kind);
  return known == kinds_.end() ? 0 : known->second.shadows.size();
}

bool Shadows::gave_up(const ShadowKind& kind) const {
  const auto known = kinds_.find(kind);
  return known != kinds_.end() && known->second.failures > 16 + 4 * known->second.fewest;
}

Shadow* Shadows::find(const ShadowKind& which, const void* buffer) {
  Kind& kind = kinds_[which];
  for (Shadow& shadow : kind.shadows) {
    if (shadow.buffer != buffer || is_taken(shadow)) continue;
    shadow.round = round_;
    return &shadow;
  }
  return nullptr;
}

Shadow* Shadows::find(const ShadowKind& which, std::span<const float> sample) {
  Kind& kind = kinds_[which];
  Shadow* best = nullptr;
  double least = kNear;
  for (Shadow& shadow : kind.shadows) {
    if (is_taken(shadow)) continue;
    const double d = distance(shadow.sample, sample);
    if (d < least || (best != nullptr && d == least && shadow.used < best->used)) {
      best = &shadow;
      least = d;
    }
  }
  if (best != nullptr) best->round = round_;
  return best;
}

Shadow& Shadows::place_for_one_more(Kind& kind) {
  Shadow* oldest = nullptr;
  if (kind.shadows.size() >= kMaxShadows)
    for (Shadow& shadow : kind.shadows)
      if (!is_taken(shadow) && (oldest == nullptr || shadow.used < oldest->used)) oldest = &shadow;
  Shadow& place = oldest != nullptr ? *oldest : kind.shadows.emplace_back();
  place.round = round_;
  return place;
}

void Shadows::touch(Kind& kind, Shadow& shadow) { shadow.used = ++kind.calls; }

// Allocates as much as the shadow's room, or else just enough. If there is no memory, either the
// call does without, and the next one asks again.
void Shadows::allocate(Shadow& shadow, size_t bytes) {
  for (const size_t size : {shadow_room(bytes), bytes}) try {
      shadow.memory = backend_.allocate(size);
      shadow.bytes = size;
      bytes_ += size;
      return;
    } catch (const Error&) {
      if (size == bytes) return;
    }
}

Shadow& Shadows::renew(const ShadowKind& which, Shadow* found, size_t bytes, InFull why,
                       size_t fewest) {
  Kind& kind = kinds_[which];
  Shadow& shadow = found != nullptr ? *found : place_for_one_more(kind);
  if (shadow.memory == nullptr) allocate(shadow, bytes);
  shadow.id = shadow.memory == nullptr ? 0 : kind.ids + 1;
  ++kind.ids;
  shadow.calls = 0;
  shadow.overwritten = shadow.fell_back = false;
  touch(kind, shadow);
  kind.fewest = fewest;
  // True for ever new buffers, of which no one comes back.
  const bool lost = why == InFull::kFirst && fewest >= kMaxShadows;
  shadow.failed = why == InFull::kOthers || why == InFull::kMemory || lost;
  if (shadow.failed) ++kind.failures;
  shadow.why = why;
  ++in_full_[static_cast<size_t>(why)];
  return shadow;
}

bool Shadows::pass_by(const ShadowKind& which, Shadow* found) {
  ++in_full_[static_cast<size_t>(InFull::kNonfinite)];
  Kind& kind = kinds_[which];
  if (found != nullptr) {
    touch(kind, *found);
    if (which.delta.base == plan::Base::kInplace) {
      found->id = 0;
      found->overwritten = true;
    }
  }
  return !std::exchange(kind.passed_by, true);
}

bool Shadows::do_without(Shadow* found) {
  if (found != nullptr) forget(*found);
  return !std::exchange(did_without_, true);
}

void Shadows::forget(size_t elements) {
  for (auto& [which, kind] : kinds_)
    if (which.count * ranks_ == elements)
      for (Shadow& shadow : kind.shadows) forget(shadow);
}

// The next call of it is a first one.
void Shadows::forget(Shadow& shadow) {
  shadow.id = 0;
  shadow.fell_back = true;
}

void Shadows::use(const ShadowKind& which, Shadow& shadow, bool unchanged) {
  Kind& kind = kinds_[which];
  // Ignores what is gathered again as it was, in a backward pass, which need not come back after
  // that: activations do not.
  if (!unchanged) {
    kind.failures = 0;
    kind.proven = true;
  }
  ++shadow.calls;
  ++(unchanged ? unchanged_ : differences_);
  touch(kind, shadow);
}

void Shadows::take_back(const ShadowKind& which, Shadow* shadow, plan::Gathers gathers) {
  if (gathers == plan::Gathers::kInFull) {
    // Keeps nothing of a gather with extreme elements.
    const InFull why = shadow != nullptr ? shadow->why : InFull::kNonfinite;
    --in_full_[static_cast<size_t>(why)];
    size_t& failures = kinds_[which].failures;
    if (shadow != nullptr && shadow->failed && failures != 0) --failures;
  } else {
    --(gathers == plan::Gathers::kNothing ? unchanged_ : differences_);
  }
  if (shadow != nullptr) forget(*shadow);
}

codec::Checksum& Shadows::check(size_t i) {
  while (checks_.size() <= i) {
    constexpr size_t kParts = codec::kCheckParts;
    void* const memory = backend_.allocate_visible(kParts * (sizeof(uint64_t) + sizeof(uint32_t)));
    auto* const parts = static_cast<uint64_t*>(memory);
    checks_.push_back({.of = {},
                       .count = 0,
                       .parts = parts,
                       .extreme = reinterpret_cast<uint32_t*>(parts + kParts)});
  }
  return checks_[i];
}

void* Shadows::room() {
  if (room_ == nullptr) room_ = backend_.allocate(kSampled * sizeof(float));
  return room_;
}

}  // namespace terse
