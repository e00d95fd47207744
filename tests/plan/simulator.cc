#include "simulator.h"

#include <fmt/format.h>

#include <cstring>
#include <deque>
#include <map>

namespace terse::plan {
namespace {

constexpr size_t kLastStep = static_cast<size_t>(-1);

struct Rank {
  const Plan* plan;
  const char* send;
  char* recv;
  std::vector<char> scratch;
  std::vector<bool> done;
  size_t posted = kLastStep;  // a communicate step under way

  char* address(const Place& p) {
    if (p.region == Region::kSend) return const_cast<char*>(send) + p.offset;
    return (p.region == Region::kRecv ? recv : scratch.data()) + p.offset;
  }

  // The next steps of the lanes that wait for nothing more.
  std::vector<size_t> ready() const {
    std::vector<size_t> result;
    bool lane_taken[kLanes] = {};
    for (size_t i = 0; i < plan->steps.size(); ++i) {
      const Step& step = plan->steps[i];
      bool& taken = lane_taken[static_cast<int>(step.lane)];
      if (done[i] || taken) continue;
      taken = true;
      bool free = i != posted;
      for (const size_t before : step.after) free = free && done[before];
      if (free) result.push_back(i);
    }
    return result;
  }

  void compute(const Compute& c) {
    std::vector<int32_t> sum(c.count, 0);
    for (const Input& in : c.inputs) {
      const char* data = address(in.place);
      for (size_t i = 0; i < c.count; ++i) {
        int32_t value;
        std::memcpy(&value, data + 4 * i, 4);
        sum[i] += value;
      }
    }
    std::memcpy(address(c.target), sum.data(), 4 * c.count);
  }
};

struct Message {
  const char* late = nullptr;  // read when received
  std::vector<char> early;     // or when sent
  size_t bytes = 0;
};

class Simulator {
 public:
  Simulator(const std::vector<Plan>& plans, const std::vector<const int32_t*>& send,
            const std::vector<int32_t*>& recv, std::mt19937& random)
      : random_(random) {
    for (size_t r = 0; r < plans.size(); ++r)
      ranks_.push_back({&plans[r], reinterpret_cast<const char*>(send[r]),
                        reinterpret_cast<char*>(recv[r]),
                        std::vector<char>(plans[r].scratch_bytes, '\x55'),
                        std::vector<bool>(plans[r].steps.size(), false)});
  }

  std::string run() {
    for (;;) {
      complete();
      std::vector<std::pair<size_t, size_t>> choices;
      for (size_t r = 0; r < ranks_.size(); ++r)
        for (const size_t step : ranks_[r].ready()) choices.emplace_back(r, step);
      if (choices.empty() || !error_.empty()) break;
      const auto [r, step] = choices[random_() % choices.size()];
      start(r, step);
    }
    for (size_t r = 0; r < ranks_.size() && error_.empty(); ++r)
      for (size_t i = 0; i < ranks_[r].done.size(); ++i)
        if (!ranks_[r].done[i]) error_ = fmt::format("deadlock: rank {} waits at step {}", r, i);
    return error_;
  }

 private:
  void start(size_t r, size_t index) {
    Rank& rank = ranks_[r];
    const Step& step = rank.plan->steps[index];
    if (step.lane != Lane::kCommunicate) {
      for (const Compute& c : step.compute) rank.compute(c);
      rank.done[index] = true;
      return;
    }
    rank.posted = index;
    for (const Transfer& t : step.transfers) {
      if (!t.send) continue;
      Message m{.bytes = t.bytes};
      const char* data = rank.address(t.place);
      if (random_() % 2)
        m.early.assign(data, data + t.bytes);
      else
        m.late = data;
      in_flight_[{r, static_cast<size_t>(t.peer)}].push_back(std::move(m));
    }
  }

  // A posted step ends when all it receives is there and all it sends is taken. Receives of all
  // posted steps are served first.
  void complete() {
    for (bool progress = true; progress && error_.empty();) {
      progress = false;
      for (size_t r = 0; r < ranks_.size(); ++r) progress |= receive(r);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) {
      Rank& rank = ranks_[r];
      if (rank.posted == kLastStep) continue;
      bool finished = received_[r] == receives(rank);
      for (size_t p = 0; p < ranks_.size(); ++p)
        if (const auto f = in_flight_.find({r, p}); f != in_flight_.end())
          finished = finished && f->second.empty();
      if (!finished) continue;
      rank.done[rank.posted] = true;
      rank.posted = kLastStep;
      received_[r] = 0;
      taken_[r].clear();
    }
  }

  static size_t receives(const Rank& rank) {
    size_t n = 0;
    for (const Transfer& t : rank.plan->steps[rank.posted].transfers) n += !t.send;
    return n;
  }

  bool receive(size_t r) {
    Rank& rank = ranks_[r];
    if (rank.posted == kLastStep) return false;
    bool progress = false;
    const std::vector<Transfer>& transfers = rank.plan->steps[rank.posted].transfers;
    std::vector<bool>& taken = taken_[r];
    taken.resize(transfers.size(), false);
    std::map<int, bool> blocked;  // messages of a pair are matched in order
    for (size_t i = 0; i < transfers.size(); ++i) {
      const Transfer& t = transfers[i];
      if (t.send || taken[i] || blocked[t.peer]) continue;
      std::deque<Message>& queue = in_flight_[{static_cast<size_t>(t.peer), r}];
      if (queue.empty()) {
        blocked[t.peer] = true;
        continue;
      }
      const Message& m = queue.front();
      if (m.bytes != t.bytes)
        error_ =
            fmt::format("rank {} expects {} bytes of {}, who sent {}", r, t.bytes, t.peer, m.bytes);
      else
        std::memcpy(rank.address(t.place), m.late ? m.late : m.early.data(), t.bytes);
      queue.pop_front();
      taken[i] = true;
      ++received_[r];
      progress = true;
    }
    return progress;
  }

  std::vector<Rank> ranks_;
  std::mt19937& random_;
  std::map<std::pair<size_t, size_t>, std::deque<Message>> in_flight_;
  std::map<size_t, size_t> received_;
  std::map<size_t, std::vector<bool>> taken_;
  std::string error_;
};

}  // namespace

Packing test_packing(size_t quantum) {
  return {quantum, [](size_t count) { return 4 * count + 4; }};
}

std::string simulate(const std::vector<Plan>& plans, const std::vector<const int32_t*>& send,
                     const std::vector<int32_t*>& recv, std::mt19937& random) {
  return Simulator(plans, send, recv, random).run();
}

}  // namespace terse::plan
