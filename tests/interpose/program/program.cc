#include "program.h"

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <utility>

namespace terse::program {
namespace {

struct Datatype {
  ncclDataType_t type;
  size_t bytes;
  const char* name;
};
constexpr Datatype kDatatypes[] = {{ncclFloat32, 4, "float32"},   {ncclFloat16, 2, "float16"},
                                   {ncclBfloat16, 2, "bfloat16"}, {ncclFloat64, 8, "float64"},
                                   {ncclInt32, 4, "int32"},       {ncclInt64, 8, "int64"},
                                   {ncclUint8, 1, "uint8"}};

struct KindFacts {
  const char* name;
  bool reduces;
  bool sends_all, receives_all;  // a piece for each rank
};
constexpr KindFacts kFacts[] = {
    {"allreduce", true, false, false},    {"allgather", false, false, true},
    {"reducescatter", true, true, false}, {"alltoall", false, true, true},
    {"broadcast", false, false, false},   {"reduce", true, false, false},
    {"gather", false, false, true},       {"scatter", false, true, false},
    {"sendrecv", false, false, false},    {"sendrecv", false, false, false}};
static_assert(std::size(kFacts) == kKinds);

const KindFacts& facts(Kind kind) { return kFacts[static_cast<int>(kind)]; }

class Maker {
 public:
  Maker(uint32_t seed, int ranks) : random_(seed), ranks_(ranks) {}

  Program make() {
    Program program;
    const size_t steps = 8 + below(10);
    for (size_t i = 0; i < steps; ++i) {
      if (below(3) == 0) add_repetitions(program);
      const size_t first = made_.size();
      Step step{below(2) ? static_cast<int>(1 + below(3)) : 0, {}, {}, {}, false};
      const size_t calls = step.depth == 0 ? 1 : 1 + below(6);
      const bool all_messages = below(4) == 0;
      if (step.depth > 0 && below(5) == 0) step.bad = bad_call(calls);
      step.only_on_odd_ranks = all_messages && !step.bad && below(2) == 0;
      for (size_t k = 0; k < calls; ++k) {
        made_.push_back(call(first, all_messages ? Kind::kMessage : kind()));
        made_.back().fails = step.bad.has_value();
        step.calls.push_back(made_.back());
      }
      step.request = request(step.calls);
      program.steps.push_back(std::move(step));
    }
    drop_impossible_demands(program);
    return program;
  }

 private:
  // Takes back that a call must be compressed where it cannot: of other types and operations, of
  // nothing, by one rank alone, of what presets keep native (gathers of fp32), on a paused
  // communicator, or on one with exact ranges, which may be most of a small message.
  void drop_impossible_demands(Program& program) const {
    bool is_paused[kCommunicators] = {}, has_ranges[kCommunicators] = {};
    for (Step& step : program.steps) {
      if (const std::optional<Request>& r = step.request) {
        if (r->kind == Request::kExclude)
          has_ranges[r->communicator] = true;
        else
          is_paused[r->communicator] = r->kind == Request::kPause;
      }
      for (Call& c : step.calls) {
        const bool is_native = is_paused[c.communicator] || has_ranges[c.communicator] ||
                               (c.kind == Kind::kAllGather && c.datatype == ncclFloat32);
        if (c.configured == Configured::kMustCompress &&
            (is_native || !is_for_schemes(c) || c.count == 0 || least_size() < 2))
          c.configured = Configured::kScheme;
      }
    }
  }

  size_t below(size_t n) { return random_() % n; }

  // A call that was made before, some times more: mostly a gather, as of a training's steps.
  void add_repetitions(Program& program) {
    if (made_.empty()) return;
    size_t at = below(made_.size());
    for (int tries = 0; tries < 20 && made_[at].kind != Kind::kAllGather; ++tries)
      at = below(made_.size());
    Call c = made_[at];
    if (c.fails || c.input != kFresh) return;
    if (c.repeats == kFresh) c.repeats = static_cast<int>(at);
    for (size_t times = 1 + below(4); times > 0; --times) {
      c.change = static_cast<Change>(below(3));
      made_.push_back(c);
      program.steps.push_back({static_cast<int>(below(2)), {c}, {}, {}, false});
    }
  }

