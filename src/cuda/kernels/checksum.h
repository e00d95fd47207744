// The check of memory, in parts: each thread block gives that of the words that are its own.
#pragma once

#include "batch.h"
#include "block_reduction.h"
#include "codec/checksum.h"
#include "leaf.h"
#include "octet.h"

namespace terse::kernels {

using ChecksumSum = simt::BlockReduction<uint64_t, kThreads>;

// Sixteen bytes at a time, of any memory whose parts have even numbers of them.
using CheckedOctet = Octet<codec::bfloat_t>;
constexpr uint64_t kCheckedBytes = sizeof(CheckedOctet), kCheckedWords = kCheckedBytes / 4;

// The octet of `left` bytes or more, whose first word has number `first`.
template <Access access>
TERSE_DEVICE uint64_t check_of_octet(const uint8_t* at, uint64_t left, uint64_t first) {
  const uint32_t n = access == Access::kWhole || left > kCheckedBytes
                         ? kOctet
                         : static_cast<uint32_t>(left / sizeof(codec::bfloat_t));
  const CheckedOctet octet = load_octet<codec::bfloat_t, access>(at, n);
  uint64_t sum = 0;
  TERSE_UNROLL
  for (uint32_t k = 0; k < kCheckedWords; ++k)
    if (2 * k < n) sum += codec::check_of_word(octet.quad[0].w[k], first + k);
  return sum;
}

// Every `step`-th octet of a piece, from number `octet` on.
TERSE_DEVICE uint64_t check_of_piece(const uint8_t* piece, uint64_t bytes, uint64_t first,
                                     uint64_t octet, uint64_t step) {
  uint64_t sum = 0;
  const uint64_t whole = is_aligned<Quad>(piece) ? bytes / kCheckedBytes : 0;
  for (; octet < whole; octet += step)
    sum += check_of_octet<Access::kWhole>(piece + octet * kCheckedBytes, kCheckedBytes,
                                          first + octet * kCheckedWords);
  for (; octet * kCheckedBytes < bytes; octet += step)
    sum +=
        check_of_octet<Access::kAny>(piece + octet * kCheckedBytes, bytes - octet * kCheckedBytes,
                                     first + octet * kCheckedWords);
  return sum;
}

// By a block of kThreads threads.
TERSE_DEVICE void checksum(const codec::Checksum& work, ChecksumSum::Shared& shared) {
  const uint64_t octet = uint64_t{simt::block_index()} * kThreads + simt::thread_index();
  const uint64_t step = uint64_t{simt::grid_size()} * kThreads;
  uint64_t mine = 0;
  for (uint32_t i = 0; i < work.count; ++i) {
    const codec::CheckedPieces& of = work.of[i];
    for (uint64_t p = 0; p < of.pieces; ++p)
      mine += check_of_piece(static_cast<const uint8_t*>(of.data) + p * of.bytes, of.bytes,
                             of.first + p * codec::check_words(of.bytes), octet, step);
  }
  const uint64_t sum =
      ChecksumSum::reduce(shared, mine, [](uint64_t& s, const uint64_t& more) { s += more; });
  if (simt::thread_index() == 0) simt::store(&work.parts[simt::block_index()], sum);
}

// The sum of the parts, once they are there: by a block of kThreads threads.
TERSE_DEVICE void sum_checks(const codec::Checksum& work, ChecksumSum::Shared& shared) {
  static_assert(kThreads == codec::kCheckParts);
  const uint64_t mine = simt::load(&work.parts[simt::thread_index()]);
  const uint64_t sum =
      ChecksumSum::reduce(shared, mine, [](uint64_t& s, const uint64_t& more) { s += more; });
  if (simt::thread_index() == 0) simt::store(work.total, sum);
}

}  // namespace terse::kernels
