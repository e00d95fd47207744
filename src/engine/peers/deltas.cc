#include "engine/peers/deltas.h"

#include <algorithm>
#include <deque>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text.h"
#include "engine/peers/shard_sample.h"
#include "engine/peers/vote.h"
#include "engine/peers/wait.h"
#include "engine/run/work.h"

namespace terse {
namespace {

using plan::Base;

// Vote of a rank on a call: alike on all ranks that hold the same.
struct Held {
  uint64_t id = 0, check = 0;  // id of the base, 0: none; its check
  uint64_t shadows = 0;        // of the kind, on the rank
  uint8_t unchanged = 0;       // the rank sends what it sent last
  uint8_t known = 0;           // had a base that no fallback has ended
  uint8_t lacks_memory = 0;    // for a base
  uint8_t extreme = 0;         // an element that it sends is extreme (codec/checksum.h)
  uint8_t spoiled = 0;         // an element of what it held was
  uint8_t unknown = 0;         // lacks the memory to find out
  uint8_t none[2] = {};
};

// Calls compared at a time; at least one, whatever the number of ranks.
constexpr size_t kMaxAtOnce = kMaxVoteBytes / sizeof(Held);
static_assert(sizeof(Held) <= kMinVoteBytes);
using HeldOfCalls = std::array<Held, kMaxAtOnce>;

size_t calls_at_once(int ranks) { return (words_bytes(ranks) - sizeof(BuildMark)) / sizeof(Held); }

}  // namespace

template <>
constexpr uint64_t kLayout<Held> = layout_of("Held", &Held::id, &Held::check, &Held::shadows,
                                             &Held::unchanged, &Held::known, &Held::lacks_memory,
                                             &Held::extreme, &Held::spoiled, &Held::unknown,
                                             &Held::none);

namespace {

// Verdict on the votes of all ranks.
struct Verdict {
  bool same = true, first = true, unchanged = true, lacks_memory = false;
  bool extreme = false, spoiled = false, unknown = false;
  size_t fewest = SIZE_MAX;  // min of shadows

  InFull why_in_full() const {
    if (first) return InFull::kFirst;
    if (spoiled) return InFull::kNonfinite;
    return lacks_memory ? InFull::kMemory : InFull::kOthers;
  }
};

// Call under way to its verdict.
struct DeltaCall {
  Job* job;
  ShadowKind kind;
  size_t index;  // among those of its communicator
  Shadow* shadow = nullptr;
  std::vector<float> sample = {};
  uint64_t content = 0;
  std::string trouble = {};  // of this rank, which lacks the memory for checks
  Held held = {};
  Verdict verdict = {};

