// Observation of a program's NCCL calls (TERSE_OBSERVE): they go to NCCL as they are, in the
// program's own order and groups, and are counted with what their schemes would have sent, the time
// that NCCL took, and the error of the scheme on samples of what was sent.
//
// Nothing here fails a call, or waits for other ranks.
#pragma once

#include "engine/call/route.h"

namespace terse {

// Begins to observe a call that would be compressed, before NCCL has it: of the thread's group, or
// alone.
void observe(const CommunicatorPointer& communicator, const Request& request,
             const Route& route) noexcept;

// Begins to measure a call that goes to NCCL for some reason (TERSE_BYPASS), where calls are traced
// (TERSE_TRACE). Of a group's calls on one communicator and stream the first stands for all.
void trace_native(const CommunicatorPointer& communicator, const Request& request,
                  int reason) noexcept;

// Ends the thread's observations when NCCL has the calls; `result`: that of the call, or of the
// group's end.
void end_observations(ncclResult_t result) noexcept;

}  // namespace terse
