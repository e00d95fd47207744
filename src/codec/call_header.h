// The header by which ranks compare their calls before any result is written (FORMAT.md, section
// 8).
#pragma once

#include <cstddef>
#include <cstdint>

#include "codec/portable.h"

namespace terse::codec {

// A call in eight words, of which all but the sender must be equal on all ranks.
struct CallHeader {
  static constexpr uint32_t kWords = 8;
  static constexpr uint32_t kMark = 0, kSender = 1, kKind = 2, kRoot = 3, kScheme = 4, kCount = 5;
  // 1 + a rank whose call differs from the sender's, which has found that before; 0: none.
  static constexpr uint32_t kFound = 7;

  uint32_t word[kWords];

  bool operator==(const CallHeader&) const = default;
};

// The first mismatch, in memory that the host can read.
struct Mismatch {
  uint32_t found;         // not 0: two calls that differ; written last
  uint32_t left;          // 1 + a rank that has left, for which a call waited; 0: none
  CallHeader own, other;  // if found
};

// A stage of the comparison. Memory has slots of a header each: the verdict, a word that is not 0
// where calls differ; the own header, which says so from then on to ranks that have had none of
// this rank yet; those received.
//
// Where the ranks agree on the largest words, two slots behind the own header stand for a received
// one: the largest words and the complements of the smallest.
struct HeaderWork {
  enum class Stage : uint8_t { kWrite, kCheck };
  static constexpr uint32_t kReceived = 2;  // slots before the received ones

  Stage stage;
  bool agreed;
  uint32_t first, count;  // received headers: those to check, or all to make room for
  CallHeader own;
  uint32_t* memory;
  Mismatch* report;
};

// Word of a slot in which nothing has been received: no header of any call has it.
TERSE_INLINE uint32_t first_word(const HeaderWork& work, uint32_t at) {
  const uint32_t slot = at / CallHeader::kWords, word = work.own.word[at % CallHeader::kWords];
  if (slot == 1) return word;
  if (slot == 0 || !work.agreed) return 0;
  return slot == HeaderWork::kReceived ? word : ~word;
}

TERSE_INLINE uint32_t words_of(const HeaderWork& work) {
  return (HeaderWork::kReceived + work.count) * CallHeader::kWords;
}

// Word at which a received header begins.
TERSE_INLINE uint32_t begin_of(uint32_t received) {
  return (HeaderWork::kReceived + received) * CallHeader::kWords;
}

// A word of the ranks of which the largest and the complement of the smallest are known: one that
// is not the own, if there is any.
TERSE_INLINE uint32_t other_word(uint32_t own, uint32_t largest, uint32_t complement) {
  return largest != own ? largest : ~complement;
}

TERSE_INLINE bool differs(const CallHeader& a, const CallHeader& b) {
  uint32_t bits = 0;
  for (uint32_t i = 0; i < CallHeader::kWords; ++i)
    if (i != CallHeader::kSender) bits |= a.word[i] ^ b.word[i];
  return bits != 0;
}

// Digest of what differs() compares.
TERSE_INLINE uint32_t digest(const CallHeader& header) {
  uint32_t sum = 0;
  for (uint32_t i = 0; i < CallHeader::kWords; ++i)
    if (i != CallHeader::kSender) sum = (sum ^ header.word[i]) * 0x9e3779b1u + (sum >> 15);
  return sum;
}

// Word by which a header says, from now on, that another rank's call differs: the sender's of one
// that does, or what that one has found before.
TERSE_INLINE uint32_t found_word(const CallHeader& own, CallHeader other) {
  const uint32_t before = other.word[CallHeader::kFound];
  other.word[CallHeader::kFound] = 0;
  return differs(own, other) ? other.word[CallHeader::kSender] + 1 : before;
}

// Returns true if it is the header of a call. Where NCCL has failed, none has come.
TERSE_INLINE bool is_header(const CallHeader& header) {
  return header.word[CallHeader::kMark] != 0;
}

// Does the work on the host. Returns false if calls differ, or if no header has come.
bool run(const HeaderWork& work);

// Keeps the first mismatch that is reported.
void report(Mismatch& mismatch, const CallHeader& own, const CallHeader& other);

// Returns true if a mismatch was found, and is complete.
bool is_found(const Mismatch& mismatch);

}  // namespace terse::codec
