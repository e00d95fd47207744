#include "shape.h"

namespace terse::perf {
namespace {

std::size_t share_of(std::size_t total, std::size_t align, int nranks) {
  return total / static_cast<std::size_t>(nranks) / align * align;
}

}  // namespace

Shape whole_shape(std::size_t total, std::size_t align, int) {
  return {total, total, total, 0, 0, align};
}

Shape gathering_shape(std::size_t total, std::size_t align, int nranks) {
  const std::size_t share = share_of(total, align, nranks);
  return {share, share * static_cast<std::size_t>(nranks), share, share, 0, align};
}

Shape scattering_shape(std::size_t total, std::size_t align, int nranks) {
  const std::size_t share = share_of(total, align, nranks);
  return {share * static_cast<std::size_t>(nranks), share, share, 0, share, align};
}

Shape exchanging_shape(std::size_t total, std::size_t align, int nranks) {
  const std::size_t share = share_of(total, align, nranks);
  const std::size_t all = share * static_cast<std::size_t>(nranks);
  return {all, all, share, 0, 0, align};
}

std::size_t total_of_same(std::size_t count, int) { return count; }

std::size_t total_of_gathered(std::size_t count, int nranks) {
  return count * static_cast<std::size_t>(nranks);
}

double one(int) { return 1; }

double others_share(int nranks) { return 1.0 * (nranks - 1) / nranks; }

// Each element crosses the bus twice: once to be reduced, once to be handed out.
double twice_others_share(int nranks) { return 2.0 * (nranks - 1) / nranks; }

}  // namespace terse::perf
