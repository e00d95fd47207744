#include "engine/peers/windows.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "engine/peers/vote.h"
#include "engine/run/work.h"

namespace terse {
namespace {

struct WindowVote {
  uint64_t is_done;  // what all ranks do before the next vote
  WindowHandle handle;
};

// Windows of a communicator that its ranks are making.
struct WindowSetup {
  Communicator* communicator;
  Stream stream;
  WindowRoom room = {};
  std::unique_ptr<Windows> windows = {};
  std::string trouble = {};        // of this rank
  std::optional<int> failed = {};  // first rank that has any
};

const plan::Fused* fused_of(const Job& job) {
  const PlanPointer plan = plan_of_collective(job);
  if (plan->fused) return nullptr;  // it has its windows
  return plan->with_windows != nullptr ? plan->with_windows->fused.get() : nullptr;
}

std::vector<WindowSetup> needs_of(const Jobs& jobs) {
  std::vector<WindowSetup> all;
  for (const Job* job : jobs) {
    if (is_message(*job)) continue;
    Communicator& c = *job->communicator;
    CommWindows& windows = c.memory().windows();
    if (c.recording(job->request.stream) != 0) continue;  // ranks may record unlike each other
    if (windows.has_replaced() && c.memory().stream_sets().ended()) windows.free_replaced();
    const plan::Fused* const fused = fused_of(*job);
    if (fused == nullptr) continue;
    auto known = std::ranges::find(all, &c, &WindowSetup::communicator);
    const WindowRoom so_far = known == all.end() ? windows.room() : known->room;
    const WindowRoom room = join(so_far, room_of(*fused));
    if (!c.routing().plans().fusing().allows(room)) continue;
    if (known == all.end())
      known = all.insert(known, {.communicator = &c, .stream = job->request.stream});
    known->room = room;
  }
  return all;
}

// Does a part of the making on each communicator, and asks all ranks how it went. `part` gets what
// the ranks said before.
void together(std::vector<WindowSetup>& all, std::deque<Vote<WindowVote>>& votes,
              const std::function<void(WindowSetup&, const std::vector<WindowVote>&)>& part) {
  std::deque<Vote<WindowVote>> next;
  for (size_t i = 0; i < all.size(); ++i) {
    WindowSetup& m = all[i];
    WindowVote vote{.is_done = true, .handle = {}};
    try {
      if (!m.failed) part(m, votes.empty() ? std::vector<WindowVote>{} : votes[i].all());
      if (m.windows != nullptr && votes.empty()) vote.handle = m.windows->handle();
    } catch (const std::exception& e) {
      m.trouble = e.what();
    }
    vote.is_done = m.trouble.empty();
    next.emplace_back(*m.communicator, vote);
  }
  // The ranks have agreed before: one that does not come is late.
  run_votes(next, Timeout::kLateRank);
  for (size_t i = 0; i < all.size(); ++i)
    if (!all[i].failed)
      all[i].failed = next[i].first([](const WindowVote& vote) { return vote.is_done == 0; });
  votes.swap(next);
}

void adopt_or_refuse(WindowSetup& m) {
  Communicator& c = *m.communicator;
  if (!m.failed) {
    c.log(LogLevel::kInfo, "calls are fused, in windows of {} B", m.room.bytes());
    c.routing().adopt_windows(m.room);
    return c.memory().windows().adopt(std::move(m.windows), m.room,
                                      c.memory().stream_sets().ended());
  }
  c.memory().windows().give_back_permit();
  c.routing().refuse_windows(m.room.bytes());
  const std::string text =
      fmt::format("calls that need windows of {} B or more are not fused: {}", m.room.bytes(),
                  m.trouble.empty() ? fmt::format("rank {} has none", *m.failed) : m.trouble);
  // The first line of the run may have promised them.
  static std::atomic<bool> is_noted{false};
  if (c.rank == 0 && c.is_reporting() && !is_noted.exchange(true))
    return note(c.rank, c.about(text));
  c.log(LogLevel::kInfo, "{}", text);
}

}  // namespace

void open_windows(const Jobs& jobs) {
  std::vector<WindowSetup> all = needs_of(jobs);
  if (all.empty()) return;
  std::deque<Vote<WindowVote>> votes;
  together(all, votes, [](WindowSetup& m, const auto&) {
    Communicator& c = *m.communicator;
    // All that a fused call takes, for no rank goes without once the others wait for it.
    c.memory().stream_sets().of(m.stream);
    c.mismatch().reserve();
    c.memory().windows().take_permit(c.backend);
    m.windows = c.backend.make_windows({.rank = c.rank,
                                        .ranks = c.ranks,
                                        .area_bytes = m.room.area_bytes,
                                        .kinds = m.room.kinds,
                                        .may_share_gpu = c.settings.fuse == Fuse::kShared});
  });
  together(all, votes, [](WindowSetup& m, const std::vector<WindowVote>& of_ranks) {
    std::vector<WindowHandle> handles;
    for (const WindowVote& vote : of_ranks) handles.push_back(vote.handle);
    m.windows->open(handles);
  });
  together(all, votes, [](WindowSetup& m, const auto&) { m.windows->write_pattern(); });
  together(all, votes, [](WindowSetup& m, const auto&) { m.windows->check_pattern(); });
  std::ranges::for_each(all, adopt_or_refuse);
}

}  // namespace terse
