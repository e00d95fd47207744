#include "engine/run/bind.h"

#include <algorithm>
#include <utility>

#include "engine/run/header.h"
#include "plan/fuse.h"

namespace terse {
namespace {

codec::Part part_of(plan::Part part) {
  constexpr codec::Part kParts[] = {codec::Part::kAll, codec::Part::kParams, codec::Part::kCodes,
                                    codec::Part::kMerged};
  static_assert(std::size(kParts) == static_cast<size_t>(plan::Part::kMerged) + 1);
  return kParts[static_cast<size_t>(part)];
}

codec::Learning::Stage stage_of(plan::Learn::Stage stage) {
  using enum codec::Learning::Stage;
  constexpr codec::Learning::Stage kStages[] = {kWidest, kHistogram, kFit};
  static_assert(std::size(kStages) == static_cast<size_t>(plan::Learn::Stage::kFit) + 1);
  return kStages[static_cast<size_t>(stage)];
}

// Samples at equal distances, in units of 16 bytes. They need only tell replicas from ranks with
// other elements, as the call's number is in the key, too.
void take_samples(codec::Checksum& check) {
  constexpr uint64_t kSamples = codec::kMaxChecked, kSample = 4 << 10, kUnit = 16, kWord = 4;
  const codec::CheckedPieces all = check.of[0];
  if (all.bytes <= kSamples * kSample) return;
  const auto* const data = static_cast<const char*>(all.data);
  const uint64_t last = (all.bytes - kSample) / kUnit * kUnit;
  for (uint64_t i = 0; i < kSamples; ++i) {
    const uint64_t begin = last * i / (kSamples - 1) / kUnit * kUnit;
    const uint64_t bytes = i + 1 < kSamples ? kSample : all.bytes - begin;
    check.of[i] = {data + begin, bytes, 1, i * kSample / kWord};
  }
  check.count = kSamples;
  check.are_samples = true;
}

// Number of parts that a check has.
uint32_t part_count(bool of_samples) {
  return of_samples ? codec::kSampleParts : codec::kContentParts;
}

codec::Variate variate_of(const plan::Compute& compute) {
  using enum codec::Variate;
  constexpr codec::Variate kVariates[] = {kOwn, kMirrored, kDoubled, kShifted};
  static_assert(std::size(kVariates) == static_cast<size_t>(plan::Variate::kShifted) + 1);
  return compute.shared_draw ? kVariates[static_cast<int>(compute.shared_draw->variate)] : kOwn;
}

class Binder {
 public:
  Binder(const Work& work, uint64_t sequence, const Regions& regions, Binding& binding)
      : messages_(work),
        c_(*work.front()->communicator),
        sequence_(sequence),
        regions_(regions),
        binding_(binding) {}

  void bind(const plan::Plan& plan) {
    if (plan.verdict) verdict_ = reinterpret_cast<const uint32_t*>(address(*plan.verdict, 0));
    size_t inputs = 0;
    const auto count = [&](const plan::Compute& compute) { inputs += compute.inputs.size(); };
    for (const plan::Step& step : plan.steps) std::ranges::for_each(step.compute, count);
    if (plan.fused) plan.fused->each_compute(count);
    binding_.sources.clear();
    binding_.sources.reserve(inputs);  // keeps spans into it valid
    if (binding_.batches.size() < plan.steps.size()) binding_.batches.resize(plan.steps.size());
    binding_.copies.resize(binding_.batches.size());
    binding_.checks.resize(binding_.batches.size());
    binding_.learns.resize(binding_.batches.size());
    binding_.headers.clear();
    for (size_t i = 0; i < plan.steps.size(); ++i) {
      binding_.batches[i].clear();
      for (const plan::Compute& compute : plan.steps[i].compute)
        binding_.batches[i].push_back(bind(compute));
      bind(plan.steps[i].copies, binding_.copies[i]);
      bind(plan.steps[i].fingerprints, binding_.checks[i]);
      binding_.learns[i].clear();
      for (const plan::Learn& learn : plan.steps[i].learns)
        binding_.learns[i].push_back(bind(learn));
      if (plan.steps[i].header) binding_.headers.push_back(bind(*plan.steps[i].header));
    }
    if (plan.fused) bind(*plan.fused);
  }

 private:
  // Number of the call among the communicator's collectives, from 1.
  uint64_t number() const {
    const Counters& counters = c_.metrics().counters();
    return counters.collectives() + sequence_ - counters.sequence() + 1;
  }