  std::optional<Request> request(const std::vector<Call>& calls) {
    const size_t kind = below(12), call = below(calls.size());
    const int communicator = static_cast<int>(below(kCommunicators));
    const auto seed = static_cast<uint32_t>(random_());
    if (kind == 0)
      return Request{Request::kExclude, calls[call].communicator, static_cast<int>(call), seed};
    // One pause at a time.
    if (paused_ != kFresh && below(3) == 0)
      return Request{Request::kResume, std::exchange(paused_, kFresh), 0, 0};
    if (kind > 1 || paused_ != kFresh) return {};
    paused_ = communicator;
    return Request{Request::kPause, communicator, 0, 0};
  }

  BadCall bad_call(size_t calls) {
    return {below(calls + 1), below(2) ? ncclFloat32 : ncclInt32,
            static_cast<int>(below(kCommunicators))};
  }

  Kind kind() {
    if (below(4) == 0) return Kind::kMessage;
    return static_cast<Kind>(below(2) ? below(3) : below(kKinds));
  }

  // `settled`: the calls before this one's step.
  Call call(size_t settled, Kind kind) {
    Call c{};
    c.kind = kind;
    c.communicator = static_cast<int>(below(kCommunicators));
    c.stream = static_cast<int>(below(kStreams));
    c.datatype = kDatatypes[below(2) ? 0 : below(std::size(kDatatypes))].type;
    c.op = static_cast<Op>(below(3) == 0 ? below(7) : 0);
    c.count = below(8) == 0 ? below(3) : 1 + below(below(3) == 0 ? 60'000 : 3'000);
    c.root = static_cast<int>(below(static_cast<size_t>(least_size())));
    c.to = static_cast<int>(below(static_cast<size_t>(least_size())));
    const bool may_be_in_place =
        c.kind != Kind::kAllToAll && c.kind != Kind::kShift && c.kind != Kind::kMessage;
    c.in_place = below(3) == 0 && may_be_in_place;
    c.offset = element_size(c.datatype) * below(4);
    c.input = c.repeats = kFresh;
    if (may_be_configured(c.kind) && below(4) == 0)
      c.configured = static_cast<Configured>(below(kConfigurations));
    const bool is_float = c.datatype >= ncclFloat16 && c.datatype <= ncclBfloat16;
    if (!is_float && c.op >= Op::kAvg) c.op = Op::kSum;
    if (settled > 0 && below(3) == 0) chain(c, settled);
    return c;
  }

  // Sends what an earlier call received, where that fits.
  void chain(Call& c, size_t settled) {
    const size_t at = last_in_buffers_of(below(settled), settled);
    const Call& before = made_[at];
    bool everywhere = true;
    for (int me = 0; me < ranks_; ++me) everywhere &= receives(before, me);
    if (!everywhere || before.datatype != c.datatype || before.stream != c.stream || c.in_place)
      return;
    for (int rank = 0; rank < ranks_; ++rank)
      if (send_count(c, size_of(c.communicator, rank, ranks_)) >
          recv_count(before, size_of(before.communicator, rank, ranks_)))
        return;
    c.input = static_cast<int>(at);
  }

  // Of what a repeated call received there is the last.
  size_t last_in_buffers_of(size_t call, size_t settled) const {
    const auto home = [&](size_t i) {
      return made_[i].repeats == kFresh ? i : static_cast<size_t>(made_[i].repeats);
    };
    size_t last = settled - 1;
    while (home(last) != home(call)) --last;
    return last;
  }

  int least_size() const { return std::max(1, ranks_ / 2); }

