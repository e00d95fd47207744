#include "engine/comm/directory.h"

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <new>
#include <set>
#include <thread>

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

// Making of a communicator's state by one thread. An abort meanwhile ends it: NCCL is asked no
// more.
struct Making {
  std::mutex asking;
  bool aborted = false;
};

// Stages of a handle's entry, in their order.
enum class Stage : uint8_t {
  kNamed,      // by the program; the state is made later
  kMaking,     // by one thread; several may be at it
  kLive,       // found by calls
  kReleasing,  // its work is waited for; found by an abort alone
  kFinishing,  // found by nobody
  kAborted,    // kept until its work has ended
};

struct Entry {
  Stage stage;
  Naming naming = {};                   // kNamed
  std::shared_ptr<Making> making = {};  // kMaking
  CommunicatorPointer state = {};       // kLive and later
};

struct Directory {
  // NCCL may give the handle of a communicator that is on its way out to another one.
  using Entries = std::multimap<ncclComm_t, Entry>;

  std::mutex mutex;
  Entries entries;
  std::set<Backend*> to_trim;  // of communicators that went

  // Called with the lock held.
  template <class Condition>
  Entries::iterator find(ncclComm_t comm, const Condition& condition) {
    const auto [first, last] = entries.equal_range(comm);
    const auto found =
        std::find_if(first, last, [&](const auto& entry) { return condition(entry.second); });
    return found == last ? entries.end() : found;
  }
  Entries::iterator find(ncclComm_t comm, Stage stage) {
    return find(comm, [&](const Entry& entry) { return entry.stage == stage; });
  }
  Entries::iterator find(const CommunicatorPointer& state) {
    return find(state->comm, [&](const Entry& entry) { return entry.state == state; });
  }
  void erase(Entries::iterator place) {
    if (place != entries.end()) entries.erase(place);
  }
};

// Never destroyed: calls may come from other threads while the program exits.
Directory& directory() {
  static Directory& d = *new Directory;
  return d;
}

// Takes the entry out of the directory and frees its state, beyond the lock.
void free_state(CommunicatorPointer state) noexcept {
  Directory& d = directory();
  Backend& backend = state->backend;
  {
    const std::lock_guard lock(d.mutex);
    d.erase(d.find(state));
  }
  state.reset();
  const std::lock_guard lock(d.mutex);
  try {
    d.to_trim.insert(&backend);
  } catch (const std::bad_alloc&) {
    // Keeps its memory until another one goes.
  }
}

// Frees the aborted states whose work has ended. Returns true if none is left.
bool free_ended() noexcept {
  Directory& d = directory();
  const auto is_aborted = [](const auto& entry) { return entry.second.stage == Stage::kAborted; };
  // An aborted state that nobody else holds, nor can come to hold.
  const auto has_ended = [&](const auto& entry) {
    return is_aborted(entry) && entry.second.state.use_count() == 1 && entry.second.state->ended();
  };
  for (;;) {
    CommunicatorPointer ended;
    {
      const std::lock_guard lock(d.mutex);
      const auto found = std::ranges::find_if(d.entries, has_ended);
      if (found == d.entries.end()) return std::ranges::none_of(d.entries, is_aborted);
      ended = found->second.state;
      found->second.stage = Stage::kFinishing;
    }
    free_state(std::move(ended));
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

// Returns true if the handle is that of the same communicator. NCCL does not answer if it has
// failed.
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
  explicit Maker(ncclComm_t comm) {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    place_ = d.entries.emplace(comm, Entry{.stage = Stage::kMaking, .making = making_});
  }
  ~Maker() {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    d.entries.erase(place_);
  }
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  // Runs a part that never waits for other ranks: an abort waits for its end.
  template <class Part>
  auto unless_aborted(const Part& part) const {
    const std::lock_guard lock(making_->asking);
    if (making_->aborted) fail(ncclInvalidUsage, "a communicator was aborted at its first call");
    return part();
  }

 private:
  const std::shared_ptr<Making> making_ = std::make_shared<Making>();
  Directory::Entries::iterator place_;
};

void abort_making(ncclComm_t comm) {
  std::vector<std::shared_ptr<Making>> all;
  {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    const auto [first, last] = d.entries.equal_range(comm);
    for (auto entry = first; entry != last; ++entry)
      if (entry->second.making != nullptr) all.push_back(entry->second.making);
  }
  for (const auto& making : all) {
    const std::lock_guard lock(making->asking);
    making->aborted = true;
  }
}

// NCCL answers no question about a communicator that it is still making.
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
  for (const auto& [comm, entry] : d.entries) {
    const bool reports = entry.stage == Stage::kLive || entry.stage == Stage::kReleasing;
    if (reports && entry.state->is_of_this_process()) visit(*entry.state);
  }
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

// `whole`: all of its calls are done; else reports what is known by now.
void report_end(Communicator& c, bool whole) {
  if (c.is_of_this_process()) report_released([&] { return account_of(c, whole); });
}

}  // namespace