  // A fused call, whose packed memory is in windows.
  void bind(const plan::Fused& fused) {
    const Job& job = *messages_.front();
    CommWindows& of_ranks = c_.memory().windows();
    const Windows& windows = *of_ranks.get();
    size_t pushed = Windows::kPushed, shared = Windows::kShared;
    if (fused.alternates()) pushed = shared = of_ranks.next_turn();
    char* const own_pushed = windows.area(c_.rank, pushed);
    char* const own_shared = windows.area(c_.rank, shared);
    FusedCall& call = binding_.fused;
    call = {.windows = of_ranks.get(),
            .pushing = fused.pushing(),
            .sharing = fused.sharing(),
            .pushes = std::move(call.pushes),
            .makes = std::move(call.makes),
            .takes = std::move(call.takes),
            .shared = std::move(call.shared),
            .copies = std::move(call.copies),
            .number = number(),
            .own = header_of(job, false),
            .report = c_.mismatch().reserve(),
            .is_ended = c_.backend.is_gpu() ? c_.mismatch().end_of_waits() : nullptr};
    call.pushes.clear();
    call.makes.clear();
    call.takes.clear();
    call.shared.clear();
    for (const plan::Fused::Push& push : fused.pushes)
      call.pushes.push_back(bind(push.compute, nullptr, windows.area(push.peer, pushed)));
    for (size_t i = 0; i < fused.makes.size(); ++i) {
      const plan::Compute& make = fused.makes[i];
      call.makes.push_back(bind(make, own_pushed, own_shared));
      if (fused.made_bytes[i] != 0)
        call.shared.push_back({shared, make.target.offset, fused.made_bytes[i]});
    }
    for (const plan::Compute& take : fused.takes)
      call.takes.push_back(bind(take, own_shared, nullptr));
    bind(fused.copies, call.copies);
    of_ranks.count();
  }

  char* address(const plan::Place& place, size_t message) const {
    return terse::address(place, messages_[message]->request, regions_);
  }

  // Results and states are not written if calls differ.
  const uint32_t* verdict_on(const plan::Place& target) const {
    using enum plan::Region;
    return target.region == kRecv || target.region == kState ? verdict_ : nullptr;
  }

  // Skips copies in place.
  void bind(const std::vector<plan::Copy>& copies, std::vector<Copy>& bound) const {
    bound.clear();
    for (const plan::Copy& copy : copies) {
      char* const target = address(copy.target, 0);
      const char* const source = address(copy.source, 0);
      if (target != source) bound.push_back({target, source, copy.bytes, verdict_on(copy.target)});
    }
  }

  void bind(const std::vector<plan::Fingerprint>& fingerprints,
            std::vector<codec::Checksum>& bound) const {
    static_assert(codec::kContentParts * sizeof(uint64_t) <= plan::kFingerprintBytes);
    bound.clear();
    for (const plan::Fingerprint& f : fingerprints) {
      codec::Checksum& check = bound.emplace_back(
          codec::Checksum{.of = {{address(f.source, 0), f.bytes, 1, 0}},
                          .count = 1,
                          .parts = reinterpret_cast<uint64_t*>(address(f.target, 0)),
                          .part_count = part_count(f.of_samples)});
      if (f.of_samples) take_samples(check);
    }
  }

  codec::Learning bind(const plan::Learn& learn) const {
    using codec::LearningState;
    static_assert(plan::Learn::kBins == codec::kBins &&
                  plan::Learn::kBinsAt == offsetof(LearningState, bins) &&
                  plan::Learn::kStateBytes == sizeof(LearningState));
    const Job& job = *messages_.front();
    const codec::Spec& spec = job.scheme().spec;
    return {.stage = stage_of(learn.stage),
            .dtype = dtype_of(job),
            .bits = spec.bits,
            .rounding = spec.rounding,
            .block = spec.block,
            .count = learn.count,
            .data = job.request.send,
            .state = reinterpret_cast<LearningState*>(address(learn.state, 0)),
            .table = regions_.codebook};
  }

  HeaderStep bind(const plan::Header& header) const {
    using enum codec::HeaderWork::Stage;
    static_assert(plan::kHeaderBytes == sizeof(codec::CallHeader) &&
                  plan::Header::kReceived == codec::HeaderWork::kReceived);
    const Job& job = *messages_.front();
    HeaderStep step =
        header_step(job, {.stage = header.stage == plan::Header::Stage::kWrite ? kWrite : kCheck,
                          .agreed = header.agrees,
                          .first = static_cast<uint32_t>(header.first),
                          .count = static_cast<uint32_t>(header.count),
                          .own = header_of(job, header.agrees),
                          .memory = reinterpret_cast<uint32_t*>(address(header.memory, 0)),
                          .report = c_.mismatch().reserve()});
    step.windows = c_.memory().windows().get();
    step.number = number();
    return step;
  }