  std::mt19937 random_;
  const int ranks_;
  std::vector<Call> made_;
  int paused_ = kFresh;  // a communicator
};

}  // namespace

const char* name(Kind kind) { return facts(kind).name; }
bool reduces(Kind kind) { return facts(kind).reduces; }

bool chooses_scheme(Configured what) {
  return what == Configured::kScheme || what == Configured::kMustCompress ||
         what == Configured::kSchemeTag;
}

bool is_for_schemes(const Call& c) {
  const bool type =
      c.datatype == ncclFloat32 || c.datatype == ncclFloat16 || c.datatype == ncclBfloat16;
  return type && (!reduces(c.kind) || c.op == Op::kSum || c.op >= Op::kAvg);
}

bool may_be_configured(Kind kind) { return kind != Kind::kShift && kind != Kind::kMessage; }

bool takes_part(const Call& c, int me) {
  return c.kind != Kind::kMessage || me == c.root || me == c.to;
}

bool receives(const Call& c, int me) {
  if (c.kind == Kind::kMessage) return me == c.to;
  const bool to_root_alone = c.kind == Kind::kReduce || c.kind == Kind::kGather;
  return !to_root_alone || me == c.root;
}

std::vector<Call> Program::calls() const {
  std::vector<Call> all;
  for (const Step& step : steps) all.insert(all.end(), step.calls.begin(), step.calls.end());
  return all;
}

Program make_program(uint32_t seed, int ranks) { return Maker(seed, ranks).make(); }

int size_of(int communicator, int rank, int ranks) {
  return communicator == 1 ? (ranks + 1 - rank % 2) / 2 : ranks;
}

int rank_in(int communicator, int rank, int ranks) {
  return communicator == 0 ? rank : communicator == 1 ? rank / 2 : ranks - 1 - rank;
}

size_t element_size(ncclDataType_t datatype) {
  for (const Datatype& d : kDatatypes)
    if (d.type == datatype) return d.bytes;
  return 0;
}

size_t send_count(const Call& c, int size) {
  return c.count * (facts(c.kind).sends_all ? static_cast<size_t>(size) : 1);
}

size_t recv_count(const Call& c, int size) {
  return c.count * (facts(c.kind).receives_all ? static_cast<size_t>(size) : 1);
}

size_t message_count(const Call& c, int size) {
  return std::max(send_count(c, size), recv_count(c, size));
}

std::vector<Range> exact_ranges(const Request& request, size_t elements) {
  std::mt19937 random(request.seed);
  std::vector<Range> ranges;
  const size_t most = 1 + random() % 4;
  for (size_t first = 0; ranges.size() < most;) {
    first += random() % (elements / 3 + 1);
    if (first >= elements) break;
    const size_t count = 1 + random() % std::max<size_t>(1, (elements - first) / 5);
    ranges.push_back({first, count});
    first += count;
  }
  return ranges;
}

std::string describe(const Call& c) {
  constexpr const char* kOps[] = {"sum", "prod", "max", "min", "avg", "premul", "premul-late"};
  std::string type;
  for (const Datatype& d : kDatatypes)
    if (d.type == c.datatype) type = d.name;
  const std::string to = c.kind == Kind::kMessage ? fmt::format(" to {}", c.to) : "";
  constexpr const char* kChanges[] = {"nothing", "a little", "all"};
  const std::string again = c.repeats == kFresh
                                ? ""
                                : fmt::format(" repeats {} with {} changed", c.repeats,
                                              kChanges[static_cast<int>(c.change)]);
  constexpr const char* kConfigured[] = {
      "",      ", configured",     ", exact", ", its own scheme", ", must be compressed",
      ", tag", ", a scheme's tag", ", forced"};
  static_assert(std::size(kConfigured) == kConfigurations);
  return fmt::format("{} {} {} {} root {}{} comm {} stream {}{} offset {} input {}{}{}{}",
                     name(c.kind), type, reduces(c.kind) ? kOps[static_cast<int>(c.op)] : "-",
                     c.count, c.root, to, c.communicator, c.stream, c.in_place ? " in place" : "",
                     c.offset, c.input, again, kConfigured[static_cast<int>(c.configured)],
                     c.fails ? ", in a group that fails" : "");
}

std::string describe(const Request& r) {
  constexpr const char* kNames[] = {"pause", "resume", "exclude of messages as of call"};
  return fmt::format("{} {} on comm {}", kNames[r.kind], r.call, r.communicator);
}

}  // namespace terse::program