  Communicator& communicator() const { return *job->communicator; }
  Shadows& shadows() const { return communicator().memory().shadows(); }
  size_t shard_bytes() const { return kind.count * codec::dtype_size(kind.dtype); }
  // A buffer may come to have another layer's weights, whose difference would be as large as they
  // are.
  bool holds_base() const {
    return shadow != nullptr && shadow->id != 0 && is_near(shadow->sample, sample);
  }
  // Checks of what is held, and of what is sent.
  codec::Checksum& held_check() const { return shadows().check(2 * index); }
  codec::Checksum& sent_check() const { return shadows().check(2 * index + 1); }
};

ShadowKind shadow_kind_of(const Job& job) {
  return {job.request.count, dtype_of(job), job.scheme().spec, job.scheme().delta};
}

// Checks all shards as this rank has them: its own as the others have it.
void check_what_is_held(const DeltaCall& a, Stream lane) {
  const size_t bytes = a.shard_bytes();
  const uint64_t words = codec::check_words(bytes);
  const uint64_t ranks = a.communicator().ranks, own = a.communicator().rank;
  codec::Checksum& check = a.held_check();
  check.bits = codec::extreme_bits(a.kind.dtype);
  if (a.kind.delta.base == Base::kShadow) {
    check.of[0] = {a.shadow->memory, bytes, ranks, 0};
    check.count = 1;
  } else {
    const char* const recv = static_cast<const char*>(a.job->request.recv);
    check.of[0] = {recv, bytes, own, 0};
    check.of[1] = {a.shadow->memory, bytes, 1, own * words};
    check.of[2] = {recv + (own + 1) * bytes, bytes, ranks - own - 1, (own + 1) * words};
    check.count = 3;
  }
  a.communicator().backend.checksum(lane, check);
}

void check_what_is_sent(const DeltaCall& a, Stream lane) {
  codec::Checksum& check = a.sent_check();
  check.of[0] = {a.job->request.send, a.shard_bytes(), 1, 0};
  check.count = 1;
  check.bits = codec::extreme_bits(a.kind.dtype);
  a.communicator().backend.checksum(lane, check);
}

// Drops kinds that do not come back, for room.
void drop_old_kinds(const DeltaCall& a) {
  while (const ShadowKind* const old = a.shadows().superfluous(a.kind)) {
    if (a.shadows().count(*old) != 0) wait_for_all(a.communicator());
    a.shadows().drop(*old);
  }
}

// Reserves memory for checks, a few kilobytes, and at first a stream set. Without it this rank
// takes part, and says so.
void reserve(DeltaCall& a) {
  drop_old_kinds(a);
  a.shadows().note(a.kind);
  if (a.shadows().has_stale(a.kind)) {
    wait_for_all(a.communicator());
    a.shadows().free_stale(a.kind);
  }
  try {
    a.communicator().memory().stream_sets().of(a.job->request.stream);
    a.shadows().room();
    a.sent_check();
  } catch (const std::exception& e) {
    a.trouble = e.what();
  }
}

// Looks at the call's buffers.
void enqueue_checks(DeltaCall& a) {
  if (!a.trouble.empty()) return;
  Communicator& c = a.communicator();
  const Stream lane = lane_after_all(c, a.job->request.stream);
  a.sample = sample_of_shard(c, a.job->request.send, a.kind, lane);
  a.shadow = a.kind.delta.base == Base::kShadow
                 ? a.shadows().find(a.kind, std::span<const float>(a.sample))
                 : a.shadows().find(a.kind, a.job->request.recv);
  check_what_is_sent(a, lane);
  if (a.holds_base()) check_what_is_held(a, lane);
  c.backend.record(c.memory().stream_sets().of(a.job->request.stream).finished_event(), lane);
  c.memory().stream_sets().of(a.job->request.stream).has_prior_work = true;
}

void read_checks(DeltaCall& a) {
  if (a.held.unknown = !a.trouble.empty(); a.held.unknown != 0) return;
  Communicator& c = a.communicator();
  wait_for(c, c.memory().stream_sets().of(a.job->request.stream).lanes().front());
  a.content = codec::total(a.sent_check().parts);
  a.held.extreme = codec::any_extreme(a.sent_check());
  a.held.known = a.shadow != nullptr && !a.shadow->fell_back;
  a.held.spoiled = a.shadow != nullptr && a.shadow->overwritten;
  a.held.lacks_memory = a.shadow != nullptr && a.shadow->memory == nullptr;
  a.held.shadows = a.shadows().count(a.kind);
  if (!a.holds_base()) return;
  // A sum with a difference may be larger than what was sent.
  a.held.spoiled = codec::any_extreme(a.held_check());
  if (a.held.spoiled != 0) return;
  a.held.id = a.shadow->id;
  a.held.check = codec::total(a.held_check().parts);
  a.held.unchanged = a.content == a.shadow->content;
}

Verdict verdict_on(const DeltaCall& a, const Vote<HeldOfCalls>& vote) {
  Verdict v{.same = a.held.id != 0};
  for (const HeldOfCalls& of_rank : vote.all()) {
    const Held& other = of_rank[a.index % calls_at_once(a.communicator().ranks)];
    v.same = v.same && other.id == a.held.id && other.check == a.held.check;
    v.first = v.first && other.known == 0;
    v.unchanged = v.unchanged && other.unchanged != 0;
    v.lacks_memory = v.lacks_memory || other.lacks_memory != 0;
    v.extreme = v.extreme || other.extreme != 0;
    v.spoiled = v.spoiled || other.spoiled != 0;
    v.unknown = v.unknown || other.unknown != 0;
    v.fewest = std::min<size_t>(v.fewest, other.shadows);
  }
  return v;
}

// Reason why calls do not ask any more.
const char* reason_to_give_up(InFull why, Base base) {
  if (why == InFull::kMemory) return "a rank has no memory to keep what was gathered";
  return base == Base::kShadow
             ? "the ranks never send what all of them know. Is it activations, or ever new weights?"
             : "the ranks never hold the same of each other. Are these buffers used for something "
               "else, too? Memory that does not last between calls is for delta=shadow";
}

void gather_in_full(DeltaCall& a, InFull why, size_t fewest) {
  const Communicator& c = a.communicator();
  if (why == InFull::kOthers)
    c.log(LogLevel::kInfo,
          "AllGather of {} goes in full: the ranks do not hold the same of each other",
          counted(a.kind.count, "element"));
  const Base base = a.kind.delta.base;
  const size_t bytes = plan::shadow_bytes(base, c.ranks, a.shard_bytes());
  if (a.shadow == nullptr && a.shadows().has_many_unproven(a.kind)) {
    wait_for_all(c);
    a.shadows().free_one_unproven(a.kind);
  }
  Shadow& shadow = a.shadows().renew(a.kind, a.shadow, bytes, why, fewest);
  a.shadow = &shadow;
  if (a.shadows().gave_up(a.kind))
    c.log(LogLevel::kWarn, "AllGathers of {} stay native from now on: {}",
          counted(a.kind.count, "element"), reason_to_give_up(why, base));
  a.job->compressed().delta = {shadow.memory != nullptr ? base : Base::kNone,
                               plan::Gathers::kInFull, a.kind.delta.own_exact};
}

// Gathers as usual, and keeps nothing.
void pass_by(const DeltaCall& a) {
  const bool first = a.shadows().pass_by(a.kind, a.shadow);
  a.communicator().log(first ? LogLevel::kWarn : LogLevel::kInfo,
                       "AllGather of {} goes in full: there are NaNs, infinities or elements too "
                       "large for differences in it",
                       a.kind.count);
  a.job->compressed().delta = {Base::kNone, plan::Gathers::kInFull, a.kind.delta.own_exact};
}

// Falls back to NCCL, and keeps nothing.
void do_without(const DeltaCall& a) {
  const bool first = a.shadows().do_without(a.shadow);
  a.communicator().log(
      first ? LogLevel::kWarn : LogLevel::kInfo, "AllGather of {} goes natively: {}",
      counted(a.kind.count, "element"),
      a.trouble.empty() ? "a rank has no memory to compare what the ranks hold" : a.trouble);
}

void apply_verdict(DeltaCall& a) {
  const Verdict& v = a.verdict;
  if (v.unknown) return do_without(a);
  if (v.extreme) return pass_by(a);
  const Differences& delta = a.kind.delta;
  const bool due = v.same && delta.every != 0 && a.shadow->calls >= delta.every;
  if (v.same && (v.unchanged || !due)) {
    a.shadows().use(a.kind, *a.shadow, v.unchanged);
    a.job->compressed().delta = {
        delta.base, v.unchanged ? plan::Gathers::kNothing : plan::Gathers::kDifferences,
        delta.own_exact};
  } else {
    gather_in_full(a, due ? InFull::kEvery : v.why_in_full(), v.fewest);
  }
  a.shadow->buffer = a.job->request.recv;
  a.shadow->content = a.content;
  a.shadow->sample = std::move(a.sample);
  a.job->compressed().shadow = a.shadow;
}

// Calls of one communicator that its ranks compare.
struct DeltaRound {
  Communicator* communicator;
  std::vector<DeltaCall> calls;

