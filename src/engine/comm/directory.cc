#include "engine/comm/directory.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <iterator>
#include <mutex>
#include <new>
#include <set>
#include <thread>
#include <unordered_map>

#include "backend/select.h"
#include "base/error.h"
#include "engine/comm/account.h"
#include "engine/observe/reporter.h"
#include "engine/observe/reporting_comm.h"
#include "policy/settings.h"

namespace terse {
namespace {

struct Naming {
  std::string name, made_from;
};

// A handle whose communicator's state is being made. It may be aborted meanwhile: NCCL is then
// asked of it no more.
struct Making {
  ncclComm_t comm;
  std::mutex asking;
  bool aborted = false;
};

struct Directory {
  std::mutex mutex;
  std::vector<std::shared_ptr<Making>> making;
  std::unordered_map<ncclComm_t, CommunicatorPointer> communicators;
  std::unordered_map<ncclComm_t, Naming> names;  // of those that are still to be made
  std::vector<CommunicatorPointer> releasing;    // what is enqueued for them is waited for
  std::vector<CommunicatorPointer> aborted;
  std::set<Backend*> to_trim;  // of communicators that went
};

// Never destroyed: calls may come from other threads while the program exits.
Directory& directory() {
  static Directory& d = *new Directory;
  return d;
}

void free_state(CommunicatorPointer state) noexcept {
  Directory& d = directory();
  Backend& backend = state->backend;
  state.reset();
  const std::lock_guard lock(d.mutex);
  try {
    d.to_trim.insert(&backend);
  } catch (const std::bad_alloc&) {
    // It keeps its memory until another one goes.
  }
}

// Frees what was given up and has ended by now; whether nothing is left of it.
bool release_ended() noexcept {
  Directory& d = directory();
  // Nobody else can come to hold it any more.
  const auto is_over = [](const CommunicatorPointer& c) {
    return c.use_count() == 1 && c->ended();
  };
  for (;;) {
    CommunicatorPointer over;
    {
      const std::lock_guard lock(d.mutex);
      const auto found = std::ranges::find_if(d.aborted, is_over);
      if (found == d.aborted.end()) return d.aborted.empty();
      over = std::move(*found);
      d.aborted.erase(found);
    }
    free_state(std::move(over));
  }
}

Backend& backend_of(const Settings& settings, const NcclLibrary& library, ncclComm_t comm) {
  try {
    return backend_for(library, comm, settings.cuda_module);
  } catch (Error& e) {
    int rank = 0, ranks = 0;
    check(library, library.nccl.CommCount(comm, &ranks), "ncclCommCount");
    check(library, library.nccl.CommUserRank(comm, &rank), "ncclCommUserRank");
    e.rank = rank;
    e.message.insert(0, describe(name_of_communicator(comm), {}, rank, ranks) + ": ");
    throw;
  }
}

// Whether the handle is that of the same communicator. NCCL does not say where that has failed.
bool still_describes(const Communicator& c) {
  int rank = -1, ranks = -1;
  c.with_context([&] {
    check(c.library, c.library.nccl.CommCount(c.comm, &ranks), "ncclCommCount");
    check(c.library, c.library.nccl.CommUserRank(c.comm, &rank), "ncclCommUserRank");
  });
  return ranks == c.ranks && rank == c.rank;
}

class Maker {
 public:
  explicit Maker(ncclComm_t comm) : making_(std::make_shared<Making>()) {
    making_->comm = comm;
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    d.making.push_back(making_);
  }
  ~Maker() {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    std::erase(d.making, making_);
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  // Does what never waits for other ranks. Whoever aborts the communicator waits for its end.
  template <class Part>
  auto unless_aborted(const Part& part) const {
    const std::lock_guard lock(making_->asking);
    if (making_->aborted) fail(ncclInvalidUsage, "a communicator was aborted at its first call");
    return part();
  }

 private:
  const std::shared_ptr<Making> making_;
};

void abort_making(ncclComm_t comm) {
  std::vector<std::shared_ptr<Making>> all;
  {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    std::ranges::copy_if(d.making, std::back_inserter(all),
                         [&](const auto& making) { return making->comm == comm; });
  }
  for (const auto& making : all) {
    const std::lock_guard lock(making->asking);
    making->aborted = true;
  }
}

// Of one that is still being made NCCL says nothing.
void wait_until_made(const NcclLibrary& library, ncclComm_t comm, const Maker& maker,
                     unsigned seconds) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  const auto ask = [&] {
    ncclResult_t state = ncclSuccess;
    check(library, library.nccl.CommGetAsyncError(comm, &state), "ncclCommGetAsyncError");
    return state;
  };
  ncclResult_t state = ncclSuccess;
  while ((state = maker.unless_aborted(ask)) == ncclInProgress) {
    if (std::chrono::steady_clock::now() > limit)
      fail(ncclSystemError, "a communicator was not made within {} s (TERSE_TIMEOUT)", seconds);
    std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  check(library, state, "the communicator's creation");
}

void for_each_communicator(const std::function<void(Communicator&)>& visit) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const auto visit_own = [&](Communicator& c) {
    if (c.is_of_this_process()) visit(c);
  };
  for (const auto& [comm, state] : d.communicators) visit_own(*state);
  for (const CommunicatorPointer& state : d.releasing) visit_own(*state);
}

constexpr Present kPresent{
    .any =
        [] {
          bool any = false;
          for_each_communicator([&](Communicator&) { any = true; });
          return any;
        },
    .accounts =
        [] {
          std::vector<report::Communicator> all;
          for_each_communicator([&](Communicator& c) { all.push_back(account_of(c, false)); });
          return all;
        }};

// `whole`: all of its calls are done; else with what is known by now.
void report_end(Communicator& c, bool whole) {
  if (c.is_of_this_process()) report_released([&] { return account_of(c, whole); });
}

}  // namespace

CommunicatorPointer find_communicator(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const auto known = d.communicators.find(comm);
  return known == d.communicators.end() ? nullptr : known->second;
}

bool exists(ncclComm_t comm, const Settings& settings) {
  if (find_communicator(comm) != nullptr) return true;
  ncclResult_t state = ncclSuccess;
  const NcclTable& nccl = nccl_library(settings.nccl).nccl;
  return nccl.CommGetAsyncError(comm, &state) != ncclInvalidArgument;
}

void require_exists(ncclComm_t comm, const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (!exists(comm, settings))
    fail(ncclInvalidArgument, "there is no such communicator: it was destroyed, or is none");
}

CommunicatorPointer communicator(ncclComm_t comm, const Settings& settings) {
  if (CommunicatorPointer known = find_communicator(comm)) {
    if (still_describes(*known)) return known;
    known.reset();
    release_communicator(comm, true);
  }
  release_ended();
  const NcclLibrary& library = nccl_library(settings.nccl);
  const Maker maker(comm);
  wait_until_made(library, comm, maker, settings.timeout_seconds);
  // What NCCL is asked here it may answer only after an abort, which does not wait for it.
  const auto made =
      std::make_shared<Communicator>(settings, library, backend_of(settings, library, comm), comm);
  reporting_begins();
  report_begins(settings, made->rank, kPresent);
  return maker.unless_aborted([&] {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    if (const auto named = d.names.extract(comm)) {
      made->name = std::move(named.mapped().name);
      made->made_from = std::move(named.mapped().made_from);
    }
    return d.communicators.emplace(comm, made).first->second;
  });
}

void name_communicator(ncclComm_t comm, const char* name, std::string made_from) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const std::string text = name != nullptr ? name : "";
  const auto known = d.communicators.find(comm);
  if (known == d.communicators.end()) {
    d.names[comm] = {text, std::move(made_from)};
  } else {
    known->second->name = text;
    known->second->made_from = std::move(made_from);
  }
}

