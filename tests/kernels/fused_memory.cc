#include "fused_memory.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "codec/checksum.h"
#include "codec/layout.h"
#include "plan/algorithms.h"
#include "plan/delta.h"
#include "plan/topology.h"
#include "support.h"

namespace terse::kernels {

using codec::Bytes;
using codec::Random;
using plan::Region;

plan::Shape shape_of(const FusedCall& call, int ranks) {
  const codec::Spec spec = call.spec;
  plan::Packing packing{spec.block, [spec](size_t n) { return codec::body_size(spec, n); }};
  packing.draws = spec.rounding != codec::Rounding::kNearest;
  packing.shares_draws = spec.rounding == codec::Rounding::kStochastic;
  plan::Shape shape{.count = call.count,
                    .element_bytes = codec::dtype_size(call.dtype),
                    .ranks = ranks,
                    .packing = packing,
                    .topology = plan::even_topology(ranks, 1)};
  shape.chunk_policy = plan::exact_chunks(SIZE_MAX);
  return shape;
}

plan::Plan build(const FusedCall& call, const plan::Shape& shape) {
  const plan::Selection selection =
      plan::select(call.collective, shape, plan::find_algo(call.algorithm).value());
  return plan::build(*selection.algorithm, shape, {.own_exact = call.own_exact});
}

char* aligned(Storage& bytes, size_t offset) {
  const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
  return reinterpret_cast<char*>(
      (begin + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment + offset);
}

Memory make_memory(const FusedRun& run, size_t number, int rank,
                   std::pmr::memory_resource* memory) {
  const FusedCall& call = run.calls[number];
  const size_t element = codec::dtype_size(call.dtype), own = call.count * element;
  const size_t ranks = static_cast<size_t>(run.ranks);
  const auto is = [&](plan::Collective collective) { return call.collective == collective; };
  using enum plan::Collective;
  const size_t send = is(kReduceScatter) || is(kAllToAll) ? ranks * own : own;
  const size_t recv = is(kAllGather) || is(kAllToAll) ? ranks * own : own;
  Memory m(memory);
  m.bytes[0].resize(std::max(send, recv) + 4 * kMemoryAlignment);
  m.bytes[1].resize(recv + 4 * kMemoryAlignment);
  m.fingerprints.resize(plan::kFingerprintBytes + kMemoryAlignment);
  m.recv_bytes = recv;
  char* const at = aligned(m.bytes[0], call.offset * element);
  const size_t part = static_cast<size_t>(rank) * own;
  m.send = call.in_place && recv > send ? at + part : at;
  m.recv = !call.in_place ? aligned(m.bytes[1], call.offset * element)
           : send > recv  ? at + part
                          : at;
  Random random(run.data_seed + 1000 * number + static_cast<uint64_t>(rank));
  const codec::Floats x = codec::numbers(codec::Kin::kGaussian, send / element, random);
  const Bytes elements = oracle::to_memory(call.dtype, x);
  std::memcpy(m.send, elements.data(), send);
  return m;
}

Bytes result(const Memory& memory) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(memory.recv);
  return {begin, begin + memory.recv_bytes};
}

char* Binder::address(const plan::Place& place, const Address& scratch) const {
  switch (place.region) {
    case Region::kSend:
      return memory_.send + place.offset;
    case Region::kRecv:
      return memory_.recv + place.offset;
    case Region::kScratch:
      return scratch(place);
    default:
      throw std::logic_error("a region that these calls do not have");
  }
}

codec::Combine Binder::bind(const plan::Compute& c, const Address& source, const Address& target,
                            const Address& fingerprint) {
  const auto format = [&](plan::Format f) -> codec::Format {
    if (f == plan::Format::kRaw) return call_.dtype;
    return call_.spec;
  };
  std::vector<codec::Source>& sources = sources_.emplace_back();
  for (const plan::Input& in : c.inputs)
    sources.push_back({address(in.place, source), format(in.format), in.negated});
  using enum codec::Variate;
  constexpr codec::Variate kVariates[] = {kOwn, kMirrored, kDoubled, kShifted};
  const codec::Draw draw = codec::make_draw(
      {.seed = 5,
       .communicator = 9,
       .sequence = c.rng_key && c.rng_key->repeats ? 0 : number_,
       .rank = c.shared_draw ? c.shared_draw->rank : static_cast<uint32_t>(rank_),
       .shard = c.shard,
       .stage = c.stage,
       .variate = c.shared_draw ? kVariates[static_cast<int>(c.shared_draw->variate)] : kOwn});
  codec::Combine work{
      .sources = sources,
      .target = {address(c.target, target), format(c.target_format), draw, c.origin},
      .factor = c.averages && call_.average ? 1.0f / static_cast<float>(ranks_) : 1.0f,
      .total = c.count,
      .count = c.count,
      .params_offset = c.params_offset};
  if (c.rng_key && c.rng_key->fingerprint) {
    work.target.content = reinterpret_cast<const uint64_t*>(fingerprint(*c.rng_key->fingerprint));
    work.target.content_parts = codec::kContentParts;
  }
  return work;
}

void Binder::fingerprint(const plan::Fingerprint& f, char* to) const {
  codec::checksum({.of = {{address(f.source, {}), f.bytes, 1, 0}},
                   .count = 1,
                   .parts = reinterpret_cast<uint64_t*>(to),
                   .part_count = codec::kContentParts});
}

void Binder::copy(const plan::Copy& c) const {
  std::memmove(address(c.target, {}), address(c.source, {}), c.bytes);
}

}  // namespace terse::kernels
