#include "engine/run/executor.h"

#include <algorithm>
#include <exception>
#include <optional>

#include "base/error.h"
#include "engine/observe/ranges.h"
#include "engine/run/run.h"

namespace terse {
namespace {

// Runs a part of a run, whose errors name it.
template <class Part>
auto with_context(const Run& run, const Part& part) {
  return run.communicator().with_context([&] { return name_of(run.work()); }, part);
}

// Runs a part of each run in one NCCL group.
template <class Part>
void in_group(const std::pmr::vector<Run*>& runs, const Part& part) {
  const NcclLibrary& library = runs.front()->library();
  for (const Run* run : runs) run->communicator().health().require_open();
  const Communicator& first = runs.front()->communicator();
  first.with_context([&] { check(library, library.nccl.GroupStart(), "ncclGroupStart"); });
  try {
    for (Run* run : runs) with_context(*run, [&] { (run->*part)(); });
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  const ncclResult_t end = library.nccl.GroupEnd();
  for (const Run* run : runs)
    with_context(*run, [&] { run->communicator().settle(end, "ncclGroupEnd"); });
}

// Communicators with enqueued work in this group.
using Begun = std::pmr::vector<const Communicator*>;

// Runs works of different communicators together, step by step. Each communicator waits once for
// the callers' streams, before anything is enqueued there: otherwise one communicator's work would
// wait for another's calls.
void execute_together(std::pmr::vector<Run>& runs, Begun& begun) {
  const auto each = [](auto& run, auto part) {
    return with_context(run, [&] { return (run.*part)(); });
  };
  std::pmr::vector<Run*> talking(runs.get_allocator());
  for (Run& run : runs) {
    const bool first = std::ranges::find(begun, &run.communicator()) == begun.end();
    with_context(run, [&] { run.begin(first); });
  }
  for (;;) {
    talking.clear();
    for (Run& run : runs)
      if (each(run, &Run::advance)) talking.push_back(&run);
    if (talking.empty()) break;
    // Native collectives go alone, and first: works with some keep step with works of the same
    // communicator that have none.
    if (std::ranges::any_of(talking, &Run::next_is_native))
      std::erase_if(talking, [](const Run* run) { return !run->next_is_native(); });
    const ranges::Scope scope("communicate", talking.front()->next_bytes());
    in_group(talking, &Run::communicate);
    for (Run* run : talking) each(*run, &Run::communicated);
  }
  for (Run& run : runs) {
    each(run, &Run::end);
    if (run.has_enqueued()) begun.push_back(&run.communicator());
  }
}

// Share of a communicator's stream set beside the works under way; empty: there is no room.
std::optional<Share> share_of(const Work& work, const std::pmr::vector<Run>& runs) {
  const Communicator* const c = work.front()->communicator;
  for (auto run = runs.rbegin(); run != runs.rend(); ++run)
    if (&run->communicator() == c) return run->try_coschedule(work);
  return Share{};
}

// Works that must be done on return. They are waited for when all is enqueued: other ranks may wait
// for later works before they begin the rest of the first ones.
class Synchronous {
 public:
  explicit Synchronous(const std::pmr::vector<Work>& works) : works_(works.get_allocator()) {
    works_.reserve(works.size());
  }

  void add(const Run& run) {
    if (run.is_synchronous()) works_.push_back(&run.work());
  }

  // Waits even after a failure: no work may touch the caller's buffers any more.
  void wait() {
    std::exception_ptr first;
    for (const Work* const work : works_) try {
        Communicator& c = *work->front()->communicator;
        c.with_context([&] { return name_of(*work); }, [&] { finish(c); });
      } catch (...) {
        if (first == nullptr) first = std::current_exception();
      }
    if (first != nullptr) std::rethrow_exception(first);
  }

  void wait_after_failure() noexcept {
    try {
      wait();
    } catch (...) {
      // The first failure is reported.
    }
  }

 private:
  // A mismatch of calls says more than NCCL's failure by it.
  static void finish(Communicator& c) {
    try {
      c.memory().stream_sets().synchronize();
    } catch (const Error&) {
      c.health().require_usable();
      throw;
    }
  }

  std::pmr::vector<const Work*> works_;
};

}  // namespace

void execute(const Jobs& jobs) {
  // Works of a communicator are in order: those that find room beside each other go together, with
  // those of other communicators; then the next ones.
  const std::pmr::vector<Work> works = works_of(jobs);
  std::pmr::vector<const Work*> waiting(works.get_allocator()), later(works.get_allocator());
  std::pmr::vector<const Communicator*> wait(works.get_allocator());  // their next works go later
  std::pmr::vector<Run> runs(works.get_allocator());
  Synchronous synchronous(works);
  Begun begun(works.get_allocator());
  runs.reserve(works.size());
  waiting.reserve(works.size());
  later.reserve(works.size());
  for (const Work& work : works) waiting.push_back(&work);
  while (!waiting.empty()) {
    runs.clear();
    later.clear();
    wait.clear();
    try {
      for (const Work* work : waiting) {
        const Communicator& c = *work->front()->communicator;
        const auto add = [&] {
          if (std::ranges::find(wait, &c) == wait.end()) {
            if (const std::optional<Share> share = share_of(*work, runs)) {
              runs.emplace_back(*work, *share, works.size() == 1);
              return;
            }
            wait.push_back(&c);
          }
          later.push_back(work);
        };
        c.with_context([&] { return name_of(*work); }, add);
      }
      execute_together(runs, begun);
    } catch (...) {
      for (Run& run : runs) run.abandon();
      synchronous.wait_after_failure();
      throw;
    }
    for (const Run& run : runs) synchronous.add(run);
    waiting.swap(later);
  }
  synchronous.wait();
}

}  // namespace terse
