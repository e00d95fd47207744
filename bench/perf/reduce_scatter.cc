#include <limits>

#include "collective.h"

namespace terse::perf {
namespace {

Shape get_shape(std::size_t total, std::size_t align, int nranks) {
  const auto n = static_cast<std::size_t>(nranks);
  const std::size_t share = total / n / align * align;
  return {share * n, share, share, 0, share};
}

std::size_t total_of_input(std::size_t count, int) { return count; }

double bus_factor(int nranks) { return 1.0 * (nranks - 1) / nranks; }

Origin get_origin(int rank, std::size_t element, const Shape& shape) {
  return {Origin::kReduced, static_cast<std::size_t>(rank) * shape.receive + element,
          std::numeric_limits<std::size_t>::max()};
}

ncclResult_t native(const Call& c) {
  return ncclReduceScatter(c.send, c.receive, c.count, c.type, c.op, c.comm, c.stream);
}

ncclResult_t quantized(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.reduce_scatter(c.send, c.receive, c.count, c.type, c.op, scheme, c.comm, c.stream);
}

}  // namespace

const Collective kReduceScatter = {"reduce_scatter_perf",
                                   true,
                                   false,
                                   get_shape,
                                   total_of_input,
                                   bus_factor,
                                   get_origin,
                                   native,
                                   quantized};

}  // namespace terse::perf