  codec::Combine bind(const plan::Compute& compute) {
    return bind(compute, regions_.scratch, regions_.scratch);
  }

  // `from` and `to` stand for scratch, where the compute reads and where it writes.
  codec::Combine bind(const plan::Compute& compute, char* from, char* to) {
    const auto address = [&](const plan::Place& place, char* scratch) {
      return place.region == plan::Region::kScratch ? scratch + place.offset
                                                    : this->address(place, compute.message);
    };
    const Job& job = *messages_[compute.message];
    const codec::Dtype dtype = dtype_of(job);
    const auto format = [&](plan::Format format) -> codec::Format {
      if (format == plan::Format::kRaw) return dtype;
      if (format == plan::Format::kIntraPacked) return *job.scheme().intra.spec;
      if (format == plan::Format::kOuterPacked) return outer_of(job.scheme().forms());
      return format == plan::Format::kSumPacked ? *job.scheme().second : job.scheme().spec;
    };
    const size_t first = binding_.sources.size();
    for (const plan::Input& in : compute.inputs)
      binding_.sources.push_back({address(in.place, from), format(in.format), in.negated});
    const Reduction& reduction = job.compressed().reduction;
    const std::optional<plan::RngKey>& by = compute.rng_key;
    const bool repeats = by && by->repeats;
    // Replicas, which have communicators of their own, draw alike what has a key without them.
    const uint64_t communicator = repeats ? 0
                                  : by    ? c_.agreed().library()
                                          : c_.agreed().rng_stream();
    const codec::Draw draw = codec::make_draw(
        {.seed = job.scheme().seed.value_or(c_.settings.seed),
         .communicator = communicator,
         .sequence = repeats ? 0 : sequence_,
         .rank = compute.shared_draw ? compute.shared_draw->rank : static_cast<uint32_t>(c_.rank),
         .shard = compute.shard,
         .stage = compute.stage,
         .variate = variate_of(compute)});
    const auto* const content =
        by && by->fingerprint
            ? reinterpret_cast<const uint64_t*>(this->address(*by->fingerprint, compute.message))
            : nullptr;
    return {
        .sources = {binding_.sources.data() + first, compute.inputs.size()},
        .target = {address(compute.target, to), format(compute.target_format), draw, compute.origin,
                   part_of(compute.part), content, part_count(!repeats), repeats},
        .factor = compute.averages && reduction.average ? c_.mean_factor() : 1.0f,
        .premultiply = reduction.premultiply,
        .total = compute.count,
        .first = 0,
        .count = compute.count,
        .params_offset = compute.params_offset,
        .sums = compute.sums
                    ? reinterpret_cast<float*>(this->address(*compute.sums, compute.message))
                    : nullptr,
        .codebook = regions_.codebook,
        .verdict = verdict_on(compute.target)};
  }

  const Work& messages_;
  Communicator& c_;
  const uint64_t sequence_;
  const Regions& regions_;
  Binding& binding_;
  const uint32_t* verdict_ = nullptr;  // if the plan has headers
};

}  // namespace

char* address(const plan::Place& place, const Request& request, const Regions& regions) {
  switch (place.region) {
    case plan::Region::kSend:
      return const_cast<char*>(static_cast<const char*>(request.send)) + place.offset;
    case plan::Region::kRecv:
      return static_cast<char*>(request.recv) + place.offset;
    case plan::Region::kExact:
      return regions.exact + place.offset;
    case plan::Region::kState:
      return regions.state + place.offset;
    case plan::Region::kCodebook:
      return reinterpret_cast<char*>(regions.codebook) + place.offset;
    case plan::Region::kScratch:
      break;
  }
  return regions.scratch + place.offset;
}

Request request_of(const plan::Native& n, const Request& call, const Regions& regions) {
  // Indexed by Element, and by Operation.
  const ncclDataType_t types[] = {call.datatype, ncclUint8,    ncclUint32,
                                  ncclFloat32,   ncclBfloat16, ncclUint64};
  const ncclRedOp_t ops[] = {call.op, ncclSum, ncclMax};
  return {.collective = n.collective,
          .send = address(n.send, call, regions),
          .recv = address(n.recv, call, regions),
          .count = n.count,
          .datatype = types[static_cast<size_t>(n.element)],
          .op = ops[static_cast<size_t>(n.operation)],
          .root = n.root};
}

void bind(const plan::Plan& plan, const Work& work, uint64_t sequence, const Regions& regions,
          Binding& binding) {
  binding.busy.store(true);
  Binder(work, sequence, regions, binding).bind(plan);
}

}  // namespace terse