CommunicatorPointer find_communicator(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const auto live = d.find(comm, Stage::kLive);
  return live == d.entries.end() ? nullptr : live->second.state;
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
  free_ended();
  const NcclLibrary& library = nccl_library(settings.nccl);
  const Maker maker(comm);
  wait_until_made(library, comm, maker, settings.timeout_seconds);
  // NCCL may answer only after an abort, which does not wait for it.
  const auto made =
      std::make_shared<Communicator>(settings, library, backend_of(settings, library, comm), comm);
  reporting_begins();
  report_begins(settings, made->rank, kPresent);
  return maker.unless_aborted([&] {
    Directory& d = directory();
    const std::lock_guard lock(d.mutex);
    if (const auto named = d.find(comm, Stage::kNamed); named != d.entries.end()) {
      auto& [name, made_from] = named->second.naming;
      made->set_names(std::move(name), std::move(made_from));
      d.entries.erase(named);
    }
    // Another thread may have made it meanwhile.
    const auto live = d.find(comm, Stage::kLive);
    if (live != d.entries.end()) return live->second.state;
    d.entries.emplace(comm, Entry{.stage = Stage::kLive, .state = made});
    return made;
  });
}

void name_communicator(ncclComm_t comm, const char* name, std::string made_from) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  const std::string text = name != nullptr ? name : "";
  if (const auto live = d.find(comm, Stage::kLive); live != d.entries.end()) {
    return live->second.state->set_names(text, std::move(made_from));
  }
  auto named = d.find(comm, Stage::kNamed);
  if (named == d.entries.end()) named = d.entries.emplace(comm, Entry{.stage = Stage::kNamed});
  named->second.naming = {text, std::move(made_from)};
}

namespace {

Naming naming_of(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  if (const auto live = d.find(comm, Stage::kLive); live != d.entries.end())
    return {live->second.state->name(), live->second.state->made_from()};
  const auto named = d.find(comm, Stage::kNamed);
  return named != d.entries.end() ? named->second.naming : Naming{};
}

}  // namespace

std::string name_of_communicator(ncclComm_t comm) { return naming_of(comm).name; }

std::string find_name(bool (*is_so)(std::string_view)) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  for (const auto& [comm, entry] : d.entries) {
    const std::string& name = entry.state != nullptr ? entry.state->name() : entry.naming.name;
    if (!name.empty() && is_so(name)) return name;
  }
  return "";
}

std::string family_of_communicator(ncclComm_t comm) {
  const Naming naming = naming_of(comm);
  return naming.name.empty() ? naming.made_from : naming.name;
}

namespace {

// Moves the handle's state to kReleasing. Null if there is none.
CommunicatorPointer begin_release(ncclComm_t comm) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.erase(d.find(comm, Stage::kNamed));
  const auto live = d.find(comm, Stage::kLive);
  if (live == d.entries.end()) return nullptr;
  live->second.stage = Stage::kReleasing;
  return live->second.state;
}

// Moves the state from kReleasing to kFinishing. Returns false if it was aborted meanwhile: the
// rest is not the caller's.
bool end_release(const CommunicatorPointer& state) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  Entry& entry = d.find(state)->second;
  if (entry.stage != Stage::kReleasing) return false;
  entry.stage = Stage::kFinishing;
  return true;
}

// Moves all live and releasing states of the handle to kAborted.
std::vector<CommunicatorPointer> begin_abort(ncclComm_t comm) {
  std::vector<CommunicatorPointer> all;
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.erase(d.find(comm, Stage::kNamed));
  const auto [first, last] = d.entries.equal_range(comm);
  for (auto place = first; place != last; ++place) {
    Entry& entry = place->second;
    if (entry.stage != Stage::kLive && entry.stage != Stage::kReleasing) continue;
    all.push_back(entry.state);
    entry.stage = Stage::kAborted;
  }
  return all;
}

// Keeps a state whose work may still run or wait, or that another thread may be in.
void keep(const CommunicatorPointer& state) {
  Directory& d = directory();
  const std::lock_guard lock(d.mutex);
  d.find(state)->second.stage = Stage::kAborted;
}

void finish_release(CommunicatorPointer state, bool drained) {
  if (drained) state->conclude();
  report_end(*state, drained);
  if (!drained || !state->ended()) {
    state->health().abort();  // NCCL's communicator goes meanwhile
    return keep(state);
  }
  free_state(std::move(state));
}

}  // namespace

void release_communicator(ncclComm_t comm, bool abandon) {
  free_ended();
  if (const auto known = find_communicator(comm); known != nullptr && !abandon)
    known->require_all_came();
  CommunicatorPointer state = begin_release(comm);
  if (state == nullptr) return;
  std::exception_ptr failed;
  const bool drained = state->drains();
  try {
    if (!drained)
      state->health().require_healthy();
    else if (!abandon)
      state->memory().stream_sets().synchronize();
  } catch (...) {
    if (!abandon) failed = std::current_exception();
  }
  if (end_release(state)) finish_release(std::move(state), drained);
  if (failed) std::rethrow_exception(failed);
}

void abort_communicator(ncclComm_t comm) {
  free_ended();
  abort_making(comm);  // before: what was made until then is found
  for (const CommunicatorPointer& state : begin_abort(comm)) {
    state->health().abort();
    report_end(*state, false);
  }
}

void reap_communicators() noexcept {
  using Clock = std::chrono::steady_clock;
  const auto limit = Clock::now() + std::chrono::milliseconds(100);
  while (!free_ended() && Clock::now() < limit)
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
    const bool any = std::ranges::any_of(
        d.entries, [](const auto& entry) { return entry.second.state != nullptr; });
    if (!any) all.swap(d.to_trim);
  }
  for (Backend* each : all) each->trim();
}

}  // namespace terse
