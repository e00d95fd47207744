// Turns the places of a plan into addresses.
#pragma once

#include "engine/run/work.h"

namespace terse {

// The memory of a call, beside the caller's buffers.
struct Regions {
  char* scratch = nullptr;
  char* exact = nullptr;
  char* state = nullptr;
  float* codebook = nullptr;
};

char* address(const plan::Place& place, const Request& request, const Regions& regions);

// What NCCL is called with for it, on no stream yet.
Request request_of(const plan::Native& native, const Request& call, const Regions& regions);

// Fills the binding, whose memory is reused from call to call, and makes it busy.
// `sequence` is the call's on its communicator, for the random numbers.
void bind(const plan::Plan& plan, const Work& work, uint64_t sequence, const Regions& regions,
          Binding& binding);

}  // namespace terse
