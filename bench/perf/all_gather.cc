#include "collective.h"

namespace terse::perf {
namespace {

Shape get_shape(std::size_t total, std::size_t align, int nranks) {
  const auto n = static_cast<std::size_t>(nranks);
  const std::size_t share = total / n / align * align;
  return {share, share * n, share, share, 0};
}

std::size_t total_of_input(std::size_t count, int nranks) {
  return count * static_cast<std::size_t>(nranks);
}

double bus_factor(int nranks) { return 1.0 * (nranks - 1) / nranks; }

Origin get_origin(int, std::size_t element, const Shape& shape) {
  const std::size_t within = element % shape.send;
  return {static_cast<int>(element / shape.send), within, shape.send - within};
}

ncclResult_t native(const Call& c) {
  return ncclAllGather(c.send, c.receive, c.count, c.type, c.comm, c.stream);
}

ncclResult_t quantized(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.all_gather(c.send, c.receive, c.count, c.type, scheme, c.comm, c.stream);
}

}  // namespace

const Collective kAllGather = {"all_gather_perf", false,      true,   get_shape, total_of_input,
                               bus_factor,        get_origin, native, quantized};

}  // namespace terse::perf
