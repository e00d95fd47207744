#include "simulator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "native_model.h"

namespace terse::plan {
namespace {

// A communicate step under way: like NCCL's, it owns its buffers until it is done.
struct Posted {
  size_t step;
  size_t unsent = 0;                    // messages that no peer has taken yet
  std::vector<bool> received;           // by transfer
  std::vector<std::vector<char>> sent;  // by transfer: what its place held at the start
  std::vector<Bytes> given;             // by native collective, the same
  bool collected = false;               // these are done
};

struct Rank {
  const Plan* plan;
  std::vector<Memory> memory;  // by message
  std::vector<char> scratch;
  std::vector<bool> done;
  int32_t loss;  // of what is packed
  int32_t ranks;
  std::deque<Posted> posted;  // in the order of issue

  char* address(const Place& p, size_t message) {
    const Memory& m = memory[message];
    if (p.region == Region::kScratch) return scratch.data() + p.offset;
    // In the order of Region.
    const int32_t* const regions[] = {m.send, m.recv, nullptr, m.exact, m.state, m.codebook};
    const int32_t* begin = regions[static_cast<size_t>(p.region)];
    return const_cast<char*>(reinterpret_cast<const char*>(begin)) + p.offset;
  }

  // The next steps of the lanes that wait for nothing more. Communicate steps start in the order of
  // issue, on whichever lane; some libraries let only one be under way at a time.
  std::vector<size_t> ready(bool one_at_a_time) const {
    std::vector<size_t> result;
    bool lane_taken[kLanes] = {}, communicate_taken = false;
    for (size_t i = 0; i < plan->steps.size(); ++i) {
      const Step& step = plan->steps[i];
      if (done[i]) continue;
      bool free = !std::exchange(lane_taken[step.queue()], true) && !is_posted(i);
      for (const size_t before : step.after) free = free && done[before];
      if (step.lane == Lane::kCommunicate && !is_posted(i))
        free =
            !std::exchange(communicate_taken, true) && free && !(one_at_a_time && !posted.empty());
      if (free) result.push_back(i);
    }
    return result;
  }

  bool is_posted(size_t step) const {
    return std::ranges::any_of(posted, [=](const Posted& p) { return p.step == step; });
  }

  static int32_t load(const char* from) {
    int32_t value;
    std::memcpy(&value, from, 4);
    return value;
  }

  // Of a shared grid; others have none, which is 0.
  char* parameter(const Place& place, const Compute& c) {
    return address(place, c.message) + c.params_offset;
  }
  int32_t agreed(const Place& place, const Compute& c) {
    return c.params_offset == 0 ? 0 : load(parameter(place, c));
  }

  void compute(const Compute& c) {
    std::vector<int32_t> sum(c.count, 0);
    const bool merges = c.part == Part::kMerged;  // what has been added stays in it
    for (const Input& in : c.inputs) {
      const char* data = address(in.place, c.message);
      const int32_t all = in.format == Format::kRaw || merges ? 0 : ranks * agreed(in.place, c);
      for (size_t i = 0; i < c.count; ++i)
        sum[i] += in.negated ? -load(data + 4 * i) : load(data + 4 * i) - all;
    }
    if (c.part == Part::kParams) {
      const int32_t largest = *std::ranges::max_element(sum);
      std::memcpy(parameter(c.target, c), &largest, sizeof largest);
      return;
    }
    if (c.target_format != Format::kRaw && !merges)
      for (int32_t& x : sum) x += agreed(c.target, c) - loss;
    std::memcpy(address(c.target, c.message), sum.data(), 4 * c.count);
  }

  void learn(const Learn& l) {
    const int32_t* const send = memory.front().send;
    char* const state = address(l.state, 0);
    uint64_t bins[Learn::kBins];
    std::memcpy(bins, state + Learn::kBinsAt, sizeof bins);
    uint32_t widest = static_cast<uint32_t>(load(state));
    switch (l.stage) {
      case Learn::Stage::kWidest:
        widest = 0;
        std::fill_n(bins, Learn::kBins, 0);
        for (size_t i = 0; i < l.count; ++i) widest = std::max<uint32_t>(widest, send[i]);
        break;
      case Learn::Stage::kHistogram:
        for (size_t i = 0; i < l.count; ++i)
          bins[static_cast<uint32_t>(send[i]) % Learn::kBins] += 1 + widest % 256;
        break;
      case Learn::Stage::kFit:
        for (size_t i = 0; i < plan->codebook_bytes / sizeof(int32_t); ++i)
          memory.front().codebook[i] = static_cast<int32_t>(bins[i]);
        return;
    }
    std::memcpy(state, &widest, sizeof widest);
    std::memcpy(state + Learn::kBinsAt, bins, sizeof bins);
  }

