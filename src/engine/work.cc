#include "engine/work.h"

#include <algorithm>

namespace terse {
namespace {

bool is_message(const Job& job) { return plan::is_point_to_point(job.request.collective); }

MessageKey key_of(const Job& job) {
  const Request& r = job.request;
  return {.send = r.collective == plan::Collective::kSend,
          .peer = r.root,
          .count = r.count,
          .element_bytes = datatype_size(r.datatype),
          .spec = job.native ? std::nullopt : std::optional(job.scheme.spec)};
}

}  // namespace

std::vector<Work> works_of(const std::vector<Job>& jobs) {
  std::vector<Work> works, batches;
  for (const Job& job : jobs) {
    const auto known = std::ranges::find_if(batches, [&](const Work& batch) {
      return batch.front()->communicator == job.communicator;
    });
    if (!is_message(job))
      works.push_back({&job});
    else if (known == batches.end())
      batches.push_back({&job});
    else
      known->push_back(&job);
  }
  works.insert(works.end(), batches.begin(), batches.end());
  return works;
}

const plan::Plan& plan_of(const Work& work) {
  const Job& first = *work.front();
  const Request& r = first.request;
  if (!is_message(first))
    return first.communicator->plan_for({r.collective, r.root, r.count, dtype_of(first),
                                         first.scheme.spec, first.scheme.algorithm});
  BatchKey key;
  for (const Job* job : work) key.push_back(key_of(*job));
  return first.communicator->plan_for(key);
}

codec::Dtype dtype_of(const Job& job) {
  codec::Dtype dtype{};
  compressible(job.request.datatype, &dtype);
  return dtype;
}

}  // namespace terse
