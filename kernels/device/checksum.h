// The check of memory, in parts: each thread block gives that of the words that are its own.
#pragma once

#include "codec/checksum.h"
#include "kernels/arch/arch.h"
#include "kernels/arch/block_reduction.h"
#include "kernels/device/batch.h"
#include "kernels/device/partial_sums.h"
#include "kernels/device/vec8.h"

namespace terse::kernels {

using codec::Seen;
using ChecksumSum = simt::BlockReduction<Seen, kThreads>;

struct IncludeSeen {
  TERSE_DEVICE void operator()(Seen& seen, const Seen& more) const { codec::include(seen, more); }
};

// Sixteen bytes at a time, of any memory whose parts have even numbers of them.
using CheckedVec8 = Vec8<codec::bfloat_t>;
static_assert(kCheckedBytes == sizeof(CheckedVec8));
constexpr uint64_t kCheckedWords = kCheckedBytes / 4;

struct CheckedPiece {
  const uint8_t* data;
  uint64_t bytes, first;  // the number of its first word
};

// The n elements of a vec8 whose first word has number `first`.
TERSE_DEVICE void see_vec8(const CheckedVec8& vec8, uint32_t n, uint64_t first,
                           const codec::ExtremeBits& bits, Seen& seen) {
  TERSE_UNROLL
  for (uint32_t k = 0; k < kCheckedWords; ++k) {
    if (2 * k >= n) continue;
    const uint32_t word = vec8.quad[0].w[k] & (2 * k + 1 < n ? ~0u : 0xffffu);
    codec::include(seen, {codec::check_of_word(word, first + k), bits(word)});
  }
}

// Sums vectors of 8 at any address, one in each row: loads all of them before it uses any.
template <Access access>
TERSE_DEVICE void see_rows(const CheckedPiece& piece, uint64_t first, uint64_t step,
                           const codec::ExtremeBits& bits, Seen& seen) {
  CheckedVec8 vec8[kRows];
  uint32_t n[kRows];
  TERSE_UNROLL
  for (uint32_t j = 0; j < kRows; ++j) {
    const uint64_t at = (first + j * step) * kCheckedBytes;
    const uint64_t left = at < piece.bytes ? piece.bytes - at : 0;
    n[j] = access == Access::kWhole || left > kCheckedBytes
               ? kVec8
               : static_cast<uint32_t>(left / sizeof(codec::bfloat_t));
    vec8[j] = load_vec8<codec::bfloat_t, access>(piece.data + at, n[j]);
  }
  TERSE_UNROLL
  for (uint32_t j = 0; j < kRows; ++j)
    see_vec8(vec8[j], n[j], piece.first + (first + j * step) * kCheckedWords, bits, seen);
}

// Every `step`-th vec8 of a piece, from number `vec8` on.
TERSE_DEVICE void see_piece(const CheckedPiece& piece, uint64_t vec8, uint64_t step,
                            const codec::ExtremeBits& bits, Seen& seen) {
  const uint64_t whole = is_aligned<Quad>(piece.data) ? piece.bytes / kCheckedBytes : 0;
  for (; vec8 + (kRows - 1) * step < whole; vec8 += kRows * step)
    see_rows<Access::kWhole>(piece, vec8, step, bits, seen);
  for (; vec8 * kCheckedBytes < piece.bytes; vec8 += kRows * step)
    see_rows<Access::kAny>(piece, vec8, step, bits, seen);
}

// Stores the thread block's part, of which thread 0 has the sum; zeroes the parts that no thread
// block has.
TERSE_DEVICE void store_parts(const codec::Checksum& work, Seen seen) {
  if (simt::thread_index() != 0) seen = {0, 0};
  for (uint32_t part = simt::block_index() + simt::thread_index() * simt::grid_size();
       part < work.part_count; part += kThreads * simt::grid_size()) {
    simt::store(&work.parts[part], seen.sum);
    if (work.extreme != nullptr) simt::store(&work.extreme[part], seen.extreme);
    seen = {0, 0};
  }
}

// Runs on up to part_count blocks of kThreads threads. Of samples a block looks at one alone, or at
// few, so that all loads are in flight at once.
TERSE_DEVICE void checksum(const codec::Checksum& work, ChecksumSum::Shared& shared) {
  const uint32_t most = work.count < simt::grid_size() ? work.count : simt::grid_size();
  const uint32_t teams = work.are_samples ? most : 1;
  const uint32_t team = simt::block_index() % teams, member = simt::block_index() / teams;
  const uint32_t members = (simt::grid_size() - team + teams - 1) / teams;
  const uint64_t vec8 = uint64_t{member} * kThreads + simt::thread_index();
  const uint64_t step = uint64_t{members} * kThreads;
  Seen mine{0, 0};
  for (uint32_t i = team; i < work.count; i += teams) {
    const codec::CheckedPieces& of = work.of[i];
    for (uint64_t p = 0; p < of.pieces; ++p)
      see_piece({static_cast<const uint8_t*>(of.data) + p * of.bytes, of.bytes,
                 of.first + p * codec::check_words(of.bytes)},
                vec8, step, work.bits, mine);
  }
  store_parts(work, ChecksumSum::reduce(shared, mine, IncludeSeen{}));
}

}  // namespace terse::kernels
