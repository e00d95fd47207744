// Elements of a message that stay exact (terseCommExclude): NCCL carries them too, natively, to a
// place aside, before the plan runs; when the plan is done, they overwrite what it made of them. So
// the plan and its wire format know nothing of them. QSDP keeps norms and biases out of its
// quantization like this (qsdp, section 5; their share of the bytes is small).
#pragma once

#include <memory_resource>
#include <span>
#include <vector>

#include "engine/executor.h"

namespace terse {

// A part of what is excluded from a call that is one native call: of one rank's piece, where the
// call has pieces.
struct Segment {
  int owner;            // of the piece
  size_t first, count;  // elements of the whole message
  size_t aside, bytes;  // where its result is put, within the memory for all segments
};

// Of the job's call, in order; none for collectives that exclude nothing.
void find_segments(const Job& job, std::pmr::vector<Segment>& segments);

// Bytes of memory for the results of them all; the same on every rank.
size_t aside_bytes(const Job& job);

// The native call whose result comes to `aside`.
Request native_call(const Request& request, const Segment& segment, void* aside);

// Where this rank wants the segment's result; null: nowhere.
void* result_place(const Job& job, const Segment& segment);

// What this rank sends for the segments.
plan::Traffic native_traffic(const Job& job, std::span<const Segment> segments);

// terseCommExclude: throws Error, and then nothing has changed on any rank. Where one rank's ranges
// cannot be, the call is an error on all of them.
void exclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges, size_t count);

}  // namespace terse
