// Groups: NCCL's own group holds the native collectives and is launched first; the compressed ones
// follow, and with them all messages, in the same order on every rank. A group of native messages
// alone is NCCL's.
#include "interpose/intercepted_group.h"

#include <exception>
#include <new>
#include <utility>

#include "base/thread_local.h"
#include "engine/call/observation.h"
#include "engine/call/pending_group.h"
#include "interpose/communicators.h"
#include "interpose/next.h"
#include "interpose/retired_operators.h"

namespace terse::interpose {
namespace {

// First failure in the thread's group.
struct GroupFailure {
  std::exception_ptr first;  // thrown by the first of our calls that failed
};

// Returns null if none has failed.
std::exception_ptr take_failure() noexcept {
  GroupFailure* const failure = ThreadLocal<GroupFailure>::find();
  return failure != nullptr ? std::exchange(failure->first, nullptr) : nullptr;
}

bool has_failed() noexcept {
  const GroupFailure* const failure = ThreadLocal<GroupFailure>::find();
  return failure != nullptr && failure->first != nullptr;
}

// End of the outermost group, also of one that failed: NCCL's group is over then, and so must ours
// be, or all later calls of the thread would wait for an end that does not come.
class Ending {
 public:
  Ending() = default;
  ~Ending() {
    if (!outermost_) return;
    take_failure();
    end_observations(ncclInternalError);  // of a group that has failed
    if (group_depth() > 0) group_abandon();
    forget_pending();
    destroy_retired_operators();
    reap_ended();
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  const bool outermost_ = group_depth() <= 1;
};

void throw_failure() {
  if (const std::exception_ptr failure = take_failure()) std::rethrow_exception(failure);
}

// Runs a part of the group's end; if it throws, the rest of the group fails.
template <class Part>
void with_all_left(FailureScope lost, const Part& part) {
  try {
    part();
  } catch (const std::exception& cause) {
    group_abandon(cause, lost);
    throw;
  }
}

// Fails the engine's part with NCCL's, which gave `result`. NCCL drops a group with a call that it
// refuses, with or without terse; in other cases ranks may have made calls that this rank has not.
void fail_with_nccl(ncclResult_t result) {
  if (result == ncclInvalidArgument || result == ncclInvalidUsage) return group_abandon();
  try {
    with_all_left(FailureScope::kPending, [&] { check(*next().library, result, "ncclGroupEnd"); });
  } catch (const Error&) {
    // NCCL's, and it says so itself.
  }
}

bool is_under_way(ncclResult_t result) { return result == ncclSuccess || result == ncclInProgress; }

// Completes the group before NCCL's own ends: NCCL gets what it can have, and the group's streams
// meet. If that fails, NCCL's group does, too.
void complete() noexcept {
  if (group_depth() != 1 || has_failed()) return;
  try {
    group_call_nccl_for_messages();
    group_join_streams();
  } catch (...) {
    fail_group();
  }
}

// Gives NCCL the compressed calls too, or ends its group.
void hand_over(ncclSimInfo_t* info) {
  try {
    group_call_nccl();
  } catch (...) {
    next().GroupSimulateEnd(info);
    throw;
  }
}

}  // namespace

// A call without a communicator fails NCCL's group.
void fail_group() noexcept {
  if (group_depth() == 0 || has_failed()) return;
  try {
    ThreadLocal<GroupFailure>::get().first = std::current_exception();
  } catch (const std::bad_alloc&) {
    // then the group fails with what NCCL says
  }
  next().library->nccl.AllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, nullptr, nullptr);
}

}  // namespace terse::interpose

using namespace terse;
using namespace terse::interpose;

#pragma GCC visibility push(default)
extern "C" {

ncclResult_t ncclGroupStart() {
  return ours("ncclGroupStart", [] {
    const ncclResult_t result = next().library->nccl.GroupStart();
    if (result == ncclSuccess) group_start();
    return result;
  });
}

ncclResult_t ncclGroupEnd() {
  return ours("ncclGroupEnd", [] {
    const InNccl in_nccl;  // covers what the engine asks of NCCL
    const Ending ending;
    complete();
    const ncclResult_t result = next().library->nccl.GroupEnd();
    if (group_depth() == 0) return result;  // NCCL has reported that there is no group
    if (group_depth() == 1) {
      end_observations(result);
      with_all_left(FailureScope::kAll, throw_failure);  // NCCL's part has failed with it
      if (!is_under_way(result)) {
        fail_with_nccl(result);
        return result;
      }
      with_all_left(FailureScope::kPending, [&] {
        if (result == ncclSuccess)
          admit_pending();
        else
          expect_pending();
        settle_group(result);
      });
    }
    group_end();
    return result;
  });
}

// Estimates the time of NCCL's own calls in place of the compressed ones, for which it has no
// model.
ncclResult_t ncclGroupSimulateEnd(ncclSimInfo_t* info) {
  return ours("ncclGroupSimulateEnd", [&] {
    if (next().GroupSimulateEnd == nullptr) fail_lacking("ncclGroupSimulateEnd");
    const Ending ending;
    if (group_depth() == 1) hand_over(info);
    const ncclResult_t result = next().GroupSimulateEnd(info);
    if (group_depth() == 0) return result;
    if (group_depth() == 1) {
      throw_failure();
      forget_pending();
    }
    group_end();
    return result;
  });
}

}  // extern "C"
#pragma GCC visibility pop
