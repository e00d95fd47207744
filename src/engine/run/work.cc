#include "engine/run/work.h"

#include <algorithm>
#include <iterator>

#include "plan/native_traffic.h"

namespace terse {
namespace {

MessageKey key_of(const Job& job) {
  const Request& r = job.request;
  return {.send = r.collective == plan::Collective::kSend,
          .peer = r.root,
          .count = r.count,
          .element_bytes = datatype_size(r.datatype),
          .spec = job.is_native() ? std::nullopt : std::optional(job.scheme().spec)};
}

}  // namespace

bool is_message(const Job& job) { return plan::is_point_to_point(job.request.collective); }

std::pmr::vector<Work> works_of(const Jobs& jobs) {
  std::pmr::vector<Work> works(jobs.get_allocator()), batches(jobs.get_allocator());
  works.reserve(jobs.size());
  for (Job* job : jobs) {
    const auto known = std::ranges::find_if(batches, [&](const Work& batch) {
      return batch.front()->communicator == job->communicator;
    });
    if (!is_message(*job))
      works.emplace_back().push_back(job);
    else if (known == batches.end())
      batches.emplace_back().push_back(job);
    else
      known->push_back(job);
  }
  std::ranges::move(batches, std::back_inserter(works));
  return works;
}

PlanPointer plan_of_collective(const Job& job, const Extra& extra) {
  const Request& r = job.request;
  Communicator& c = *job.communicator;
  return c.with_context([&] {
    const PlanPointer plan = c.routing().plans().of(
        {r.collective, r.root, r.count, dtype_of(job), job.scheme().forms(), job.scheme().algorithm,
         job.compressed().delta, extra.verified, extra.learns});
    const PlanPointer& fused = plan->with_windows;
    return fused != nullptr && c.memory().windows().cover(*fused->fused) ? fused : plan;
  });
}

PlanPointer plan_of(const Work& work, const Extra& extra) {
  const Job& first = *work.front();
  if (!is_message(first)) return plan_of_collective(first, extra);
  BatchKey key(work.get_allocator());
  key.reserve(work.size());
  for (const Job* job : work) key.push_back(key_of(*job));
  Communicator& c = *first.communicator;
  return c.with_context([&] { return c.routing().plans().of(key); });
}

namespace {

plan::Traffic traffic_of(const Communicator& c, const Request& r, size_t bytes) {
  return plan::raw_traffic(r.collective, bytes, {c.ranks, c.rank, r.root}, c.topology());
}

}  // namespace

plan::Traffic native_traffic(const Communicator& c, const Request& r) {
  return traffic_of(c, r, r.count * datatype_size(r.datatype));
}

namespace {

// `packed`: bytes of the plan that are the message's.
Sent sent(const Job& job, const plan::Plan& plan, size_t packed) {
  const Communicator& c = *job.communicator;
  const Request& r = job.request;
  const plan::Traffic raw = native_traffic(c, r);
  if (!is_message(job)) {
    plan::Traffic wire = plan::traffic_to(plan.wire_to, c.rank, c.topology());
    wire += plan.native;
    return {raw, wire};
  }
  return {raw, traffic_of(c, r, packed)};  // a message goes the same way
}

}  // namespace

std::pmr::vector<Sent> sent(const Work& work, const plan::Plan& plan) {
  std::pmr::vector<size_t> packed(work.size(), 0, work.get_allocator());
  if (is_message(*work.front()))
    for (const plan::Step& step : plan.steps)
      for (const plan::Transfer& t : step.transfers)
        if (t.send) packed[t.message] += t.bytes;
  std::pmr::vector<Sent> all(work.get_allocator());
  all.reserve(work.size());
  for (size_t i = 0; i < work.size(); ++i) all.push_back(sent(*work[i], plan, packed[i]));
  return all;
}

std::string title(const Work& work, const plan::Plan& plan) {
  const Job& job = *work.front();
  if (work.size() > 1) return fmt::format("{} messages {} B", work.size(), plan.raw_bytes);
  return fmt::format("{}{} {} {} B", plan.fused != nullptr ? "fused " : "",
                     plan::name(job.request.collective),
                     job.is_native() ? "native" : print_scheme(job.scheme()), plan.raw_bytes);
}

std::string name_of(const Work& work) {
  if (work.size() > 1) return fmt::format("{} messages", work.size());
  return plan::name(work.front()->request.collective);
}

size_t step_bytes(const Work& work, const plan::Step& step) {
  size_t sum = 0;
  for (const plan::Transfer& t : step.transfers) sum += t.send ? t.bytes : 0;
  for (const plan::Compute& c : step.compute)
    sum += c.count * datatype_size(work[c.message]->request.datatype);
  const Communicator& own = *work.front()->communicator;
  for (const plan::Native& n : step.natives)
    sum += n.count * plan::element_bytes(n.element, datatype_size(work.front()->request.datatype)) *
           plan::extent(plan::traits(n.collective).send, {own.ranks, own.rank, n.root});
  return sum;
}

codec::Dtype dtype_of(const Job& job) {
  codec::Dtype dtype{};
  compressible(job.request.datatype, &dtype);
  return dtype;
}

StateKind state_kind(const Job& job) { return {dtype_of(job), job.scheme().spec}; }

CallKind kind_of(const Job& job) {
  return {job.route.rule, job.request.collective, without_seed(job.scheme())};
}

const Job* first_compressed(const Work& work) {
  const auto found = std::ranges::find(work, false, &Job::is_native);
  return found == work.end() ? nullptr : *found;
}

CodebookKind codebook_kind(const Job& job) {
  const Request& r = job.request;
  return {r.collective, r.count, dtype_of(job), job.scheme().spec, job.scheme().learn};
}

bool may_learn(const Job& job) {
  return codec::descriptor(job.scheme().spec.codec).codebook &&
         job.scheme().learn != Learn{.calls = {}};
}

bool learns_at(const Job& job, uint64_t call) {
  return may_learn(job) && job.scheme().learn.at(call);
}

}  // namespace terse