  void copy(const Copy& c) { std::memmove(address(c.target, 0), address(c.source, 0), c.bytes); }
};

struct Message {
  size_t step;                 // of the sender
  const char* late = nullptr;  // read when received
  std::vector<char> early;     // or when sent
  size_t bytes = 0;
};

class Simulator {
 public:
  Simulator(const std::vector<Plan>& plans, const std::vector<std::vector<Memory>>& memory,
            std::mt19937& random, int32_t loss)
      : random_(random), one_at_a_time_(random() % 2) {
    for (size_t r = 0; r < plans.size(); ++r)
      ranks_.push_back({&plans[r],
                        memory[r],
                        std::vector<char>(plans[r].scratch_bytes, '\x55'),
                        std::vector<bool>(plans[r].steps.size(), false),
                        loss,
                        static_cast<int32_t>(plans.size()),
                        {}});
  }

  std::string run() {
    for (;;) {
      deliver();
      std::vector<std::function<void()>> choices;
      for (size_t r = 0; r < ranks_.size(); ++r) {
        for (const size_t step : ranks_[r].ready(one_at_a_time_))
          choices.push_back([this, r, step] { start(r, step); });
        for (const Posted& p : ranks_[r].posted)
          if (may_end(r, p)) choices.push_back([this, r, step = p.step] { end(r, step); });
      }
      if (choices.empty() || !error_.empty()) break;
      choices[random_() % choices.size()]();
    }
    for (size_t r = 0; r < ranks_.size() && error_.empty(); ++r)
      for (size_t i = 0; i < ranks_[r].done.size() && error_.empty(); ++i)
        if (!ranks_[r].done[i]) error_ = fmt::format("deadlock: rank {} waits at step {}", r, i);
    return error_;
  }

 private:
  void start(size_t r, size_t index) {
    Rank& rank = ranks_[r];
    const Step& step = rank.plan->steps[index];
    if (step.lane != Lane::kCommunicate) {
      for (const Copy& c : step.copies) rank.copy(c);
      for (const Learn& l : step.learns) rank.learn(l);
      for (const Compute& c : step.compute) rank.compute(c);
      rank.done[index] = true;
      return;
    }
    Posted posted{index, 0, std::vector<bool>(step.transfers.size()),
                  std::vector<std::vector<char>>(step.transfers.size())};
    for (const Native& n : step.natives) posted.given.push_back(given(r, n));
    posted.collected = step.natives.empty();
    for (size_t i = 0; i < step.transfers.size(); ++i) {
      const Transfer& t = step.transfers[i];
      if (!t.send) continue;
      Message m{.step = index, .bytes = t.bytes};
      const char* data = rank.address(t.place, t.message);
      posted.sent[i].assign(data, data + t.bytes);
      if (random_() % 2)
        m.early = posted.sent[i];
      else
        m.late = data;
      in_flight_[{r, static_cast<size_t>(t.peer)}].push_back(std::move(m));
      ++posted.unsent;
    }
    rank.posted.push_back(std::move(posted));
  }

  // Messages arrive where a receive is posted, as soon as they can.
  void deliver() {
    for (bool progress = true; progress && error_.empty();) {
      progress = false;
      for (size_t r = 0; r < ranks_.size(); ++r) progress |= receive(r);
      progress |= collect();
    }
  }

  // What a rank gives to a native collective.
  Bytes given(size_t r, const Native& n) {
    const size_t bytes = sent_bytes(n, static_cast<int>(r), static_cast<int>(ranks_.size()));
    const char* data = ranks_[r].address(n.send, 0);
    return bytes == 0 ? Bytes() : Bytes(data, data + bytes);
  }

  // Carries out the native collectives of the first step that has some, when all ranks are there.
  bool collect() {
    std::vector<Posted*> steps;
    for (Rank& rank : ranks_) {
      const auto found = std::ranges::find(rank.posted, false, &Posted::collected);
      if (found == rank.posted.end()) return false;
      steps.push_back(&*found);
      if (natives(steps.size() - 1, *found).size() != natives(0, *steps[0]).size()) {
        error_ = "different numbers of native collectives";
        return false;
      }
    }
    for (size_t i = 0; i < steps[0]->given.size() && error_.empty(); ++i) collect(steps, i);
    for (Posted* step : steps) step->collected = true;
    return true;
  }

  void collect(const std::vector<Posted*>& steps, size_t i) {
    std::vector<Bytes> sent;
    for (size_t r = 0; r < steps.size(); ++r) {
      const Native& n = natives(r, *steps[r])[i];
      if (!is_same(n, natives(0, *steps[0])[i]))
        error_ = fmt::format("rank {} has another native collective than rank 0", r);
      const Bytes now = given(r, n);
      if (now != steps[r]->given[i])
        error_ = fmt::format("rank {} changes what step {} sends", r, steps[r]->step);
      sent.push_back(now);
    }
    for (size_t r = 0; r < steps.size() && error_.empty(); ++r) {
      const Native& n = natives(r, *steps[r])[i];
      const Bytes result = received(n, static_cast<int>(r), sent);
      if (!result.empty()) std::ranges::copy(result, ranks_[r].address(n.recv, 0));
    }
  }

