#include "plan/headers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "plan/builder.h"

namespace terse::plan {
namespace {

// A rank that packs nothing may send on what others unpack.
bool packs(const Step& step) { return !step.compute.empty() || !step.transfers.empty(); }
bool agrees(const Step& step) { return !step.natives.empty() && !step.is_extra; }

// Returns true for a step that only copies what this rank has.
bool keeps(const Step& step) {
  return step.lane == Lane::kDecode && step.compute.empty() && !step.copies.empty() &&
         std::ranges::all_of(step.copies, [](const Copy& copy) {
           return copy.target.region == Region::kRecv && copy.source.region == Region::kSend;
         });
}

class WithHeaders : Assembly {
 public:
  WithHeaders(Plan plan, const Shape& shape)
      : Assembly(std::move(plan)), shape_(shape), sent_(shape.ranks), received_(shape.ranks) {}

  Plan build() {
    if (std::ranges::none_of(plan_.steps, packs)) return std::move(plan_);
    memory_ = {Region::kScratch, Chunks::round_up(plan_.scratch_bytes, Chunks::kAlignment)};
    // Slots, as many on each rank, however many peers it receives from.
    const size_t slots = Header::kReceived + std::max(shape_.ranks, 2);
    plan_.scratch_bytes = memory_.offset + slots * kHeaderBytes;
    plan_.verdict = memory_;
    const bool by_nccl = std::ranges::any_of(plan_.steps, agrees);
    std::vector<Step> steps = clear();
    std::vector<Header> checks;  // by step
    for (Step& step : steps) checks.push_back(by_nccl ? agree(step) : announce(step));
    const size_t written =
        insert(of_header({Header::Stage::kWrite, memory_, 0, headers_, by_nccl}));
    insert_all(std::move(steps), checks, written);
    return finish();
  }

 private:
  Place slot(size_t index) const { return {memory_.region, memory_.offset + index * kHeaderBytes}; }

  static Step of_header(const Header& header) {
    Step step{.name = "header", .lane = Lane::kDecode, .is_extra = true};
    step.header = header;
    return step;
  }

  // Adds headers ahead of first messages; returns the check of those received.
  Header announce(Step& step) {
    Header check{Header::Stage::kCheck, memory_, headers_, 0, false};
    std::vector<Transfer> transfers;
    for (const Transfer& t : step.transfers) {
      std::vector<bool>& known = t.send ? sent_ : received_;
      if (!known[t.peer]) {
        known[t.peer] = true;
        const size_t at = t.send ? 1 : Header::kReceived + check.first + check.count++;
        transfers.push_back({.peer = t.peer,
                             .send = t.send,
                             .place = slot(at),
                             .bytes = kHeaderBytes,
                             .header = true});
      }
      transfers.push_back(t);
    }
    step.transfers = std::move(transfers);
    headers_ += check.count;
    return check;
  }

  // Makes NCCL compare all headers ahead of the plan's first collective, to which all ranks come.
  Header agree(Step& step) {
    Header check{Header::Stage::kCheck, memory_, 0, 0, true};
    if (!agrees(step) || headers_ != 0) return check;
    check.count = 1;
    headers_ = 2;  // slots
    step.natives.insert(step.natives.begin(), {.collective = Collective::kAllReduce,
                                               .send = slot(Header::kReceived),
                                               .recv = slot(Header::kReceived),
                                               .count = 2 * kHeaderBytes / sizeof(uint32_t),
                                               .element = Element::kUint32,
                                               .operation = Operation::kMax,
                                               .header = true});
    return check;
  }

  // Inserts all steps; copies of the rank's own data follow the first check, too.
  void insert_all(std::vector<Step> steps, const std::vector<Header>& checks, size_t written) {
    std::vector<size_t> at(steps.size(), kNone);
    std::vector<Step> kept;
    size_t checked = kNone;
    bool waits = headers_ != 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      for (size_t& before : steps[i].after) before = at[before];
      if (waits && keeps(steps[i])) {
        kept.push_back(std::move(steps[i]));
        continue;
      }
      if (steps[i].lane == Lane::kCommunicate) steps[i].after.push_back(written);
      // The own header says what a check has found. It is not on its way to anybody then: those
      // whom a check has heard of have had this rank's before.
      if (std::ranges::any_of(steps[i].transfers, &Transfer::header))
        steps[i].after.push_back(checked);
      at[i] = insert(std::move(steps[i]));
      if (checks[i].count == 0) continue;
      Step check = of_header(checks[i]);
      check.after = {at[i]};
      checked = insert(std::move(check));
      waits = false;
      for (Step& step : std::exchange(kept, {})) insert(std::move(step));
    }
  }

  const Shape& shape_;
  Place memory_;
  std::vector<bool> sent_, received_;  // by peer: had a message, and so a header
  size_t headers_ = 0;                 // received
};

}  // namespace

Plan with_headers(Plan plan, const Shape& shape) {
  return WithHeaders(std::move(plan), shape).build();
}

}  // namespace terse::plan
