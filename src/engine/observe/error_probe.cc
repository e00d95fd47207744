#include "engine/observe/error_probe.h"

#include <algorithm>

#include "codec/codec.h"
#include "codec/draw.h"
#include "codec/layout.h"

namespace terse {
namespace {

constexpr size_t kElements = size_t{16} << 10;           // of a probe, at most
constexpr size_t kPackedBytes = 8 * kElements;           // of any scheme, with its parameters
constexpr size_t kBytes = kPackedBytes + 4 * kElements;  // and of decoded elements

// First element of a probe of n elements.
size_t place_of(const SentElements& sent, size_t n, size_t block, uint64_t number) {
  const size_t places = (sent.count - n) / block + 1;
  return codec::splitmix64(number) % places * block;
}

}  // namespace

ErrorProbe::~ErrorProbe() { backend_.release(memory_); }

void ErrorProbe::enqueue(Stream stream, const codec::Spec& spec, const SentElements& sent,
                         uint64_t number, Sample& sample) {
  if (sent.count == 0 || busy_.load()) return;
  backend_.load();
  if (memory_ == nullptr) memory_ = backend_.allocate(kBytes);
  const size_t block = spec.block, n = std::min(sent.count, kElements / block * block);
  const auto* const from = static_cast<const char*>(sent.data) +
                           place_of(sent, n, block, number) * codec::dtype_size(sent.dtype);
  char* const packed = static_cast<char*>(memory_);
  char* const decoded = packed + kPackedBytes;
  sources_ = {{from, sent.dtype}, {packed, spec}};
  const codec::Draw draw = codec::make_draw({.sequence = number});
  encode_ = {
      {.sources = {&sources_[0], 1}, .target = {packed, spec, draw}, .total = n, .count = n}};
  decode_ = {
      {.sources = {&sources_[1], 1}, .target = {decoded, sent.dtype}, .total = n, .count = n}};
  busy_.store(true);
  backend_.combine(stream, encode_, nullptr);
  backend_.combine(stream, decode_, nullptr);
  sample.compare(stream, decoded, from, n, sent.dtype);
  backend_.notify(
      stream, [](void* busy) { static_cast<std::atomic<bool>*>(busy)->store(false); }, &busy_);
}

}  // namespace terse