  const std::vector<Native>& natives(size_t r, const Posted& posted) const {
    return ranks_[r].plan->steps[posted.step].natives;
  }

  // Whether two ranks mean the same one.
  static bool is_same(const Native& a, const Native& b) {
    return a.collective == b.collective && a.count == b.count && a.root == b.root &&
           a.element == b.element && a.operation == b.operation;
  }

  // A pair's messages are matched in the order of issue, over all posted steps.
  bool receive(size_t r) {
    Rank& rank = ranks_[r];
    bool progress = false;
    std::set<int> blocked;
    for (Posted& posted : rank.posted) {
      const std::vector<Transfer>& transfers = rank.plan->steps[posted.step].transfers;
      for (size_t i = 0; i < transfers.size(); ++i) {
        const Transfer& t = transfers[i];
        if (t.send || posted.received[i] || blocked.contains(t.peer)) continue;
        std::deque<Message>& queue = in_flight_[{static_cast<size_t>(t.peer), r}];
        if (queue.empty()) {
          blocked.insert(t.peer);
          continue;
        }
        take(rank, r, t, queue.front());
        queue.pop_front();
        posted.received[i] = true;
        progress = true;
      }
    }
    return progress;
  }

  void take(Rank& rank, size_t r, const Transfer& t, const Message& m) {
    if (m.bytes != t.bytes)
      error_ =
          fmt::format("rank {} expects {} bytes of {}, who sent {}", r, t.bytes, t.peer, m.bytes);
    else
      std::memcpy(rank.address(t.place, t.message), m.late ? m.late : m.early.data(), t.bytes);
    for (Posted& sender : ranks_[static_cast<size_t>(t.peer)].posted)
      if (sender.step == m.step) --sender.unsent;
  }

  // All it receives is there and all it sends is taken.
  bool may_end(size_t r, const Posted& posted) const {
    bool finished = posted.unsent == 0 && posted.collected;
    const std::vector<Transfer>& transfers = ranks_[r].plan->steps[posted.step].transfers;
    for (size_t i = 0; i < transfers.size(); ++i)
      finished = finished && (transfers[i].send || posted.received[i]);
    return finished;
  }

  void end(size_t r, size_t step) {
    Rank& rank = ranks_[r];
    const auto posted =
        std::ranges::find_if(rank.posted, [=](const Posted& p) { return p.step == step; });
    const std::vector<Transfer>& transfers = rank.plan->steps[step].transfers;
    for (size_t i = 0; i < transfers.size(); ++i)
      if (transfers[i].send &&
          std::memcmp(posted->sent[i].data(),
                      rank.address(transfers[i].place, transfers[i].message), transfers[i].bytes))
        error_ = fmt::format("rank {} changes what step {} sends", r, step);
    rank.done[step] = true;
    rank.posted.erase(posted);
  }

  std::vector<Rank> ranks_;
  std::mt19937& random_;
  const bool one_at_a_time_;
  std::map<std::pair<size_t, size_t>, std::deque<Message>> in_flight_;
  std::string error_;
};

}  // namespace

Packing test_packing(size_t quantum, size_t more) {
  return {quantum, [more](size_t count) { return 4 * count + more; }};
}

Packing block_packing(size_t quantum, size_t more) {
  Packing packing{quantum,
                  [=](size_t count) { return 4 * count + (count + quantum - 1) / quantum * more; }};
  packing.codes = [](size_t count) { return 4 * count; };
  return packing;
}

SumFormat some_sum_format(const Packing& packing, std::mt19937& random) {
  switch (random() % 3) {
    case 0:
      return {};
    case 1:
      return {Format::kSumPacked, packing, true};
    default:
      return {Format::kSumPacked, test_packing(packing.quantum << random() % 3, 20)};
  }
}

Packing packing_for(const Algorithm& algorithm, const Packing& packing) {
  if (algorithm.names.own == "multilevel") return block_packing(packing.quantum);
  if (algorithm.sharing == Sharing::kNone) return packing;
  const auto whole_words = [=](size_t n) { return (packing.bytes(n) + 3) / 4 * 4; };
  return {packing.quantum, whole_words,
          SharedGrid{[=](size_t n) { return whole_words(n) - 4; }, Element::kUint32,
                     algorithm.sharing}};
}

std::string simulate(const std::vector<Plan>& plans, const std::vector<const int32_t*>& send,
                     const std::vector<int32_t*>& recv, std::mt19937& random) {
  std::vector<std::vector<Memory>> memory;
  for (size_t r = 0; r < plans.size(); ++r) memory.push_back({{send[r], recv[r]}});
  return simulate(plans, memory, random);
}

std::string simulate(const std::vector<Plan>& plans, const std::vector<std::vector<Memory>>& memory,
                     std::mt19937& random, int32_t loss) {
  return Simulator(plans, memory, random, loss).run();
}

}  // namespace terse::plan
