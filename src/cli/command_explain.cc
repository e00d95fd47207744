// `terse explain`: the decision on a call: the rule, the algorithm, the bytes, and their time on a
// link.
#include <algorithm>

#include "base/error.h"
#include "base/text.h"
#include "cli/asked_machine.h"
#include "cli/commands.h"
#include "cli/link_load.h"
#include "cli/option_checks.h"
#include "cli/texts.h"
#include "engine/call/route.h"
#include "engine/comm/chooser.h"
#include "engine/comm/fusing.h"
#include "engine/comm/savings.h"
#include "engine/comm/shape.h"
#include "plan/algorithms.h"
#include "policy/draft.h"
#include "policy/profile_file.h"
#include "policy/settings.h"
#include "policy/size.h"
#include "report/report.h"

namespace terse::cli {
namespace {

struct ExplainOptions {
  std::string collective = "allreduce", dtype = "float32", op = "sum", bytes = "64M", name,
              tag = "0";
  int ranks = 8, nodes = 1, pods = 1;
  std::string policy, scheme, bandwidth;
  MachineOptions machine;
};

// Indexed by TERSE_BYPASS reason.
constexpr const char* kReasons[] = {"the rule says off",
                                    "only float32, float16 and bfloat16 are compressed",
                                    "only sum, avg and PreMulSum are compressed",
                                    "the message is smaller than the rules ask for",
                                    "there is one rank, and nothing to send",
                                    "a rank lacked the memory for it",
                                    "NCCL sends less between nodes",
                                    "the scheme is for other collectives",
                                    "nothing is predicted to be 10 % faster",
                                    "the ranks do not hold the same",
                                    "what stays exact and the codes are as much",
                                    "the call's configuration is for NCCL",
                                    "it is only observed",
                                    "native is predicted to be faster"};
static_assert(std::size(kReasons) == TERSE_BYPASS_REASONS);

uint64_t parse_bytes(const std::string& text) {
  const std::optional<uint64_t> bytes = parse_size(text);
  if (!bytes) fail(ncclInvalidArgument, "{}: not a number of bytes such as 64M", text);
  if (*bytes > kMaxBytes) fail(ncclInvalidArgument, "{}: no message has so many bytes", text);
  return *bytes;
}

uint64_t parse_tag_option(const std::string& text) {
  const std::optional<uint64_t> tag = parse_tag(text);
  if (!tag) fail(ncclInvalidArgument, "{}: not a tag such as 7 or 0x100", text);
  return *tag;
}

// Call of the largest whole number of elements within the bytes.
Request request_of(const ExplainOptions& o) {
  Request r{.collective = entry_of(collective_names(), o.collective).collective};
  r.datatype = entry_of(dtype_names(), o.dtype).dtype;
  r.op = entry_of(op_names(), o.op).op;
  r.count = 1;
  r.count = parse_bytes(o.bytes) / message_bytes(r, o.ranks);
  r.config.tag = parse_tag_option(o.tag);
  return r;
}

bool names_rules(const Settings& s) { return !s.scheme.empty() || !s.policy_path.empty(); }

// Returns the policy of the command line, of the environment, or of terse run.
Policy policy_of(const ExplainOptions& o) {
  std::vector<Variable> instead;
  if (!o.machine.profile.empty()) instead.push_back({"TERSE_PROFILE", o.machine.profile});
  require_valid_with(instead);
  if (!o.policy.empty()) return read_policy_file(o.policy, settings().min_bytes);
  if (!o.scheme.empty())
    return at("--scheme", [&] { return parse_policy_line(o.scheme, settings().min_bytes); });
  if (names_rules(settings())) return settings().policy;
  fmt::print("rules      those of terse run: {}\n", kDefaultRules);
  return parse_policy_line(kDefaultRules, settings().min_bytes);
}

// Returns true if the rounded bytes_text() says as many.
bool has_four_digits(uint64_t bytes) {
  uint64_t unit = 1, decimals = 1000;
  while (bytes / unit >= 1024) unit *= 1024;
  while (decimals > 1 && bytes / unit * decimals >= 10'000) decimals /= 10;
  return bytes * decimals % unit == 0;
}

// Text of all digits, as rules go by each byte.
std::string exact_bytes_text(uint64_t bytes) {
  return has_four_digits(bytes) ? bytes_text(bytes) : fmt::format("{} B", bytes);
}

void print_call(const ExplainOptions& o, const Request& r, bool gpu) {
  const bool reduces = entry_of(collective_names(), o.collective).reduces;
  fmt::print("call       {}, {}, {}{}, {} {} on {} {}{}{}, {}\n", o.collective,
             exact_bytes_text(message_bytes(r, o.ranks)), print_dtypes(set_of(r.datatype)),
             reduces ? ", " + o.op : "", o.ranks, o.ranks == 1 ? "rank" : "ranks", o.nodes,
             o.nodes == 1 ? "node" : "nodes",
             o.name.empty() ? "" : fmt::format(", communicator \"{}\"", o.name),
             r.config.tag == 0 ? "" : fmt::format(", tag {}", r.config.tag),
             gpu ? "on GPUs (--cpu: on CPUs)" : "on CPUs (--gpu: on GPUs)");
}

// Prints the rules before the one that decides, and the key by which each does not match.
void print_decision(const Policy& policy, const Facts& facts, const Decision& decision,
                    bool is_estimate) {
  const size_t passed = std::min<size_t>(decision.rule, policy.rules.size());
  for (size_t i = 0; i < passed; ++i) {
    const Rule& rule = policy.rules[i];
    const std::string_view refused = rule.match.refusal(facts);
    fmt::print("no match   {}, by its {}: {}{}\n", describe_rule(rule), refused, print_rule(rule),
               refused == "bytes" && rule.match.usual
                   ? fmt::format(" (usual: {} or more{})", print_size(default_min_bytes(facts)),
                                 facts.fused_from > default_min_bytes(facts) ? ""
                                 : is_estimate ? " where fused, by an estimate"
                                               : " where fused")
                   : "");
  }
  if (decision.rule == kNoRule)
    return fmt::print("rule       {}\n", policy.rules.empty() ? "there are none" : "none matches");
  const Rule& rule = policy.rules[decision.rule];
  const std::string why = why_native(rule);
  fmt::print("rule       {}: {}{}\n", describe_rule(rule), print_rule(rule),
             !why.empty()          ? fmt::format(" ({})", why)
             : rule.preset.empty() ? ""
                                   : fmt::format(" (preset {})", rule.preset));
}

// Root as seen from rank 0, which sends: itself if the root sends; else a rank of the last node, so
// that the first node sends.
int root_of(const ExplainOptions& o, const Request& r) {
  const plan::Traits& t = plan::traits(r.collective);
  return t.rooted && t.send.who == plan::Who::kAll ? o.ranks - 1 : 0;
}

// Call with all that its plan depends on but the scheme.
struct Call {
  const ExplainOptions& options;
  const Request& request;
  const plan::Topology& topology;
  const bool gpu;  // by the command line, or the profile
  const Fusing fusing = {.window_bytes = max_window_bytes(settings(), gpu)};

  Machines machines() const {
    return {chunk_policy_of(settings(), plan::default_chunk_policy(gpu)), topology, &fusing};
  }
  size_t bytes() const { return request.count * datatype_size(request.datatype); }
  int root() const { return root_of(options, request); }
  plan::Shape shape_on(int rank, const Scheme& scheme) const {
    return shape_of(scheme.forms(), request.count, datatype_size(request.datatype),
                    {options.ranks, rank, root()}, machines());
  }
};

bool shows_a_node(const ExplainOptions& o, const Request& r) {
  return o.nodes > 1 && !plan::is_point_to_point(r.collective);
}

void print_node(const Load& load) {
  const double ratio = static_cast<double>(load.native) / static_cast<double>(load.compressed);
  fmt::print("a node     sends {} to others in place of {}: {}\n", bytes_text(load.compressed),
             bytes_text(load.native),
             ratio < 1 ? fmt::format("{:.3g} times as much as native", 1 / ratio)
                       : fmt::format("1/{:.4g}", ratio));
}

// Prints every algorithm for the call, beside NCCL's own.
void print_comparison(const Call& call, const Scheme& scheme, const plan::Algorithm* taken) {
  plan::Shape shape = call.shape_on(0, scheme);
  shape.chunk_policy =
      plan::exact_chunks(kMaxBytes);  // in one chunk: the largest plans take their time
  const double rate = call.options.bandwidth.empty() ? 0 : parse_rate(call.options.bandwidth);
  const auto row = [&](std::string_view name, std::string_view rounds, std::string_view peers,
                       const plan::Traffic& sent, bool is_taken) {
    fmt::print(
        "{:<13}  {:>6}  {:>5}  {:>26}  {:>26}{}{}{}\n", name, rounds, peers,
        bytes_text(sent.bytes - sent.off_node), bytes_text(sent.off_node),
        call.options.pods == 1 ? "" : fmt::format("  {:>26}", bytes_text(sent.off_pod)),
        rate == 0 ? "" : "  " + report::show_seconds(static_cast<double>(sent.off_node) / rate),
        is_taken ? "  taken" : "");
  };
  fmt::print("\n{:<13}  {:>6}  {:>5}  {:>26}  {:>26}{}\n", "algorithm", "rounds", "peers",
             "within the busiest node", "out of it",
             call.options.pods == 1 ? "" : fmt::format("  {:>26}", "out of its pod"));
  plan::Traffic native;
  for (const plan::Algorithm& a : plan::algorithms()) {
    if (!plan::is_for(a, call.request.collective, shape) ||
        !a.applies(shape, *plan::find_algo(a.names.own)).applies)
      continue;
    const std::vector<size_t> to = a.build(shape).wire_to;
    const plan::Link link = plan::link_of(a, shape);
    native = link.native;
    const auto peers = std::ranges::count_if(to, [](size_t bytes) { return bytes != 0; });
    row(a.names.own, std::to_string(a.cost(shape).steps),
        a.sharing == plan::Sharing::kSummed ? "" : std::to_string(peers),  // NCCL's own
        link.compressed, &a == taken);
  }
  row("native", "", "", native, taken == nullptr);
}

// Setting by which no call is fused.
const char* what_fuses_none(bool on_gpus) {
  if (settings().fuse == Fuse::kOff) return "by TERSE_FUSE";
  if (!fuses(settings().fuse, on_gpus))
    return "on GPUs by TERSE_FUSE=on alone, which no GPU has run yet";
  return settings().verify != 0 ? "with TERSE_VERIFY" : "by TERSE_WINDOW";
}

// Prints whether ranks of one node fuse the call.
void print_fusion(const plan::Algorithm& algorithm, const plan::Shape& shape, const Scheme& scheme,
                  bool on_gpus) {
  const size_t max_bytes = max_window_bytes(settings(), on_gpus);
  if (max_bytes == 0) return fmt::print("fused      no, {}\n", what_fuses_none(on_gpus));
  if (scheme.delta) return fmt::print("fused      no, for it is of differences\n");
  const plan::Fusion fusion =
      fusion_of(algorithm, shape, {.own_exact = scheme.delta.own_exact}, max_bytes);
  if (fusion.by_rank.empty()) return fmt::print("fused      no, {}\n", fusion.reason);
  fmt::print("fused      in place of these{}, where a rank can share {}\n",
             on_gpus ? ", if there is a kernel for the format" : "",
             bytes_text(room_of(fusion.by_rank.front()).bytes()));
}

// Algorithm of a call, by a profile; null: by the table alone.
plan::Selection selection_of(const Call& call, const Scheme& scheme, const plan::Shape& shape,
                             const model::Profile* profile) {
  codec::Dtype dtype{};
  compressible(call.request.datatype, &dtype);
  const plan::Collective collective = call.request.collective;
  const plan::Algo algorithm = algorithm_by(
      profile, scheme,
      as_chosen_for({collective, call.request.count, dtype, call.options.ranks, call.root()}),
      call.machines());
  const plan::Selection usual = plan::select(collective, shape, scheme.algorithm);
  plan::Selection taken = plan::select(collective, shape, algorithm);
  if (taken.algorithm == usual.algorithm)
    taken.reason = usual.reason;
  else
    taken.reason = fmt::format("the faster number of levels, by the profile \"{}\"", profile->name);
  return taken;
}

// `why`: reason why the call stays native all the same; null: it does not.
void print_plan(const Call& call, const Scheme& scheme, const model::Profile* profile,
                const char* why) {
  const ExplainOptions& o = call.options;
  const plan::Collective collective = call.request.collective;
  const plan::Shape shape = call.shape_on(0, scheme);
  const plan::Selection selection = selection_of(call, scheme, shape, profile);
  const plan::Plan plan =
      plan::build(*selection.algorithm, shape, {.own_exact = scheme.delta.own_exact});
  const auto exchanges =
      std::ranges::count(plan.steps, plan::Lane::kCommunicate, &plan::Step::lane);
  fmt::print("scheme     {}, {}\n", print_scheme(scheme), density(scheme));
  fmt::print("algorithm  {}: {}\n", plan.algorithm, selection.reason);
  fmt::print("plan       {}, {} of them exchanges, scratch {}\n",
             counted(plan.steps.size(), "step"), exchanges, bytes_text(plan.scratch_bytes));
  if (o.nodes == 1) print_fusion(*selection.algorithm, shape, scheme, call.gpu);
  fmt::print("a rank     sends {} in place of {}: 1/{:.4g}\n", bytes_text(plan.sent_bytes()),
             bytes_text(plan.raw_bytes),
             static_cast<double>(plan.raw_bytes) / static_cast<double>(plan.sent_bytes()));
  if (scheme.delta)
    fmt::print(
        "delta      in full while the ranks do not hold the same, nothing while no shard "
        "changes\n");
  Load load{"each rank's link", plan.raw_bytes, plan.sent_bytes()};
  if (plan::is_point_to_point(collective)) {
    if (!o.bandwidth.empty()) print_times(load, o.bandwidth);
    return;
  }
  if (shows_a_node(o, call.request)) {
    load = load_of_node(*selection.algorithm, shape);
    print_node(load);
  }
  if (!o.bandwidth.empty()) print_times(load, o.bandwidth);
  if (!shows_a_node(o, call.request)) return;
  const bool stays =
      !selection.algorithm->answers_to(scheme.algorithm) && load.compressed > load.native;
  if (stays)
    fmt::print("native     {}: only a scheme that names its algorithm (algo=) has it compressed\n",
               kReasons[TERSE_BYPASS_LINK]);
  print_comparison(call, scheme, stays || why != nullptr ? nullptr : selection.algorithm);
}

// Prints what the model has of the call by a profile.
void print_prediction(const Call& call, const Scheme& scheme, const AskedMachine& machine) {
  const model::Profile& profile = *machine.profile;
  codec::Dtype dtype{};
  compressible(call.request.datatype, &dtype);
  const Prospect prospect{call.request.collective, call.request.count, dtype, call.options.ranks,
                          call.root()};
  if (const char* lacking = model::lacks(profile, call.topology))
    return fmt::print("predicted  nothing: the profile \"{}\" says nothing of {}\n", profile.name,
                      lacking);
  const double native = *predict_native(profile, prospect, call.machines()).seconds;
  const std::optional<Prediction> own =
      predict_as_called(profile, scheme, prospect, call.machines());
  if (!own) return;
  const char* const fused = !own->is_fused            ? ""
                            : profile.fused->estimate ? ", fused (an estimate)"
                                                      : ", fused";
  fmt::print(
      "predicted  {} in place of {}, {:.2f} times as fast as native{}, by the profile \"{}\"{}\n",
      report::show_seconds(*own->seconds), report::show_seconds(native), native / *own->seconds,
      fused, profile.name,
      machine.nearest_to.empty() ? "" : ", the nearest to " + machine.nearest_to);
}

// Choice of auto, after a table of its candidates.
Scheme chosen(const Call& call, const Scheme& scheme, const model::Profile& profile) {
  const ExplainOptions& o = call.options;
  codec::Dtype dtype{};
  compressible(call.request.datatype, &dtype);
  const std::vector<Prediction> all = predictions(
      profile, scheme,
      as_chosen_for({call.request.collective, call.request.count, dtype, o.ranks, call.root()}),
      call.machines());
  const Prediction& taken = choose(all);
  fmt::print("auto       {}, by the profile \"{}\", {}\n", print_scheme(scheme), profile.name,
             all.front().measured ? "which has measured such calls" : "which models them");
  if (all.front().lacking != nullptr)
    fmt::print("           {}\n", why_native_alone(profile, call.request.collective, all.front()));
  for (const Prediction& p : all)
    fmt::print("           {:>9}  {:>6}  {}{}\n", report::show_seconds(*p.seconds),
               fmt::format("{:.2f}x", *all.front().seconds / *p.seconds),
               p.scheme.off ? "native" : print_scheme(p.scheme) + (p.is_fused ? "  fused" : ""),
               &p == &taken ? "  taken" : "");
  return taken.scheme;
}

const char* reason_of(int bypass, const Decision& decision, const Request& request) {
  codec::Dtype dtype;
  if (decision.rule == kNoRule && bypass == TERSE_BYPASS_OFF) return "no rule asks for compression";
  if (bypass == TERSE_BYPASS_DTYPE && compressible(request.datatype, &dtype))
    return "the scheme's codes are as wide as the elements";
  if (bypass == TERSE_BYPASS_OP && compressible(request))
    return "with intra=off PreMulSum is NCCL's: a neighbour would multiply by its own number";
  return kReasons[bypass];
}

// Reason of a native call, by a scheme that is for so many ranks.
std::optional<int> bypass_of(const Request& request, int ranks, const Scheme& scheme) {
  if (const auto reason = bypass_reason(request, ranks, scheme)) return reason;
  if (!scheme.automatic && is_native_within_nodes(request, scheme)) return TERSE_BYPASS_OP;
  return {};
}

// Reason why a call with a scheme of its rule's stays native, by what the profile predicts; null:
// it does not. A preset asks for a gain; a scheme that is named is compressed unless it loses much.
std::optional<int> slow_reason(const Call& call, const Policy& policy, const Decision& decision,
                               const Scheme& scheme, const model::Profile& profile) {
  const Request& r = call.request;
  codec::Dtype dtype{};
  if (r.count == 0 || !compressible(r.datatype, &dtype)) return {};
  const Prospect prospect{r.collective, r.count, dtype, call.options.ranks, call.root()};
  if (policy.is_of_preset(decision.rule) &&
      Savings().are_too_little(&profile, scheme, prospect, call.machines()))
    return TERSE_BYPASS_AUTO;
  if (scheme.delta || (!profile.fused && is_fused(scheme, prospect, call.machines()))) return {};
  const bool is_slow = !names_its_algorithm(scheme, prospect, call.machines()) &&
                       Savings().are_a_loss(&profile, scheme, prospect, call.machines());
  return is_slow ? std::optional<int>(TERSE_BYPASS_SLOW) : std::nullopt;
}

// Returns true if a rule takes a call as one that is fused, for its size, and it is not.
bool is_too_small_in_steps(const Call& call, const Policy& policy, const Decision& decision,
                           const Facts& facts) {
  const Request& r = call.request;
  const int ranks = call.options.ranks;
  codec::Dtype dtype{};
  if (decision.scheme == nullptr || !policy.rules[decision.rule].match.usual ||
      facts.bytes >= default_min_bytes_in_steps(facts) || !compressible(r.datatype, &dtype) ||
      bypass_reason(r, ranks, *decision.scheme))
    return false;
  const std::optional<Scheme> scheme = on_ranks(*decision.scheme, ranks);
  return scheme &&
         !is_fused(*scheme, {r.collective, r.count, dtype, ranks, call.root()}, call.machines());
}

void explain(const ExplainOptions& o) {
  const plan::Topology topology = topology_of(o.ranks, o.nodes, o.pods);
  const AskedMachine machine = asked_machine(o.machine, topology);
  const Policy policy = policy_of(o);
  const Request request = request_of(o);
  Facts facts = facts_of(request, o.ranks, topology, o.name, machine.gpu);
  const Call call{o, request, topology, machine.gpu};
  if (codec::Dtype dtype{}; machine.profile && compressible(request.datatype, &dtype))
    facts.fused_from =
        fused_from(*machine.profile, request.collective, dtype, o.ranks, call.machines());
  Decision decision = policy.decide(facts);
  if (is_too_small_in_steps(call, policy, decision, facts)) {
    facts.fused_from = ~size_t{0};
    decision = policy.decide(facts);
  }
  std::optional<int> bypass = decision.bypass;
  Scheme scheme;
  if (decision.scheme != nullptr) {
    bypass = bypass_reason(request, o.ranks, *decision.scheme);
    if (!bypass) {
      scheme = require_on_ranks(*decision.scheme, o.ranks);
      bypass = bypass_of(request, o.ranks, scheme);
    }
  }
  const bool chooses = !bypass && scheme.automatic && request.count != 0;
  if (chooses && !machine.profile)
    fail(ncclInvalidArgument, "auto needs a profile: --device (as H100), --profile, or {}",
         kProfileHint);
  if (!bypass) {
    require_feasible(request.collective, call.shape_on(0, scheme), chooses);
    require_few_on_a_node(call.shape_on(0, scheme), 1 << 22);
  }
  print_call(o, request, call.gpu);
  print_decision(policy, facts, decision,
                 machine.profile && machine.profile->fused && machine.profile->fused->estimate);
  print_warnings(policy, stderr);
  if (chooses) {
    scheme = chosen(call, scheme, *machine.profile);
    bypass = scheme.off ? TERSE_BYPASS_AUTO : bypass_of(request, o.ranks, scheme);
  }
  std::optional<int> slow;
  if (!bypass && machine.profile && !chooses)
    slow = slow_reason(call, policy, decision, scheme, *machine.profile);
  if (slow == TERSE_BYPASS_AUTO) bypass = slow;
  if (bypass) return fmt::print("native     {}\n", reason_of(*bypass, decision, request));
  if (request.count == 0) return fmt::print("nothing    the call has no elements\n");
  print_plan(call, scheme, machine.profile ? &*machine.profile : nullptr,
             slow ? kReasons[*slow] : nullptr);
  if (machine.profile && !chooses && !plan::is_point_to_point(request.collective))
    print_prediction(call, scheme, machine);
  if (slow)
    fmt::print("native     {}: only a scheme that names its algorithm (algo=) has it compressed\n",
               kReasons[*slow]);
  if (!machine.profile && call.gpu && policy.is_of_preset(decision.rule))
    fmt::print(
        "profile    none (--device H100, --profile): on known GPUs a preset goes by the nearest, "
        "and\n           leaves native what gains less than 10 %\n");
}

}  // namespace

void add_explain(CLI::App& app) {
  const auto o = std::make_shared<ExplainOptions>();
  CLI::App* c = app.add_subcommand(
      "explain",
      "Say what becomes of a call: which rule matches, which algorithm does it, how many "
      "bytes it sends. Without --policy and --scheme by the settings in the environment, or "
      "else by the rules of terse run");
  c->add_option("--collective", o->collective, "The call's")
      ->check(one_of(names_of(collective_names())))
      ->capture_default_str();
  c->add_option("--dtype", o->dtype, "Of its elements")
      ->check(one_of(names_of(dtype_names())))
      ->capture_default_str();
  c->add_option("--op", o->op, "Of a collective that reduces")
      ->check(one_of(names_of(op_names())))
      ->capture_default_str();
  c->add_option("--bytes", o->bytes, "Of the whole message, with K, M or G")
      ->check(readable_by(parse_bytes))
      ->capture_default_str();
  c->add_option("--ranks", o->ranks, "Of the communicator")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  c->add_option("--nodes", o->nodes, "Hosts that the ranks are on")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  c->add_option("--pods", o->pods, "Pods that the nodes are in (TERSE_POD)")
      ->check(CLI::Range(1, kMaxRanks))
      ->capture_default_str();
  add_machine_options(*c, o->machine);
  c->add_option("--name", o->name, "The communicator's name, ncclConfig_t.commName");
  c->add_option("--tag", o->tag, "Of the call, ncclCollConfig_t.userProfilerTag")
      ->check(readable_by(parse_tag_option))
      ->capture_default_str();
  CLI::Option* file =
      c->add_option("--policy", o->policy, "A policy file, as TERSE_POLICY")->check(not_empty);
  c->add_option("--scheme,SCHEME", o->scheme, "Rules on a line, as TERSE_SCHEME")
      ->check(not_empty)
      ->excludes(file);
  c->add_option("--bandwidth", o->bandwidth, "Of a link, e.g. 10gbit: adds the time on it")
      ->check(readable_by(parse_rate));
  c->callback([o] { explain(*o); });
}

}  // namespace terse::cli
