#include <cstring>
#include <deque>
#include <stdexcept>

#include "fused_memory.h"

namespace terse::kernels {
namespace {

using oracle::Bytes;

// Runs a plan on its rank up to the exchange that comes next.
class PlanRunner {
 public:
  PlanRunner(const plan::Plan& plan, Binder& binder)
      : plan_(plan), binder_(binder), scratch_(plan.scratch_bytes + kMemoryAlignment) {}

  // Returns its transfers; null: the plan has ended.
  const std::vector<plan::Transfer>* run() {
    const auto scratch = [this](const plan::Place& p) { return at(p); };
    while (next_ < plan_.steps.size()) {
      const plan::Step& step = plan_.steps[next_++];
      if (!step.transfers.empty()) return &step.transfers;
      for (const plan::Fingerprint& f : step.fingerprints) binder_.fingerprint(f, at(f.target));
      for (const plan::Compute& c : step.compute)
        codec::combine(binder_.bind(c, scratch, scratch, scratch));
      for (const plan::Copy& c : step.copies) binder_.copy(c);
    }
    return nullptr;
  }

  char* at(const plan::Place& place) { return aligned(scratch_, place.offset); }

 private:
  const plan::Plan& plan_;
  Binder& binder_;
  Storage scratch_;
  size_t next_ = 0;
};

void deliver(std::vector<PlanRunner>& ranks,
             const std::vector<const std::vector<plan::Transfer>*>& transfers) {
  for (size_t from = 0; from < ranks.size(); ++from)
    for (size_t to = 0; to < ranks.size(); ++to) {
      std::vector<const plan::Transfer*> sent, received;
      for (const plan::Transfer& t : *transfers[from])
        if (t.send && t.peer == static_cast<int>(to)) sent.push_back(&t);
      for (const plan::Transfer& t : *transfers[to])
        if (!t.send && t.peer == static_cast<int>(from)) received.push_back(&t);
      if (sent.size() != received.size()) throw std::logic_error("a message has no receiver");
      for (size_t i = 0; i < sent.size(); ++i)
        std::memcpy(ranks[to].at(received[i]->place), ranks[from].at(sent[i]->place),
                    sent[i]->bytes);
    }
}

std::vector<Bytes> by_plan(const FusedRun& run, size_t number) {
  const FusedCall& call = run.calls[number];
  plan::Shape shape = shape_of(call, run.ranks);
  std::deque<Memory> memory;
  std::deque<Binder> binders;
  std::deque<plan::Plan> plans;
  std::vector<PlanRunner> runners;
  for (shape.rank = 0; shape.rank < run.ranks; ++shape.rank) {
    memory.push_back(make_memory(run, number, shape.rank));
    binders.emplace_back(call, number, run.ranks, shape.rank, memory.back());
    plans.push_back(build(call, shape));
    runners.emplace_back(plans.back(), binders.back());
  }
  for (;;) {
    std::vector<const std::vector<plan::Transfer>*> transfers;
    for (PlanRunner& each : runners) transfers.push_back(each.run());
    if (transfers.front() == nullptr) break;
    deliver(runners, transfers);
  }
  std::vector<Bytes> results;
  for (const Memory& each : memory) results.push_back(result(each));
  return results;
}

}  // namespace

Results by_plans(const FusedRun& run) {
  Results results;
  for (size_t number = 0; number < run.calls.size(); ++number)
    results.push_back(by_plan(run, number));
  return results;
}

Results before(const FusedRun& run) {
  Results results(run.calls.size());
  for (size_t number = 0; number < run.calls.size(); ++number)
    for (int rank = 0; rank < run.ranks; ++rank)
      results[number].push_back(result(make_memory(run, number, rank)));
  return results;
}

}  // namespace terse::kernels
