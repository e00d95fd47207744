#include "engine/peers/agree.h"

#include <algorithm>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/peers/host_hash.h"
#include "engine/peers/settings_digest.h"
#include "engine/peers/vote.h"
#include "policy/nearest_profile.h"
#include "policy/this_machine.h"

namespace terse {
namespace {

// Vote of a rank at an agreement.
struct Hello {
  uint64_t ordinal = 0;   // counted by rank 0
  uint64_t leader = 0;    // set by rank 0
  uint64_t identity = 0;  // set by rank 0; no other communicator's
  uint64_t host = 0;
  uint64_t pod = 0;       // hash of its name; 0: none
  uint64_t gigabits = 0;  // of the host's network; 0: unknown
  SettingsDigest settings;
  WireText<104> scheme;  // named by the caller
  WireText<80> name;     // of the communicator, if the policy goes by it
  WireText<56> device;   // name of the GPU
};
// Requires that all versions have the same size, so that ranks of different ones can meet and say
// so.
static_assert(sizeof(Hello) == kVoteBytes);

}  // namespace

template <>
constexpr uint64_t kLayout<SettingsDigest> = layout_of(
    "SettingsDigest", &SettingsDigest::variables, &SettingsDigest::error, &SettingsDigest::policy,
    &SettingsDigest::profile, &SettingsDigest::levels, &SettingsDigest::numbers);
template <>
constexpr uint64_t kLayout<Hello> = layout_of("Hello", &Hello::ordinal, &Hello::leader,
                                              &Hello::identity, &Hello::host, &Hello::pod,
                                              &Hello::gigabits, &Hello::settings, &Hello::scheme,
                                              &Hello::name, &Hello::device);

namespace {

uint64_t random_identity() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

bool same(const Scheme* a, const Scheme* b) {
  return a == b || (a != nullptr && b != nullptr && without_seed(*a) == without_seed(*b));
}

// Rank's side of an agreement: its own vote, and those of all ranks, or of its peer.
class Handshake {
 public:
  using All = std::span<const std::unique_ptr<Handshake>>;

  // `alone`: no other handshake of the communicator is under way.
  Handshake(const Agreement& agreement, bool alone)
      : c_(*agreement.communicator),
        scheme_(agreement.scheme),
        peer_(agreement.peer),
        mine_(hello()),
        vote_(c_, mine_, peer_, alone) {
    if (!numbers_comm_) return;
    control_buffer_ = make_control_buffer(c_, kWordsBytes);
    c_.agreed().begin();
  }

  ~Handshake() {
    if (numbers_comm_ && !agreed_) c_.agreed().withdraw();  // the next handshake numbers it
  }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  bool is_on(const Communicator* c) const { return &c_ == c; }
  bool is_of_all() const { return !peer_; }
  HostAllGather& all_gather() { return vote_.all_gather(); }
  // Returns true if the ranks have never agreed on anything, so that one may do without terse.
  bool is_first() const { return c_.agreed().identity() == 0; }

  // Throws Error if this rank could not read its own settings.
  void require_own() const {
    if (const std::string& error = c_.settings.error; !error.empty())
      c_.fail(ncclInvalidArgument, "{}", error);
  }

  void read() { vote_.read(); }

  // Throws what the ranks do not agree on: all see it, and drain. `all`: handshakes that took place
  // with this one, and have been read.
  void conclude(All all) {
    vote_.require_same_builds();
    vote_.each_rank([&](int r) { require_readable(r); });
    vote_.each_rank([&](int r) { compare_settings(r); });
    vote_.each_rank([&](int r) { compare_scheme(r, all); });
    std::optional<model::Profile> nearest;
    plan::Topology topology;
    if (numbers_comm_) {
      topology = this->topology();
      nearest = nearest_profile_or_fail(topology);
    }
    agreed_ = true;
    if (numbers_comm_) {
      const Hello& leader = vote_.of(0);
      c_.agreed().conclude(leader.ordinal, leader.leader, leader.identity);
      (void)c_.is_reporting();  // fixed from the first agreement on
      c_.memory().adopt(std::move(control_buffer_));
      c_.routing().plans().learn(std::move(topology));
      const auto& own = c_.settings.profile;
      c_.routing().learn(std::move(nearest), own ? &*own : nullptr);
      for (const Rule& rule : c_.settings.policy.rules)
        if (const auto scheme = on_ranks(rule.scheme, c_.ranks)) c_.agreed().add(*scheme, {});
    }
    if (scheme_ != nullptr) c_.agreed().add(*scheme_, peer_);
  }

