#include "executor.h"

#include <numeric>
#include <utility>
#include <vector>

#include "processor.h"

namespace terse::simt::internal {

void run(const Launch& launch, size_t shared_bytes, size_t shared_alignment,
         const std::function<void(void* shared)>& body) {
  require_possible(launch);
  Processor processor(launch, shared_bytes, shared_alignment, body);
  Random random(launch.seed);
  std::vector<uint32_t> order(launch.blocks);
  std::iota(order.begin(), order.end(), 0);
  for (uint32_t i = launch.blocks; i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
  for (const uint32_t block : order) processor.run_block(block);
}

}  // namespace terse::simt::internal