namespace {

Naming naming_of(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  if (const auto known = d.communicators.find(comm); known != d.communicators.end())
    return {known->second->name, known->second->made_from};
  const auto named = d.names.find(comm);
  return named != d.names.end() ? named->second : Naming{};
}

}  // namespace

std::string name_of_communicator(ncclComm_t comm) { return naming_of(comm).name; }

std::string family_of_communicator(ncclComm_t comm) {
  const Naming naming = naming_of(comm);
  return naming.name.empty() ? naming.made_from : naming.name;
}

namespace {

// Under the lock. Null where there is none.
CommunicatorPointer extract(Directory& d, ncclComm_t comm) {
  d.names.erase(comm);
  auto known = d.communicators.extract(comm);
  return known.empty() ? nullptr : std::move(known.mapped());
}

// Nobody finds it any more but who aborts it.
CommunicatorPointer begin_release(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  CommunicatorPointer state = extract(d, comm);
  if (state != nullptr) d.releasing.push_back(state);
  return state;
}

// Nor does that. False: it was aborted meanwhile, and the rest is not the caller's.
bool end_release(const CommunicatorPointer& state) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  return std::erase(d.releasing, state) != 0;
}

// All of the handle: where it has been given to another communicator, the one before may still be
// on its way out.
std::vector<CommunicatorPointer> take_for_abort(ncclComm_t comm) {
  std::vector<CommunicatorPointer> all;
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  if (CommunicatorPointer state = extract(d, comm)) all.push_back(std::move(state));
  std::erase_if(d.releasing, [&](const CommunicatorPointer& state) {
    if (state->comm != comm) return false;
    all.push_back(state);
    return true;
  });
  return all;
}

// What it has enqueued may still run, or wait, and another thread may be in it.
void keep(CommunicatorPointer state) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.aborted.push_back(std::move(state));
}

void finish_release(CommunicatorPointer state, bool drained) {
  if (drained) state->conclude();
  report_end(*state, drained);
  if (!drained || !state->ended()) return keep(std::move(state));
  free_state(std::move(state));
}

}  // namespace

void release_communicator(ncclComm_t comm, bool abandon) {
  release_ended();
  if (const auto known = find_communicator(comm); known != nullptr && !abandon)
    known->require_all_came();
  CommunicatorPointer state = begin_release(comm);
  if (state == nullptr) return;
  std::exception_ptr failed;
  const bool drained = state->drains();
  try {
    if (!drained)
      state->require_healthy();
    else if (!abandon)
      state->stream_sets.synchronize();
  } catch (...) {
    if (!abandon) failed = std::current_exception();
  }
  if (end_release(state)) finish_release(std::move(state), drained);
  if (failed) std::rethrow_exception(failed);
}

void abort_communicator(ncclComm_t comm) {
  release_ended();
  abort_making(comm);  // before: what was made until then is found
  for (CommunicatorPointer& state : take_for_abort(comm)) {
    state->abort();
    report_end(*state, false);
    keep(std::move(state));
  }
}

void reap_communicators() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::milliseconds(100);
  while (!release_ended() && Clock::now() < limit)
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  give_memory_back();
}

// Before the last one goes, other ranks of this process may wait for one that would not come back
// from trim(); and what was given up may run for ever, unless NCCL aborts it.
void give_memory_back() noexcept {
  std::set<Backend*> all;
  {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    if (d.communicators.empty() && d.releasing.empty() && d.aborted.empty()) all.swap(d.to_trim);
  }
  for (Backend* each : all) each->trim();
}

}  // namespace terse