  // Calls of the k-th batch that is compared at once.
  std::span<DeltaCall> batch(size_t k) {
    const size_t most = calls_at_once(communicator->ranks);
    const size_t begin = std::min(k * most, calls.size());
    return std::span(calls).subspan(begin, std::min(most, calls.size() - begin));
  }
};

// Compares the k-th batch of calls of each communicator. Returns false if none has so many.
bool compare(std::span<DeltaRound> rounds, size_t k) {
  std::deque<Vote<HeldOfCalls>> votes;
  std::vector<std::span<DeltaCall>> batches;
  for (DeltaRound& m : rounds) {
    const std::span<DeltaCall> batch = m.batch(k);
    if (batch.empty()) continue;
    HeldOfCalls mine{};
    std::ranges::transform(batch, mine.begin(), &DeltaCall::held);
    votes.emplace_back(*m.communicator, mine, std::nullopt, true,
                       sizeof(Held) * calls_at_once(m.communicator->ranks));
    batches.push_back(batch);
  }
  if (votes.empty()) return false;
  // The ranks have agreed before: one that does not come is late.
  run_votes(votes, Timeout::kLateRank);
  for (size_t i = 0; i < batches.size(); ++i)
    for (DeltaCall& a : batches[i]) a.verdict = verdict_on(a, votes[i]);
  return true;
}

// Returns true for a kind that gave up, whose memory is freed at its next call.
bool is_given_up(Communicator& c, const ShadowKind& kind) {
  if (!c.memory().shadows().gave_up(kind)) return false;
  c.memory().shadows().note(kind);
  if (c.memory().shadows().count(kind) != 0) {
    wait_for_all(c);
    c.memory().shadows().free(kind);
  }
  return true;
}

std::vector<DeltaRound> rounds_of(std::span<Job* const> jobs) {
  std::vector<DeltaRound> rounds;
  for (Job* job : jobs) {
    Communicator& c = *job->communicator;
    const ShadowKind kind = shadow_kind_of(*job);
    if (c.recording(job->request.stream) != 0 || is_given_up(c, kind)) continue;
    auto known = std::ranges::find(rounds, &c, &DeltaRound::communicator);
    if (known == rounds.end()) known = rounds.insert(known, {&c, {}});
    known->calls.push_back({job, kind, known->calls.size()});
  }
  return rounds;
}

}  // namespace

std::vector<const Job*> decide_deltas(std::span<Job* const> jobs) {
  std::vector<DeltaRound> rounds = rounds_of(jobs);
  for (const DeltaRound& m : rounds) m.communicator->memory().shadows().begin_round();
  const auto each = [&](const auto& step) {
    for (DeltaRound& m : rounds)
      m.communicator->with_context([&] { std::ranges::for_each(m.calls, step); });
  };
  each(reserve);
  each(enqueue_checks);
  each(read_checks);
  size_t batches = 0;
  while (compare(rounds, batches)) ++batches;
  each(apply_verdict);
  std::vector<const Job*> unknown;
  for (const DeltaRound& m : rounds)
    for (const DeltaCall& a : m.calls)
      if (a.verdict.unknown) unknown.push_back(a.job);
  return unknown;
}

void take_back_deltas(const Jobs& jobs) {
  for (const Job* job : jobs) {
    const auto& [scheme, reduction, delta, shadow] = job->compressed();
    if (delta.gathers != plan::Gathers::kAsUsual)
      job->communicator->memory().shadows().take_back(shadow_kind_of(*job), shadow, delta.gathers);
  }
}

}  // namespace terse
