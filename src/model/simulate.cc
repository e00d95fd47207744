#include "model/simulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <tuple>

#include "model/predict.h"

namespace terse::model {
namespace {

// Messages of all ranks, sent and received, at most: of some gigabytes, and some minutes.
constexpr size_t kMaxMessages = size_t{1} << 25;

// A message goes in so many parts, of at least so many bytes.
constexpr size_t kParts = 8, kMinPart = size_t{64} << 10;

// End of a message: `step` is its number among those of all ranks.
struct End {
  uint32_t from, to, step;
  size_t bytes;
};

std::pair<uint32_t, uint32_t> ranks_of(const End& end) { return {end.from, end.to}; }

// Steps of all ranks that take a collective of NCCL's together.
struct Meeting {
  std::vector<uint32_t> steps;
  size_t there = 0;
};

// Message and the steps at its ends.
struct Message {
  uint32_t from, to;  // ranks
  uint32_t sent_by, received_by;
  size_t bytes, left;  // left to send
  int ends = 0;        // that are there
};

class Simulator {
 public:
  Simulator(const Profile& profile, const plan::Topology& topology, std::span<const RankWork> ranks)
      : network_(profile, topology), ranks_(ranks), processor_(ranks.size()) {
    for (uint32_t rank = 0; rank < ranks.size(); ++rank) add_steps(rank);
  }

  Simulation run() {
    match();
    if (!failure_.empty()) return {.failure = failure_};
    for (uint32_t step = 0; step < steps_.size(); ++step)
      if (steps_[step].waits == 0) launch(step, 0);
    double now = 0;
    while (!events_.empty()) {
      const Event event = events_.top();
      events_.pop();
      now = event.time;
      happen(event);
    }
    return {now, network_.sent(), who_waits()};
  }

 private:
  enum class Kind : uint8_t { kLaunched, kDone, kPart };
  struct Event {
    double time;
    uint64_t number;  // orders those of one time
    Kind kind;
    uint32_t of;  // a step, or a message of kPart
    bool operator>(const Event& other) const {
      return std::tie(time, number) > std::tie(other.time, other.number);
    }
  };

  struct Step {
    const WorkStep* work;
    uint32_t rank;
    uint32_t waits;        // for so many steps
    size_t under_way = 0;  // messages
    double done_at = 0;    // with the messages so far
    std::vector<uint32_t> followers = {}, messages = {};
    size_t meeting = 0;  // number of its meeting, if it has one
    bool is_done = false;
  };

  void add_steps(uint32_t rank) {
    const auto first = static_cast<uint32_t>(steps_.size());
    size_t met = 0;
    for (const WorkStep& work : ranks_[rank]) {
      const auto self = static_cast<uint32_t>(steps_.size());
      steps_.push_back({&work, rank, static_cast<uint32_t>(work.after.size())});
      for (const uint32_t before : work.after) steps_[first + before].followers.push_back(self);
      if (work.meeting) {
        if (meetings_.size() == met) meetings_.emplace_back();
        meetings_[met].steps.push_back(self);
        steps_.back().meeting = met++;
      }
      for (const WorkMessage& m : work.messages) {
        if (m.send)
          sends_.push_back({rank, m.peer, self, m.bytes});
        else
          receives_.push_back({m.peer, rank, self, m.bytes});
      }
    }
  }

  // Pairs sends and receives of the same ranks in their order.
  void match() {
    std::ranges::stable_sort(sends_, {}, ranks_of);
    std::ranges::stable_sort(receives_, {}, ranks_of);
    auto receive = receives_.begin();
    for (const End& send : sends_) {
      if (receive == receives_.end() || ranks_of(*receive) != ranks_of(send)) break;
      if (receive->bytes != send.bytes) {
        failure_ = fmt::format("rank {} sends {} bytes to rank {}, which receives {}", send.from,
                               send.bytes, send.to, receive->bytes);
        return;
      }
      const auto number = static_cast<uint32_t>(messages_.size());
      for (const uint32_t step : {send.step, receive->step})
        steps_[step].messages.push_back(number);
      messages_.push_back({send.from, send.to, send.step, receive->step, send.bytes, send.bytes});
      ++receive;
    }
    const size_t matched = messages_.size();
    if (matched != sends_.size() &&
        (receive == receives_.end() || ranks_of(sends_[matched]) < ranks_of(*receive)))
      failure_ = fmt::format("rank {} sends rank {} more than that receives", sends_[matched].from,
                             sends_[matched].to);
    else if (receive != receives_.end())
      failure_ = fmt::format("rank {} receives more from rank {} than that sends", receive->to,
                             receive->from);
    sends_ = receives_ = {};
  }

