#include "plan/native_traffic.h"

namespace terse::plan {

size_t element_bytes(Element element, size_t of_call) {
  const size_t bytes[] = {of_call, 1, 4, 4, 2, 8};
  return bytes[static_cast<size_t>(element)];
}

Traffic native_traffic(const std::vector<Step>& steps, const Shape& s) {
  Traffic sum;
  for (const Step& step : steps)
    for (const Native& n : step.natives)
      if (n.recv.region != Region::kExact && !n.meets && !n.header)
        sum += raw_traffic(n.collective, n.count * element_bytes(n.element, s.element_bytes),
                           {s.ranks, s.rank, n.root}, s.topology);
  return sum;
}

}  // namespace terse::plan