 private:
  // Loads what the machine needs, unless the rank compresses nothing.
  void load() const {
    if (scheme_ != nullptr ? scheme_->off : !c_.settings.policy.compresses()) return;
    c_.with_context([&] { c_.backend.load(); });
  }

  // Loads first: nothing is posted if that fails.
  Hello hello() const {
    load();
    const std::string& pod = c_.settings.pod;
    Hello mine{.host = host_hash(c_.settings),
               .pod = pod.empty() ? 0 : fingerprint(pod),
               .settings = SettingsDigest(c_.settings)};
    if (scheme_ != nullptr) mine.scheme = WireText<104>(print_scheme(without_seed(*scheme_)));
    if (numbers_comm_ && c_.backend.is_gpu()) {
      mine.device = WireText<56>(c_.backend.device_name());
      mine.gigabits = network_gigabits();
    }
    if (c_.settings.policy.asks_name()) mine.name = WireText<80>(c_.name());
    if (numbers_comm_ && c_.rank == 0) {
      mine.ordinal = c_.agreed().propose(next_ordinal);
      mine.leader = leader_of(c_.settings.process);
      mine.identity = random_identity();
    }
    return mine;
  }

  // Reports a rank's own error before those of others.
  void require_readable(int r) const {
    require_own();
    if (const auto& theirs = vote_.of(r).settings.error; !theirs.empty())
      c_.fail(ncclInvalidUsage, "rank {} has a setting that it cannot read: {}", r,
              theirs.beginning());
  }

  void compare_settings(int r) const {
    const Hello &mine = mine_, &other = vote_.of(r);
    if (const std::string text = differences(other.settings, mine.settings, r); !text.empty())
      c_.fail(ncclInvalidUsage, "settings that must be alike on all ranks differ: {}", text);
    if (other.name != mine.name)
      c_.fail(ncclInvalidUsage,
              "the policy goes by names, and this communicator's is {} on rank {}, but {} on this "
              "rank",
              other.name.quoted(), r, mine.name.quoted());
  }

  // Compares schemes in any order: what one rank sends first, its peer may receive last.
  void compare_scheme(int r, All all) const {
    const bool is_shared = std::ranges::any_of(all, [&](const auto& one) {
      const bool may_stand_for_this =
          one.get() == this || (peer_ && one->is_on(&c_) && one->peer_ == peer_);
      return may_stand_for_this && one->vote_.of(r).scheme == mine_.scheme;
    });
    if (!is_shared)
      c_.fail(ncclInvalidUsage, "the scheme of rank {} is {}, but this rank's {}", r,
              vote_.of(r).scheme.quoted(), mine_.scheme.quoted());
  }

  plan::Topology topology() const {
    std::vector<uint64_t> hosts, pods;
    for (const Hello& hello : vote_.all()) {
      hosts.push_back(hello.host);
      pods.push_back(hello.pod);
    }
    plan::Topology topology = plan::topology_of(hosts);
    const std::string why = plan::put_into_pods(pods, &topology);
    if (!why.empty() && c_.rank == 0) c_.log(LogLevel::kInfo, "TERSE_POD is ignored: {}", why);
    return topology;
  }

  // Built-in profile, if the settings have none. Throws Error if rules with auto need one.
  std::optional<model::Profile> nearest_profile_or_fail(const plan::Topology& topology) const {
    if (c_.settings.profile) return {};
    std::optional<model::Profile> nearest;
    if (!c_.settings.no_profile) nearest = nearest_profile(machine(), topology);
    if (!nearest && c_.settings.policy.chooses())
      c_.fail(ncclInvalidArgument, "auto needs a profile: {}", kProfileHint);
    return nearest;
  }

  // Machine of all ranks: its GPUs if all have the same, and the fastest network of any.
  Machine machine() const {
    Machine found{.device = vote_.of(0).device.beginning()};
    for (const Hello& hello : vote_.all()) {
      if (hello.device != vote_.of(0).device) found.device.clear();
      found.bandwidth = std::max(found.bandwidth, static_cast<double>(hello.gigabits) * 1e9 / 8);
    }
    return found;
  }

