#include "nccl_group.h"

#include <algorithm>
#include <atomic>

#include "fork.h"
#include "handle_table.h"
#include "host_collectives.h"
#include "of_thread.h"

namespace hostnccl {
namespace {

using CommHandles = Handles<Comm, ncclComm_t>;

// The handle of a communicator that is ready; null for a rank that is no member. The program may be
// watching for it.
void hand_out(const CommPtr& comm, ncclComm_t* out) {
  const ncclComm_t handle = comm->wait_until_ready() ? CommHandles::add(comm) : nullptr;
  std::atomic_ref(*out).store(handle, std::memory_order_release);
}

// Hands out a child, on its own thread: an abort of the parent waits for that, and for no caller.
// Finishes with the child's outcome.
std::shared_ptr<Completion> hand_out_part(const CommPtr& comm, const PendingInit& init) {
  auto over = std::make_shared<Completion>();
  *init.out = nullptr;
  if (const Outcome refused = init.parent->begin_part(comm)) {
    comm->request_abort();
    over->finish(refused);
    return over;
  }
  comm->on_ready([comm, over, out = init.out, parent = init.parent](const Outcome& failure) {
    over->finish(parent->end_part(comm, failure, [&] { hand_out(comm, out); }));
  });
  return over;
}

void require_compatible(const PendingInit& init, const PendingInit& other) {
  require(init.blocking == other.blocking, ncclInvalidArgument,
          "blocking and non-blocking communicators are not allowed in the same group");
  const bool one_parent = init.parent != nullptr && init.parent == other.parent;
  require(!one_parent || !(init.at_listener || other.at_listener), ncclInvalidUsage,
          "a group that shrinks a communicator, or splits a revoked one, makes no other part of "
          "it");
}

// All of them; or none, where one cannot begin.
std::vector<CommPtr> start_all(const std::vector<PendingInit>& inits) {
  std::vector<CommPtr> comms;
  comms.reserve(inits.size());
  try {
    for (const PendingInit& init : inits) comms.push_back(init.start());
  } catch (...) {
    for (const CommPtr& comm : comms) comm->request_abort();
    for (const CommPtr& comm : comms) comm->abort();
    throw;
  }
  return comms;
}

}  // namespace

Group& Group::current() {
  static const bool known = (in_forked_child([] { current().leave_to_parent(); }), true);
  (void)known;
  return of_thread<Group>();
}

// Leaks the calls in a forked child: they hold objects of the parent's.
void Group::leave_to_parent() {
  if (content_.parts.empty() && content_.inits.empty()) return;
  new Content(std::exchange(content_, {}));
  content_.failure =
      Failure(ncclInvalidUsage, "the group has calls made before this process was forked");
}

void Group::note(const Failure& failure) {
  if (depth_ > 0 && !content_.failure) content_.failure = failure;
}

void Group::discard() {
  require(depth_ > 0, ncclInvalidUsage, "no group was started");
  if (--depth_ > 0) return;
  const Content content = std::exchange(content_, {});
  if (content.failure) throw *content.failure;
}

ncclResult_t Group::end() {
  require(depth_ > 0, ncclInvalidUsage, "no group was started");
  if (--depth_ > 0) return ncclSuccess;
  Content content = std::exchange(content_, {});
  if (content.failure) throw *content.failure;
  const ncclResult_t made = initialize(content.inits);
  const ncclResult_t launched = launch(content.parts);
  return made == ncclSuccess ? launched : made;
}

ncclResult_t Group::add(CommPtr comm, Op op, std::shared_ptr<Stream> stream) {
  auto& parts = content_.parts;
  auto part = std::find_if(parts.begin(), parts.end(),
                           [&](const Part& other) { return other.comm == comm; });
  if (part == parts.end()) part = parts.insert(parts.end(), Part{std::move(comm), {}, {}, false});
  part->ops.push_back(std::move(op));
  if (stream != nullptr) {
    part->streams.insert(std::move(stream));
  } else {
    part->waits = true;
  }
  if (depth_ > 0) return ncclSuccess;
  std::vector<Part> alone;
  alone.swap(parts);
  return launch(alone);
}

ncclResult_t Group::add(PendingInit init) {
  for (const PendingInit& other : content_.inits) require_compatible(init, other);
  content_.inits.push_back(std::move(init));
  if (depth_ > 0) return ncclSuccess;
  std::vector<PendingInit> alone;
  alone.swap(content_.inits);
  return initialize(alone);
}

// Starts all before waiting for any: they may be waiting for each other.
ncclResult_t Group::initialize(std::vector<PendingInit>& inits) {
  const std::vector<CommPtr> comms = start_all(inits);
  std::vector<std::shared_ptr<Completion>> parts(inits.size());
  ncclResult_t result = ncclSuccess;
  Outcome first;
  for (size_t i = 0; i < inits.size(); ++i) {
    if (inits[i].parent != nullptr) {
      parts[i] = hand_out_part(comms[i], inits[i]);
    } else if (!inits[i].blocking) {
      *inits[i].out = CommHandles::add(comms[i]);
    }
    if (!inits[i].blocking) result = ncclInProgress;
  }
  for (size_t i = 0; i < inits.size(); ++i) {
    if (!inits[i].blocking) continue;
    try {
      if (parts[i] == nullptr) {
        hand_out(comms[i], inits[i].out);
      } else if (const Outcome& failure = parts[i]->wait()) {
        throw *failure;
      }
    } catch (const Failure& failure) {
      *inits[i].out = nullptr;
      comms[i]->abort();
      if (!first) first = failure;
    }
  }
  if (first) throw *first;
  return result;
}

// All of it, or nothing where a call cannot be right. In an order that all ranks have, as NCCL's by
// the communicators' hashes: on one stream the parts go one after another, and a rank may have come
// to the communicators in another order than others.
ncclResult_t Group::launch(std::vector<Part>& parts) {
  for (const Part& part : parts) check_self_messages(part.ops, part.comm->rank());
  std::ranges::stable_sort(parts, {}, [](const Part& part) { return part.comm->magic(); });
  ncclResult_t result = ncclSuccess;
  std::vector<std::shared_ptr<hostnccl::Launch>> awaited;
  Outcome first;
  for (Part& part : parts) {
    try {
      auto launch = part.comm->enqueue(std::move(part.ops), std::exchange(part.streams, {}));
      if (part.waits) awaited.push_back(std::move(launch));
      if (part.comm->reports_later()) result = ncclInProgress;
    } catch (const Failure& failure) {
      if (!first) first = failure;
    }
  }
  for (const auto& launch : awaited) {
    const Outcome& failure = launch->done->wait();
    if (failure && !first) first = failure;
  }
  if (first) throw *first;
  return result;
}

}  // namespace hostnccl
