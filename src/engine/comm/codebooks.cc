#include "engine/comm/codebooks.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <memory>
#include <utility>

#include "base/log.h"
#include "base/patient_lock.h"
#include "codec/codebook.h"
#include "codec/float_mode.h"

namespace terse {
namespace {

size_t levels_bytes(const CodebookKind& kind) {
  return codec::codebook_levels(kind.spec.bits) * sizeof(float);
}

Levels uniform_levels(int bits) {
  const codec::DefaultFloatMode mode;  // alike on all ranks
  const float* const table = codec::uniform_codebook(bits);
  return {.calls = 0, .at = {table, table + codec::codebook_levels(bits)}};
}

}  // namespace

Codebooks::~Codebooks() {
  for (auto& [kind, codebook] : all_) release(codebook);
}

void Codebooks::release(Codebook& codebook) noexcept {
  if (codebook.table != nullptr) backend_.release(codebook.table);
  for (float* const table : codebook.recorded_) backend_.release(table);
  backend_.release_visible(codebook.visible_);
  if (codebook.copied_ != nullptr) backend_.destroy_event(codebook.copied_);
}

const Levels* Codebooks::given_for(const CodebookKind& kind) const {
  const auto given = std::ranges::find_if(given_, [&](const Levels& levels) {
    return levels.fit(kind.collective, kind.count, kind.dtype, kind.spec);
  });
  return given != given_.end() ? &*given : nullptr;
}

void Codebooks::say_that_none_fit(const CodebookKind& kind) const {
  for (const Levels& levels : given_) {
    codec::Spec of_their_width = kind.spec;
    of_their_width.bits = static_cast<uint8_t>(levels.bits());
    if (!levels.fit(kind.collective, kind.count, kind.dtype, of_their_width)) continue;
    log(LogLevel::kWarn,
        "levels of {} bits were given for {}s of {} elements, whose codes have {}: these begin "
        "with levels that are equally far from each other",
        levels.bits(), plan::name(kind.collective), kind.count, kind.spec.bits);
    return;
  }
}

void Codebooks::upload(Codebook& codebook, const Levels& levels, Stream stream) {
  const codec::DefaultFloatMode mode;
  std::vector<float> table = levels.at;
  table.resize(codec::codebook_floats(levels.bits()));
  for (size_t i = 0; i < levels.at.size(); ++i)
    codec::complete_codebook(table.data(), levels.bits(), i);
  const size_t bytes = table.size() * sizeof(float);
  backend_.upload(stream, codebook.table, table.data(), bytes);
  for (float* const recorded : codebook.recorded_)
    backend_.upload(stream, recorded, table.data(), bytes);
  codebook.recorded_fits_.reset();
  backend_.synchronize(stream);
  codebook.calls = levels.calls;
  codebook.fits = codebook.known_fits_ = codebook.given_fits_ = levels.fits;
  codebook.goes_on_ = levels.collective && levels.count && levels.dtype && levels.spec;
  codebook.known_ = levels.at;
}

void Codebooks::make(const CodebookKind& kind, StreamSet& track) {
  if (all_.contains(kind)) return;
  const size_t bytes = codec::codebook_bytes(kind.spec.bits);
  const std::lock_guard lock(mutex_);
  Codebook& made = all_[kind];
  try {
    made.table = static_cast<float*>(backend_.allocate(bytes));
    made.visible_ = backend_.allocate_visible(levels_bytes(kind));
    made.copied_ = backend_.create_timer();
    made.copy_ = {{made.visible_, made.table, levels_bytes(kind)}};
    const Levels* const given = given_for(kind);
    if (given == nullptr) say_that_none_fit(kind);
    upload(made, given != nullptr ? *given : uniform_levels(kind.spec.bits), track.lanes().front());
  } catch (...) {
    release(made);
    all_.erase(kind);
    throw;
  }
  bytes_ += bytes;
}

Codebook* Codebooks::find(const CodebookKind& kind) {
  const auto known = all_.find(kind);
  return known != all_.end() && known->second.agreed ? &known->second : nullptr;
}

std::unique_ptr<CUstream_st, std::function<void(Stream)>> Codebooks::make_stream() {
  return {backend_.create_stream(nullptr), [&](Stream s) { backend_.destroy_stream(s); }};
}

float* Codebooks::recorded(Codebook& codebook, StreamSets& tracks) {
  if (codebook.recorded_fits_ == codebook.fits) return codebook.recorded_.back();
  tracks.synchronize();
  const int bits = std::countr_zero(codebook.known_.size());
  std::vector<float> table(codec::codebook_floats(bits));
  const size_t bytes = table.size() * sizeof(float);
  const auto stream = make_stream();
  backend_.download(stream.get(), table.data(), codebook.table, bytes);
  codebook.recorded_.reserve(codebook.recorded_.size() + 1);
  float* const copy =
      codebook.recorded_.emplace_back(static_cast<float*>(backend_.allocate(bytes)));
  bytes_ += bytes;
  backend_.upload(stream.get(), copy, table.data(), bytes);
  backend_.synchronize(stream.get());
  codebook.recorded_fits_ = codebook.fits;
  return copy;
}

void Codebooks::give(std::vector<Levels> levels) {
  collect();
  const std::lock_guard lock(mutex_);
  given_ = std::move(levels);
  // Drops tables that not all ranks have: they would hold other levels than those made later.
  for (auto i = all_.begin(); i != all_.end();) {
    auto& [kind, codebook] = *i;
    if (codebook.agreed) {
      ++i;
      continue;
    }
    release(codebook);
    bytes_ -= codec::codebook_bytes(kind.spec.bits);
    i = all_.erase(i);
  }
  if (all_.empty()) return;
  const auto stream = make_stream();
  for (auto& [kind, codebook] : all_)
    if (const Levels* const given = given_for(kind)) upload(codebook, *given, stream.get());
}

void Codebooks::fitted(Codebook& codebook, Stream stream) {
  const std::lock_guard lock(mutex_);
  backend_.copy(stream, codebook.copy_);
  backend_.record(codebook.copied_, stream);
  codebook.copied_fits_ = codebook.fits;
  if (std::ranges::count(coming_, &codebook) == 0) coming_.push_back(&codebook);
}

// Never fails a call for levels that cannot be read.
bool Codebooks::collect() noexcept try {
  const auto lock = patient_lock(mutex_);
  if (!lock.owns_lock()) return false;
  const auto has_come = [&](const Codebook* codebook) {
    return backend_.seconds(codebook->copied_, codebook->copied_).has_value();
  };
  const auto first = std::partition(coming_.begin(), coming_.end(), std::not_fn(has_come));
  if (first == coming_.end()) return false;
  for (auto i = first; i != coming_.end(); ++i) {
    Codebook& codebook = **i;
    const float* const levels = static_cast<const float*>(codebook.visible_);
    codebook.known_.assign(levels, levels + codebook.known_.size());
    codebook.known_fits_ = codebook.copied_fits_;
  }
  coming_.erase(first, coming_.end());
  return true;
} catch (const std::exception& e) {
  log(LogLevel::kInfo, "levels were not read: {}", e.what());
  return false;
}

std::vector<Levels> Codebooks::levels_of(bool (*wanted)(const Codebook&)) const {
  std::vector<Levels> all;
  const auto lock = patient_lock(mutex_);
  if (!lock.owns_lock()) return all;
  for (const auto& [kind, codebook] : all_) {
    if (!wanted(codebook)) continue;
    all.push_back({.collective = kind.collective,
                   .count = kind.count,
                   .dtype = kind.dtype,
                   .spec = kind.spec,
                   .calls = codebook.calls,
                   .fits = codebook.known_fits_,
                   .at = codebook.known_});
  }
  return all;
}

std::vector<Levels> Codebooks::levels() const {
  return levels_of([](const Codebook&) { return true; });
}

std::vector<Levels> Codebooks::fitted_levels() const {
  return levels_of([](const Codebook& c) { return c.known_fits_ != c.given_fits_; });
}

std::vector<Levels> Codebooks::continued_levels() const {
  return levels_of([](const Codebook& c) { return c.goes_on_ && c.known_fits_ == c.given_fits_; });
}

}  // namespace terse
