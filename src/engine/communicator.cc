#include "engine/communicator.h"

#include <exception>
#include <mutex>
#include <unordered_map>

#include "backend/select.h"
#include "base/error.h"
#include "engine/shape.h"

namespace terse {

void Scratch::grow(size_t bytes) {
  void* larger = backend_.allocate(bytes);
  backend_.release(memory_);
  memory_ = larger;
  size_ = bytes;
}

Communicator::Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm)
    : library(library), backend(backend), comm(comm), scratch(backend) {
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  stats.size = sizeof stats;
}

void Communicator::prepare() {
  for (Stream& lane : lanes)
    if (lane == nullptr) lane = backend.create_stream();
  if (caller_ == nullptr) caller_ = backend.create_event();
  if (finished_ == nullptr) finished_ = backend.create_event();
}

Communicator::~Communicator() {
  for (Stream& lane : lanes)
    if (lane != nullptr) backend.destroy_stream(lane);  // waits for what is queued
  for (Event event : step_events_) backend.destroy_event(event);
  for (Event event : {caller_, finished_})
    if (event != nullptr) backend.destroy_event(event);
}

std::string Communicator::describe() const {
  return fmt::format("communicator {}, rank {} of {}", static_cast<const void*>(comm), rank, ranks);
}

const plan::Plan& Communicator::plan_for(const PlanKey& key) {
  const auto known = plans_.find(key);
  if (known != plans_.end()) return known->second;
  const plan::Shape shape =
      shape_of(key.spec, key.count, codec::dtype_size(key.dtype), ranks, rank);
  const auto wish = static_cast<plan::Wish>(key.algorithm);
  plan::Plan plan = plan::select(key.collective, shape, wish).build(shape);
  const std::string wrong = plan::validate(plan, shape);
  if (!wrong.empty()) fail(ncclInternalError, "{}: an invalid plan: {}", describe(), wrong);
  return plans_.emplace(key, std::move(plan)).first->second;
}

Binding& Communicator::idle_binding() {
  for (const auto& binding : bindings_)
    if (!binding->busy.load(std::memory_order_acquire)) return *binding;
  return *bindings_.emplace_back(std::make_unique<Binding>());
}

Event Communicator::step_event(size_t index) {
  while (step_events_.size() <= index) step_events_.push_back(backend.create_event());
  return step_events_[index];
}

void Communicator::synchronize() {
  // All lanes, also after one has failed: none may touch the caller's buffers any more.
  std::exception_ptr first;
  for (const Stream lane : lanes) {
    if (lane == nullptr) continue;
    try {
      backend.synchronize(lane);
    } catch (...) {
      if (!first) first = std::current_exception();
    }
  }
  if (first) std::rethrow_exception(first);
}

namespace {

struct Directory {
  std::mutex mutex;
  std::unordered_map<ncclComm_t, std::unique_ptr<Communicator>> communicators;
};

// Never destroyed: calls may come from other threads while the program exits.
Directory& directory() {
  static Directory& d = *new Directory;
  return d;
}

bool still_describes(const Communicator& c) {
  int rank = -1, ranks = -1;
  return c.library.nccl.CommCount(c.comm, &ranks) == ncclSuccess && ranks == c.ranks &&
         c.library.nccl.CommUserRank(c.comm, &rank) == ncclSuccess && rank == c.rank;
}

}  // namespace

Communicator* find_communicator(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const auto known = d.communicators.find(comm);
  return known == d.communicators.end() ? nullptr : known->second.get();
}

Communicator& communicator(ncclComm_t comm) {
  Communicator* known = find_communicator(comm);
  if (known != nullptr && still_describes(*known)) return *known;
  if (known != nullptr) release_communicator(comm, true);
  const NcclLibrary& library = nccl_library();
  auto made = std::make_unique<Communicator>(library, backend_for(library, comm), comm);
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  return *d.communicators.emplace(comm, std::move(made)).first->second;
}

void release_communicator(ncclComm_t comm, bool abandon) {
  std::unique_ptr<Communicator> state;
  {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    const auto known = d.communicators.find(comm);
    if (known == d.communicators.end()) return;
    state = std::move(known->second);
    d.communicators.erase(known);
  }
  if (!abandon) state->synchronize();
}

}  // namespace terse
