#include "engine/communicator.h"

#include <mutex>
#include <unordered_map>

#include "backend/select.h"
#include "base/error.h"
#include "base/log.h"
#include "engine/reporter.h"
#include "engine/shape.h"

namespace terse {

Communicator::Communicator(const NcclLibrary& library, Backend& backend, ncclComm_t comm)
    : library(library), backend(backend), comm(comm), meter(backend) {
  check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
  check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
  stats.size = sizeof stats;
}

Track& Communicator::track_for(Stream caller) {
  const uint64_t recording = backend.recording(caller);
  if (recording == 0) {
    if (track_ == nullptr) track_ = std::make_unique<Track>(backend);
    return *track_;
  }
  Track* idle = nullptr;
  for (const auto& track : recorded_) {
    if (track->recording() == recording) return *track;
    if (!track->in_use()) idle = track.get();
  }
  if (idle == nullptr) idle = recorded_.emplace_back(std::make_unique<Track>(backend)).get();
  idle->record(caller, recording);
  return *idle;
}

namespace {

std::string describe(ncclComm_t comm, int rank, int ranks) {
  return fmt::format("communicator {}, rank {} of {}", static_cast<const void*>(comm), rank, ranks);
}

}  // namespace

std::string Communicator::describe() const { return terse::describe(comm, rank, ranks); }

void Communicator::sign(Error& error) const {
  const std::string name = describe() + ": ";
  if (!error.message.starts_with(name)) error.message.insert(0, name);
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

void Communicator::synchronize() {
  if (track_ != nullptr) track_->synchronize();
}

void Communicator::conclude() noexcept {
  try {
    synchronize();
  } catch (const Error& e) {
    log(LogLevel::kInfo, "{}: {}", describe(), e.message);
  }
  meter.collect();
  report_released(*this);
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

Backend& backend_of(const NcclLibrary& library, ncclComm_t comm) {
  try {
    return backend_for(library, comm);
  } catch (Error& e) {
    int rank = 0, ranks = 0;
    check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
    check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
    e.message.insert(0, describe(comm, rank, ranks) + ": ");
    throw;
  }
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
  auto made = std::make_unique<Communicator>(library, backend_of(library, comm), comm);
  report_begins(*made);
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  return *d.communicators.emplace(comm, std::move(made)).first->second;
}

void for_each_communicator(const std::function<void(Communicator&)>& visit) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  for (const auto& [comm, state] : d.communicators) visit(*state);
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
  std::exception_ptr failed;
  try {
    if (!abandon) state->synchronize();
  } catch (...) {
    failed = std::current_exception();
  }
  state->conclude();
  if (failed) std::rethrow_exception(failed);
}

}  // namespace terse
