#include "engine/run/header.h"

#include <initializer_list>

namespace terse {
namespace {

constexpr uint32_t kMark = 0x31535254;  // "TRS1"

uint32_t digest(std::initializer_list<uint64_t> fields) {
  uint64_t sum = 0x9e3779b97f4a7c15;
  for (const uint64_t field : fields) {
    sum = (sum ^ field) * 0xff51afd7ed558ccd;
    sum ^= sum >> 32;
  }
  return static_cast<uint32_t>(sum);
}

uint32_t digest(const codec::Spec& s) {
  return digest({static_cast<uint64_t>(s.codec), static_cast<uint64_t>(s.rounding), s.bits, s.block,
                 static_cast<uint64_t>(s.scale), s.hadamard, s.ranks});
}

// Digest of what two ranks must have alike to decode each other: not levels, nor seeds.
uint32_t digest(const Job& job) {
  const Intra& intra = job.scheme().intra;
  const std::optional<codec::Spec>& second = job.scheme().second;
  const std::optional<codec::Spec>& outer = job.scheme().outer;
  const plan::Delta& delta = job.compressed().delta;
  return digest({digest(job.scheme().spec), intra.off, intra.spec ? digest(*intra.spec) : 0,
                 second ? digest(*second) : 0, outer ? digest(*outer) : 0,
                 job.scheme().algorithm.index, static_cast<uint64_t>(delta.base),
                 static_cast<uint64_t>(delta.gathers), delta.own_exact});
}

CallClass class_of(const Job& job) {
  using enum CallClass::Reduces;
  const Request& r = job.request;
  if (!plan::traits(r.collective).reduces) return {r.collective, dtype_of(job), kNot};
  return {r.collective, dtype_of(job),
          premultiplies(r)                     ? kPreMulSum
          : job.compressed().reduction.average ? kAverage
                                               : kSum};
}

}  // namespace

codec::CallHeader header_of(const Job& job, bool agrees) {
  const Request& r = job.request;
  const uint64_t count = r.count;
  return {{kMark, agrees ? kNoSender : static_cast<uint32_t>(job.communicator->rank),
           pack(class_of(job)), static_cast<uint32_t>(r.root), digest(job),
           static_cast<uint32_t>(count), static_cast<uint32_t>(count >> 32), 0}};
}

HeaderStep header_step(const Job& job, const codec::HeaderWork& work) {
  const auto fail = [](const HeaderStep& step) {
    static_cast<const Communicator*>(step.context)->health().fail_on_mismatch(step.stream);
  };
  return {work, fail, job.communicator};
}

}  // namespace terse