  void add(double time, Kind kind, uint32_t of) {
    events_.push({time, events_so_far_++, kind, of});
  }

  void happen(const Event& event) {
    switch (event.kind) {
      case Kind::kLaunched:
        return work(event.of, event.time);
      case Kind::kDone:
        return finish(event.of, event.time);
      case Kind::kPart:
        return send_part(event.of, event.time);
    }
  }

  void launch(uint32_t step, double now) {
    add(now + steps_[step].work->launch, Kind::kLaunched, step);
  }

  void work(uint32_t number, double now) {
    Step& step = steps_[number];
    step.done_at = now;
    if (step.work->coding != 0) {
      double& processor = processor_[step.rank];
      step.done_at = processor = std::max(processor, now) + step.work->coding;
    }
    if (step.work->meeting) return meet(meetings_[step.meeting], now);
    step.under_way = step.messages.size();
    if (step.under_way == 0) add(step.done_at, Kind::kDone, number);
    for (const uint32_t message : step.messages)
      if (++messages_[message].ends == 2) add(now, Kind::kPart, message);
  }

  void meet(Meeting& meeting, double now) {
    if (++meeting.there != ranks_.size()) return;
    nccl_ = std::max(nccl_, now) + *steps_[meeting.steps.front()].work->meeting;
    for (const uint32_t step : meeting.steps) add(nccl_, Kind::kDone, step);
  }

  // Sends the next part of a message, once the one before has passed.
  void send_part(uint32_t number, double now) {
    Message& m = messages_[number];
    const auto from = static_cast<int>(m.from), to = static_cast<int>(m.to);
    const size_t part = std::min(m.left, std::max(kMinPart, (m.bytes + kParts - 1) / kParts));
    const double passed = network_.send(from, to, part, now);
    m.left -= part;
    if (m.left != 0) return add(passed, Kind::kPart, number);
    message_is_done(m.sent_by, passed);
    message_is_done(m.received_by, passed + network_.latency(from, to));
  }

  void message_is_done(uint32_t number, double time) {
    Step& step = steps_[number];
    step.done_at = std::max(step.done_at, time);
    if (--step.under_way == 0) add(step.done_at, Kind::kDone, number);
  }

  void finish(uint32_t number, double now) {
    steps_[number].is_done = true;
    for (const uint32_t follower : steps_[number].followers)
      if (--steps_[follower].waits == 0) launch(follower, now);
  }

  std::string who_waits() const {
    const auto waiting = std::ranges::find(steps_, false, &Step::is_done);
    if (waiting == steps_.end()) return {};
    const WorkStep* const first = ranks_[waiting->rank].data();
    return fmt::format("rank {} waits for ever in step {}", waiting->rank, waiting->work - first);
  }

  Network network_;
  const std::span<const RankWork> ranks_;
  std::vector<double> processor_;  // by rank: until when it codes
  std::vector<Step> steps_;        // of all ranks, rank by rank
  std::vector<End> sends_, receives_;
  std::vector<Message> messages_;
  std::vector<Meeting> meetings_;
  double nccl_ = 0;  // until when NCCL does one
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  uint64_t events_so_far_ = 0;
  std::string failure_;
};

}  // namespace

Simulation simulate(const Profile& profile, const plan::Topology& topology,
                    std::span<const RankWork> ranks) {
  if (const char* what = lacks(profile, topology))
    throw std::invalid_argument(fmt::format("the profile says nothing of {}", what));
  return Simulator(profile, topology, ranks).run();
}

Simulation simulate(const Profile& profile, const plan::Algorithm& algorithm, plan::Shape shape,
                    std::string_view codec) {
  std::vector<RankWork> ranks;
  size_t messages = 0, least = kMaxMessages;  // of all ranks so far; of a rank, but for a root
  for (shape.rank = 0; shape.rank < shape.ranks; ++shape.rank) {
    ranks.push_back(work_of_plan(profile, algorithm.build(shape), shape, codec));
    size_t own = 0;
    for (const WorkStep& step : ranks.back()) own += step.messages.size();
    messages += own;
    least = std::min(least, own);
    if (shape.rank > 0 && messages + least * (shape.ranks - 1 - shape.rank) > kMaxMessages)
      return {.failure =
                  fmt::format("{} ranks have too many messages to be simulated", shape.ranks)};
  }
  Simulation simulation = simulate(profile, shape.topology, ranks);
  if (shape.draws()) simulation.seconds += profile.launch;  // it looks first at what it draws by
  return simulation;
}

}  // namespace terse::model
