/* hostnccl.h: what hostnccl offers beyond NCCL's interface: streams and events over host memory.
 *
 * A GPU program gets these from the CUDA runtime; here the library brings them itself. Every
 * function is thread safe, returns ncclInvalidArgument for a null argument it needs, and leaves its
 * text with ncclGetLastError(NULL).
 *
 * Settings: HOSTNCCL_TIMEOUT=<seconds> (default 30) bounds communicator creation and the silence of
 * a peer; HOSTNCCL_LAUNCHES=<number> (default 2) is how many launches of messages alone a
 * communicator has under way: with 1 they go one after another, as NCCL's kernels do, so that
 * programs hang here that would hang there. The NCCL_* variables of the bootstrap and the log, and
 * all of UCX's, are honoured.
 *
 * ncclCommFinalize and ncclCommDestroy return when the peers have what was sent to them, whether or
 * not they have asked for it: the process may then end in any way. ncclRemoteError: a peer that is
 * there has not confirmed it for twice the timeout. A send whose receiver is late counts as done
 * while no more than some 4 MiB wait there for it, and later ones when they are taken.
 *
 * Whether ncclCommSplit and ncclCommShrink block goes by the communicator they are given, as in
 * NCCL. ncclCommDestroy also waits for such parts that are being made, and after twice the timeout
 * gives them up (ncclRemoteError, too); ncclCommAbort does so at once, and calls that wait for them
 * fail. Neither leaves anything that writes a part's handle later. A group that makes a part by
 * ncclCommShrink, or by ncclCommSplit of one that was revoked, makes no other part of the same
 * communicator (ncclInvalidUsage).
 *
 * After fork() the parent's communicators, streams and events are ncclInvalidUsage in the child;
 * new communicators are, too, where the parent had any.
 */
#ifndef HOSTNCCL_H_
#define HOSTNCCL_H_

#include "nccl.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hostncclEvent* hostncclEvent_t;

/* ---- Streams: ordered queues, each served by one thread ---- */

/* Makes a stream and stores it in *stream. The caller owns it and ends it with
 * hostncclStreamDestroy. ncclSystemError: no thread to be had. */
ncclResult_t hostncclStreamCreate(cudaStream_t* stream);

/* Waits for the work queued so far, then frees the stream. Returns the stream's error as
 * hostncclStreamSynchronize does; the stream is gone in any case. Not from within a function that
 * the stream itself runs (ncclInvalidUsage). */
ncclResult_t hostncclStreamDestroy(cudaStream_t stream);

/* Returns when all work queued so far is done. An error of a collective on this stream (a lost
 * peer, say: ncclRemoteError) is returned here, once: the first one since the last call. The work
 * behind a failed collective still runs. NULL: returns at once. */
ncclResult_t hostncclStreamSynchronize(cudaStream_t stream);

/* ncclSuccess: all work queued so far is done; ncclInProgress: some is not. Never blocks; leaves
 * an error of the stream for hostncclStreamSynchronize. */
ncclResult_t hostncclStreamQuery(cudaStream_t stream);

/* Queues fn(arg). arg stays the caller's and must live until fn has run. fn may call anything but
 * what waits for this same stream. NULL stream: runs fn now, on the caller's thread. */
ncclResult_t hostncclLaunchHostFunc(cudaStream_t stream, void (*fn)(void*), void* arg);

/* Fails the communicator on all of its ranks, as a call that fails on the way does, and the stream,
 * which may be one of those that its calls are on: by whoever finds, in a function that a stream
 * runs, that the ranks are at different calls. NULL communicator: fails the stream alone. `text` is
 * copied. Never blocks. */
ncclResult_t hostncclCommFail(ncclComm_t comm, cudaStream_t stream, ncclResult_t result,
                              const char* text);

/* ---- Events: points in a stream ---- */

/* Makes an event, complete until first recorded. The caller owns it. */
ncclResult_t hostncclEventCreate(hostncclEvent_t* event);

/* Frees the event. At any time: records and waits already queued keep what they need. */
ncclResult_t hostncclEventDestroy(hostncclEvent_t event);

/* The event completes when all work queued on the stream so far is done. May be recorded again:
 * the newest record counts for calls made after it. NULL stream: complete at once. */
ncclResult_t hostncclEventRecord(hostncclEvent_t event, cudaStream_t stream);

/* Work queued on the stream after this call waits for the latest record made before this call (one
 * made later does not matter, as with CUDA). An error that the recorded stream had by then becomes
 * this stream's too. NULL stream: blocks the caller, and returns that error. */
ncclResult_t hostncclStreamWaitEvent(cudaStream_t stream, hostncclEvent_t event);

/* Blocks the caller until the latest record made before this call is complete. */
ncclResult_t hostncclEventSynchronize(hostncclEvent_t event);

/* *seconds = the time from when `from` was complete to when `to` was, by the monotonic clock; less
 * than 0 where `to` came first. Both stand for their latest record made before this call.
 * ncclInProgress, and *seconds as it was: one of them is not complete yet. Never blocks.
 * ncclInvalidUsage: one of them was never recorded. */
ncclResult_t hostncclEventElapsedTime(double* seconds, hostncclEvent_t from, hostncclEvent_t to);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HOSTNCCL_H_ */
