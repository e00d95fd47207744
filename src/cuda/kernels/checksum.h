// The check of memory, in parts: each thread block gives that of the words that are its own.
#pragma once

#include "batch.h"
#include "block_reduction.h"
#include "codec/checksum.h"
#include "leaf.h"
#include "octet.h"
#include "parts.h"

namespace terse::kernels {

using codec::Seen;
static_assert(kThreads == codec::kCheckParts);  // each thread has one
using ChecksumSum = simt::BlockReduction<Seen, kThreads>;

struct IncludeSeen {
  TERSE_DEVICE void operator()(Seen& seen, const Seen& more) const { codec::include(seen, more); }
};

// Sixteen bytes at a time, of any memory whose parts have even numbers of them.
using CheckedOctet = Octet<codec::bfloat_t>;
static_assert(kCheckedBytes == sizeof(CheckedOctet));
constexpr uint64_t kCheckedWords = kCheckedBytes / 4;

// The octet of `left` bytes or more, whose first word has number `first`.
template <Access access>
TERSE_DEVICE void see_octet(const uint8_t* at, uint64_t left, uint64_t first,
                            const codec::NonfiniteBits& bits, Seen& seen) {
  const uint32_t n = access == Access::kWhole || left > kCheckedBytes
                         ? kOctet
                         : static_cast<uint32_t>(left / sizeof(codec::bfloat_t));
  const CheckedOctet octet = load_octet<codec::bfloat_t, access>(at, n);
  TERSE_UNROLL
  for (uint32_t k = 0; k < kCheckedWords; ++k) {
    if (2 * k >= n) continue;
    const uint32_t word = octet.quad[0].w[k] & (2 * k + 1 < n ? ~0u : 0xffffu);
    codec::include(seen, {codec::check_of_word(word, first + k), bits(word)});
  }
}

// Every `step`-th octet of a piece, from number `octet` on.
TERSE_DEVICE void see_piece(const uint8_t* piece, uint64_t bytes, uint64_t first, uint64_t octet,
                            uint64_t step, const codec::NonfiniteBits& bits, Seen& seen) {
  const uint64_t whole = is_aligned<Quad>(piece) ? bytes / kCheckedBytes : 0;
  for (; octet < whole; octet += step)
    see_octet<Access::kWhole>(piece + octet * kCheckedBytes, kCheckedBytes,
                              first + octet * kCheckedWords, bits, seen);
  for (; octet * kCheckedBytes < bytes; octet += step)
    see_octet<Access::kAny>(piece + octet * kCheckedBytes, bytes - octet * kCheckedBytes,
                            first + octet * kCheckedWords, bits, seen);
}

// By blocks of kThreads threads, at most kCheckParts of them.
TERSE_DEVICE void checksum(const codec::Checksum& work, ChecksumSum::Shared& shared) {
  const uint64_t octet = uint64_t{simt::block_index()} * kThreads + simt::thread_index();
  const uint64_t step = uint64_t{simt::grid_size()} * kThreads;
  Seen mine{0, 0};
  for (uint32_t i = 0; i < work.count; ++i) {
    const codec::CheckedPieces& of = work.of[i];
    for (uint64_t p = 0; p < of.pieces; ++p)
      see_piece(static_cast<const uint8_t*>(of.data) + p * of.bytes, of.bytes,
                of.first + p * codec::check_words(of.bytes), octet, step, work.bits, mine);
  }
  Seen seen = ChecksumSum::reduce(shared, mine, IncludeSeen{});
  if (simt::thread_index() != 0) seen = {0, 0};  // of the parts that no thread block has
  const uint32_t part = simt::block_index() + simt::thread_index() * simt::grid_size();
  if (part >= codec::kCheckParts) return;
  simt::store(&work.parts[part], seen.sum);
  if (work.nonfinite != nullptr) simt::store(&work.nonfinite[part], seen.nonfinite);
}

// The sum of the parts, once they are there: by a block of kThreads threads.
TERSE_DEVICE void sum_checks(const codec::Checksum& work, ChecksumSum::Shared& shared) {
  const Seen mine{simt::load(&work.parts[simt::thread_index()]), 0};
  const Seen sum = ChecksumSum::reduce(shared, mine, IncludeSeen{});
  if (simt::thread_index() == 0) simt::store(work.total, sum.sum);
}

}  // namespace terse::kernels
