#include <limits>

#include "collective.h"

namespace terse::perf {
namespace {

Shape get_shape(std::size_t total, std::size_t, int) { return {total, total, total, 0, 0}; }

std::size_t total_of_input(std::size_t count, int) { return count; }

// Each element crosses the bus twice, in (n-1)/n shares: once to be reduced, once to be handed out.
double bus_factor(int nranks) { return 2.0 * (nranks - 1) / nranks; }

Origin get_origin(int, std::size_t element, const Shape&) {
  return {Origin::kReduced, element, std::numeric_limits<std::size_t>::max()};
}

ncclResult_t native(const Call& c) {
  return ncclAllReduce(c.send, c.receive, c.count, c.type, c.op, c.comm, c.stream);
}

ncclResult_t quantized(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.all_reduce(c.send, c.receive, c.count, c.type, c.op, scheme, c.comm, c.stream);
}

}  // namespace

const Collective kAllReduce = {"all_reduce_perf", true,       true,   get_shape, total_of_input,
                               bus_factor,        get_origin, native, quantized};

}  // namespace terse::perf
