#include "machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <memory>
#include <thread>

#include "processor.h"

namespace terse::simt {
namespace internal {
namespace {

Numbers numbers_of(const Machine& machine) {
  Numbers numbers{machine.ranks.size(), 1, 1};
  for (const auto& kernels : machine.ranks)
    for (const Kernel& each : kernels) {
      require_possible(each.launch);
      numbers.blocks = std::max<size_t>(numbers.blocks, each.launch.blocks);
      numbers.threads = std::max<size_t>(numbers.threads, each.launch.threads);
    }
  return numbers;
}

class Runner {
 public:
  explicit Runner(const Machine& machine)
      : machine_(machine),
        random_(machine.seed),
        windows_(machine.windows, numbers_of(machine)),
        ranks_(machine.ranks.size()) {
    for (const RankWindow& window : machine.windows)
      allowed_.emplace_back(window.data, window.bytes, Access::kReadWrite, window.name);
    draw_habits();
    for (size_t rank = 0; rank < ranks_.size(); ++rank) start_kernel(rank);
  }

  void run() {
    while (std::ranges::any_of(ranks_, [](const Rank& rank) { return !rank.blocks.empty(); })) {
      if (random_.below(delay_) == 0) deliver();
      Block* const block = next();
      if (block != nullptr)
        go_on(*block);
      else if (!deliver())
        report_deadlock();
    }
    while (deliver()) continue;  // what nobody has waited for
  }

 private:
  struct Block {
    size_t rank;
    uint32_t key;  // of those that contend, the one of the highest key goes on
    std::unique_ptr<Processor> processor;
  };
  struct Rank {
    size_t kernels = 0;  // that have begun
    std::vector<Block> blocks;
  };

  // Different faults show when ranks keep step, when one is far ahead or a block is left behind,
  // and when flags arrive at once, or late.
  void draw_habits() {
    static constexpr uint32_t kContestants[] = {1, 2, 8, 1000}, kDelays[] = {1, 8, 64, 512};
    contestants_ = kContestants[random_.below(std::size(kContestants))];
    delay_ = kDelays[random_.below(std::size(kDelays))];
    by_rank_ = random_.below(2) == 0;
  }

  void start_kernel(size_t rank) {
    Rank& own = ranks_[rank];
    own.blocks.clear();
    if (own.kernels == machine_.ranks[rank].size()) return;
    const Kernel& kernel = machine_.ranks[rank][own.kernels++];
    Launch launch = kernel.launch;
    launch.seed = random_.next();
    const uint32_t key = random_.below(UINT32_MAX);
    for (uint32_t i = 0; i < launch.blocks; ++i) {
      own.blocks.push_back({rank, by_rank_ ? key : random_.below(UINT32_MAX),
                            std::make_unique<Processor>(
                                launch, kernel.shared_bytes, kernel.shared_alignment, kernel.body,
                                Placement{&windows_, static_cast<uint32_t>(rank), i})});
      own.blocks.back().processor->start_block(i);
    }
  }

  Block* next() {
    std::vector<Block*> ready;
    for (Rank& rank : ranks_)
      for (Block& block : rank.blocks)
        if (block.processor->can_go_on()) ready.push_back(&block);
    Block* best = nullptr;
    for (uint32_t i = 0; i < contestants_ && !ready.empty(); ++i) {
      const uint32_t at = random_.below(static_cast<uint32_t>(ready.size()));
      if (best == nullptr || ready[at]->key > best->key) best = ready[at];
      ready.erase(ready.begin() + at);
    }
    return best;
  }

  void go_on(Block& block) {
    block.processor->go_on();
    if (windows_.has_news()) wake();
    if (block.processor->has_failed()) {
      cancel();
      block.processor->report_failure();
    }
    const auto has_ended = [](const Block& each) { return each.processor->has_ended(); };
    const size_t rank = block.rank;
    if (!std::ranges::all_of(ranks_[rank].blocks, has_ended)) return;
    const Numbers& numbers = windows_.numbers();
    windows_.meet(numbers.of_rank(rank), numbers.blocks * numbers.threads);
    start_kernel(rank);
  }

  bool deliver() {
    if (!windows_.deliver(random_)) return false;
    wake();
    return true;
  }

  void wake() {
    for (Rank& rank : ranks_)
      for (Block& block : rank.blocks) block.processor->wake();
  }

  void cancel() {
    for (Rank& rank : ranks_)
      for (Block& block : rank.blocks) block.processor->cancel();
  }

  [[noreturn]] void report_deadlock() {
    std::string waits;
    for (const Rank& rank : ranks_)
      for (const Block& block : rank.blocks)
        if (!block.processor->has_ended())
          waits += (waits.empty() ? "" : "; ") + block.processor->waits();
    cancel();
    throw Fault(0, 0, "deadlock: " + waits);
  }

  const Machine& machine_;
  Random random_;
  WindowMemory windows_;
  std::deque<Memory> allowed_;
  std::vector<Rank> ranks_;
  uint32_t contestants_ = 1, delay_ = 1;
  bool by_rank_ = false;
};

}  // namespace
}  // namespace internal

void run(const Machine& machine) { internal::Runner(machine).run(); }

void run_with_flags(const Kernel& kernel) {
  using internal::Processor;
  internal::require_possible(kernel.launch);
  std::vector<std::unique_ptr<Processor>> blocks;
  for (uint32_t i = 0; i < kernel.launch.blocks; ++i) {
    const internal::Placement place{
        .block = i, .threads = kernel.launch.threads, .has_flags = true};
    blocks.push_back(std::make_unique<Processor>(kernel.launch, kernel.shared_bytes,
                                                 kernel.shared_alignment, kernel.body, place));
    blocks.back()->start_block(i);
  }
  const auto has_ended = [](const auto& block) { return block->has_ended(); };
  for (;;) {
    for (const auto& block : blocks)
      while (block->can_go_on() && !block->has_failed()) block->go_on();
    const auto failed = std::ranges::find_if(blocks, [](const auto& b) { return b->has_failed(); });
    if (failed != blocks.end()) {
      for (const auto& block : blocks) block->cancel();
      (*failed)->report_failure();
    }
    if (std::ranges::all_of(blocks, has_ended)) return;
    std::this_thread::sleep_for(std::chrono::microseconds(100));  // all wait for others
    for (const auto& block : blocks) block->wake();
  }
}

}  // namespace terse::simt
