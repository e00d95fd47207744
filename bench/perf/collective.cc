#include "collective.h"

#include <bit>
#include <stdexcept>

#include "nccl_check.h"
#include "traffic.h"

namespace terse::perf {
namespace {

void require_power_of_two(const Options&, int nranks) {
  if (std::has_single_bit(static_cast<unsigned>(nranks))) return;
  throw std::invalid_argument("a hypercube has a power of two of ranks, and there are " +
                              std::to_string(nranks));
}

const Collective kCollectives[] = {
    {.program = "all_reduce_perf",
     .operations = Operations::kReducing,
     .same_everywhere = true,
     .shape = whole_shape,
     .total_of_input = total_of_same,
     .busbw = twice_others_share,
     .origin = of_all_reduce,
     .native = native_all_reduce,
     .quantized = quantized_all_reduce},
    {.program = "all_gather_perf",
     .same_everywhere = true,
     .shape = gathering_shape,
     .total_of_input = total_of_gathered,
     .busbw = others_share,
     .origin = of_all_gather,
     .native = native_all_gather,
     .quantized = quantized_all_gather},
    {.program = "reduce_scatter_perf",
     .operations = Operations::kReducing,
     .shape = scattering_shape,
     .total_of_input = total_of_same,
     .busbw = others_share,
     .origin = of_reduce_scatter,
     .native = native_reduce_scatter,
     .quantized = quantized_reduce_scatter},
    {.program = "broadcast_perf",
     .rooted = true,
     .same_everywhere = true,
     .shape = whole_shape,
     .total_of_input = total_of_same,
     .origin = of_broadcast,
     .native = native_broadcast,
     .quantized = quantized_broadcast},
    {.program = "reduce_perf",
     .operations = Operations::kReducing,
     .rooted = true,
     .only_root_receives = true,
     .shape = whole_shape,
     .total_of_input = total_of_same,
     .origin = of_reduce,
     .native = native_reduce,
     .quantized = quantized_reduce},
    {.program = "alltoall_perf",
     .checked_in_place = false,
     .shape = exchanging_shape,
     .total_of_input = total_of_same,
     .busbw = others_share,
     .origin = of_all_to_all,
     .native = native_all_to_all,
     .lacks_native = lacks_all_to_all,
     .quantized = quantized_all_to_all,
     .messages = to_each},
    {.program = "alltoallv_perf",
     .checked_in_place = false,
     .shape = traffic_shape,
     .total_of_input = total_of_same,
     .busbw = others_share,
     .origin = of_all_to_all_v,
     .messages = to_each_its_count,
     .require = require_traffic,
     .notes = traffic_notes},
    {.program = "gather_perf",
     .rooted = true,
     .only_root_receives = true,
     .shape = gathering_shape,
     .total_of_input = total_of_gathered,
     .busbw = others_share,
     .origin = of_gather,
     .native = native_gather,
     .lacks_native = lacks_gather,
     .quantized = quantized_gather,
     .messages = to_the_root},
    {.program = "scatter_perf",
     .rooted = true,
     .shape = scattering_shape,
     .total_of_input = total_of_same,
     .busbw = others_share,
     .origin = of_scatter,
     .native = native_scatter,
     .lacks_native = lacks_scatter,
     .quantized = quantized_scatter,
     .messages = from_the_root},
    {.program = "sendrecv_perf",
     .operations = Operations::kNamed,
     .checked_in_place = false,
     .shape = whole_shape,
     .total_of_input = total_of_same,
     .origin = of_send_recv,
     .messages = to_the_next},
    // What has come is sent on: with a lossy scheme the ranks end with different bytes.
    {.program = "hypercube_perf",
     .operations = Operations::kBlank,
     .shape = gathering_shape,
     .total_of_input = total_of_gathered,
     .algbw = others_share,
     .busbw = others_share,
     .origin = of_all_gather,
     .messages = along_a_dimension,
     .steps = hypercube_steps,
     .require = require_power_of_two},
};

}  // namespace

std::span<const Collective> collectives() { return kCollectives; }

const Collective& find_collective(std::string_view name) {
  for (const Collective& collective : kCollectives) {
    if (collective.program == std::string(name) + "_perf") return collective;
  }
  throw std::invalid_argument("there is no collective " + std::string(name));
}

void run_step(const Collective& collective, const Call& call, const Scheme* scheme) {
  if (scheme != nullptr) {
    check_terse(scheme->api(), collective.quantized != nullptr
                                   ? collective.quantized(scheme->api(), scheme->get(), call)
                                   : exchange(collective.messages(call), call, scheme));
    return;
  }
  const bool native = collective.native != nullptr &&
                      (collective.lacks_native == nullptr || !collective.lacks_native());
  check_nccl(native ? collective.native(call) : exchange(collective.messages(call), call, nullptr),
             "the collective");
}

}  // namespace terse::perf