  Communicator& c_;
  const Scheme* const scheme_;
  const std::optional<int> peer_;
  // The first agreement of all ranks numbers the communicator.
  const bool numbers_comm_ = !c_.agreed().introduced() && !peer_;
  const Hello mine_;
  Vote<Hello> vote_;
  // Buffer of the communicator, made now, while there is memory.
  std::unique_ptr<ControlBuffer> control_buffer_;
  bool agreed_ = false;
};

using Handshakes = std::vector<std::unique_ptr<Handshake>>;

// Poisons the communicators of calls that are not made here: other ranks, which have some of them
// in other groups, may make them.
void poison(std::span<const Agreement> agreements, const std::exception& cause) noexcept {
  for (const Agreement& a : agreements) a.communicator->poison(a.stream, cause);
}

// Concludes all handshakes, for ranks of other threads have some of them without the others. A
// failure is alike on all ranks of its communicator, or on the two that have the message.
void conclude(const Handshakes& handshakes, std::vector<Agreement> agreements) {
  std::optional<Error> first;
  std::vector<HostAllGather*> failed;
  for (const auto& handshake : handshakes) handshake->read();
  for (const auto& handshake : handshakes) try {
      handshake->conclude(handshakes);
    } catch (const Error& e) {
      if (!first) first = e;
      failed.push_back(&handshake->all_gather());
      std::erase_if(agreements, [&](const Agreement& a) {
        return handshake->is_on(a.communicator) && (handshake->is_of_all() || a.alone);
      });
    }
  if (!first) return;
  drain_all_gathers(failed);
  poison(agreements, *first);
  throw *first;
}

// Agreements of all ranks need ranks that know each other: of two agreements at once the first may
// fail, and the other not.
bool agreed(const Agreement& a) {
  const Agreed& agreed = a.communicator->agreed();
  return (a.peer || agreed.introduced()) && (a.scheme == nullptr || agreed.has(*a.scheme, a.peer));
}

// Returns true if two agreements take one handshake.
bool covers(const Agreement& one, const Agreement& other) {
  return one.communicator == other.communicator && same(one.scheme, other.scheme) &&
         (!one.peer || one.peer == other.peer);
}

// Agreements to be compared: first those of all ranks, which then cover those of two.
std::vector<Agreement> new_ones(std::vector<Agreement> agreements) {
  std::stable_partition(agreements.begin(), agreements.end(),
                        [](const Agreement& a) { return !a.peer; });
  std::vector<Agreement> found;
  for (const Agreement& a : agreements) {
    const auto covers_it = [&](const Agreement& other) { return covers(other, a); };
    if (agreed(a) || std::ranges::any_of(found, covers_it)) continue;
    if (a.communicator->recording(a.stream) != 0)
      a.communicator->fail(
          ncclInvalidUsage,
          "{} used for the first time while a graph is recorded; use it once before",
          a.scheme != nullptr ? fmt::format("the scheme \"{}\" is", print_scheme(*a.scheme))
                              : "the communicator is");
    found.push_back(a);
  }
  return found;
}

Handshakes handshakes_of(std::span<const Agreement> agreements) {
  Handshakes open;
  for (const Agreement& a : agreements) {
    const bool alone = std::ranges::none_of(
        open, [&](const auto& handshake) { return handshake->is_on(a.communicator); });
    open.push_back(std::make_unique<Handshake>(a, alone));
  }
  return open;
}

void run_handshakes(const Handshakes& open) {
  std::vector<HostAllGather*> all_gathers;
  for (const auto& handshake : open) all_gathers.push_back(&handshake->all_gather());
  // A rank without terse takes this exchange for its next call.
  const bool any_first =
      std::ranges::any_of(open, [](const auto& handshake) { return handshake->is_first(); });
  try {
    run_all_gathers(all_gathers, any_first ? Timeout::kInit : Timeout::kLateRank);
  } catch (Error& e) {
    for (const auto& handshake : open) handshake->require_own();
    if (any_first)
      e.message +=
          "; the ranks were to compare their settings: is terse in use on all of them, and set up "
          "alike?";
    throw;
  }
}

}  // namespace

void agree(std::span<const Agreement> agreements) {
  if (std::ranges::all_of(agreements, agreed)) return;
  Handshakes open;
  try {
    open = handshakes_of(new_ones({agreements.begin(), agreements.end()}));
    run_handshakes(open);
  } catch (const std::exception& cause) {
    poison(agreements, cause);
    throw;
  }
  conclude(open, {agreements.begin(), agreements.end()});
}

}  // namespace terse
