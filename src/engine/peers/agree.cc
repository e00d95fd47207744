#include "engine/peers/agree.h"

#include <algorithm>
#include <random>
#include <set>
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

// What must be alike on all ranks, in full: compared where hashes of it differ.
struct Details {
  SettingsDigest settings;
  WireText<104> scheme;  // named by the caller
  WireText<80> name;     // of the communicator, if the policy goes by it
};

// Vote of a rank at an agreement: with all else in 64 bytes, as thousands of ranks vote at once.
#pragma pack(push, 1)
struct Hello {
  uint64_t settings = 0;  // hash of the settings, and of the communicator's name
  uint64_t scheme = 0;    // hash
  uint64_t host = 0;      // hash
  uint64_t identity = 0;  // set by rank 0; no other communicator's
  uint32_t ordinal = 0;   // counted by rank 0
  uint32_t leader = 0;    // set by rank 0
  uint32_t pod = 0;       // hash of its name; 0: none
  uint32_t device = 0;    // hash of the GPU's name; 0: none
  uint32_t gigabits = 0;  // of the host's network; 0: unknown
  std::array<uint8_t, 3> unused = {};
};
#pragma pack(pop)
// Requires that all versions have the same size, so that ranks of different ones can meet and say
// so.
static_assert(sizeof(Hello) == kMinVoteBytes);

// Hash that is not 0; 0: of no text.
uint32_t short_hash(std::string_view text) {
  return text.empty() ? 0 : static_cast<uint32_t>(fingerprint(text) >> 32) | 1;
}

template <class T>
std::string_view bytes_of(const T& value) {
  static_assert(std::has_unique_object_representations_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

}  // namespace

template <>
constexpr uint64_t kLayout<SettingsDigest> = layout_of(
    "SettingsDigest", &SettingsDigest::variables, &SettingsDigest::error, &SettingsDigest::policy,
    &SettingsDigest::profile, &SettingsDigest::levels, &SettingsDigest::numbers);
template <>
constexpr uint64_t kLayout<Details> = layout_of("Details", &Details::settings, &Details::scheme,
                                                &Details::name);
template <>
constexpr uint64_t kLayout<Hello> = mix(layout_of("Hello", &Hello::settings, &Hello::scheme,
                                                  &Hello::host, &Hello::identity, &Hello::ordinal,
                                                  &Hello::leader, &Hello::pod, &Hello::device,
                                                  &Hello::gigabits, &Hello::unused),
                                        kLayout<Details>);

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
        mine_(details()),
        vote_(c_, hello(), peer_, alone) {
    if (!numbers_comm_) return;
    control_buffer_ = make_control_buffer(c_, words_bytes(c_.ranks));
    c_.agreed().begin();
  }

  ~Handshake() {
    if (numbers_comm_ && !agreed_) c_.agreed().withdraw();  // the next handshake numbers it
  }
  Handshake(const Handshake&) = delete;
  Handshake& operator=(const Handshake&) = delete;

  bool is_on(const Communicator* c) const { return &c_ == c; }
  bool is_of_all() const { return !peer_; }
  // All-gather of what is compared last.
  HostAllGather& all_gather() { return details_ ? details_->all_gather() : vote_.all_gather(); }
  // Returns true if the ranks have never agreed on anything, so that one may do without terse.
  bool is_first() const { return c_.agreed().identity() == 0; }

  // Throws Error if this rank could not read its own settings.
  void require_own() const {
    if (const std::string& error = c_.settings.error; !error.empty())
      c_.fail(ncclInvalidArgument, "{}", error);
  }

  void read() { vote_.read(); }
  // First rank that differs, by the votes, empty: none; then all ranks of the handshake compare the
  // details. Two ranks compare the schemes of all their messages, which each names in its own
  // order. Requires that all have been read.
  std::optional<int> first_differing(All all) const {
    const Hello mine = hello_of(mine_);
    if (!vote_.has_same_builds()) return {};
    if (const auto rank = vote_.first([&](const Hello& h) { return h.settings != mine.settings; }))
      return rank;
    if (!peer_) return vote_.first([&](const Hello& h) { return h.scheme != mine.scheme; });
    std::multiset<uint64_t> own, theirs;
    for (const auto& one : all) {
      if (!one->is_on(&c_) || one->peer_ != peer_) continue;
      own.insert(one->mine_.scheme.hash);
      theirs.insert(uint64_t{one->vote_.of(*peer_).scheme});
    }
    return own == theirs ? std::nullopt : peer_;
  }
  void cast_details() { details_.emplace(c_, mine_, peer_, false); }
  void read_details() {
    details_->read();
    details_->require_same_builds();
  }

  // Throws what the ranks do not agree on: all see it, and drain. `all`: handshakes that took place
  // with this one, and have been read.
  void conclude(All all) {
    vote_.require_same_builds();
    require_own();
    if (details_) {
      vote_.each_rank([&](int r) { require_readable(r); });
      vote_.each_rank([&](int r) { compare_settings(r); });
      vote_.each_rank([&](int r) { compare_scheme(r, all); });
    }
    std::optional<model::Profile> nearest;
    plan::Topology topology;
    if (numbers_comm_) {
      topology = this->topology();
      nearest = nearest_profile_or_fail(topology);
    }
    agreed_ = true;
    if (numbers_comm_) {
      const Hello leader = vote_.of(0);
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

  Details details() const {
    Details mine{.settings = SettingsDigest(c_.settings)};
    if (scheme_ != nullptr) mine.scheme = WireText<104>(print_scheme(without_seed(*scheme_)));
    if (c_.settings.policy.asks_name()) mine.name = WireText<80>(c_.name());
    return mine;
  }

  static Hello hello_of(const Details& mine) {
    return {.settings = fingerprint(bytes_of(mine.settings)) ^ mine.name.hash,
            .scheme = mine.scheme.hash};
  }

  // Loads first: nothing is posted if that fails.
  Hello hello() const {
    load();
    Hello mine = hello_of(mine_);
    mine.host = host_hash(c_.settings);
    mine.pod = short_hash(c_.settings.pod);
    if (numbers_comm_ && c_.backend.is_gpu()) {
      mine.device = short_hash(c_.backend.device_name());
      mine.gigabits = static_cast<uint32_t>(network_gigabits());
    }
    if (numbers_comm_ && c_.rank == 0) {
      mine.ordinal = static_cast<uint32_t>(c_.agreed().propose(next_ordinal));
      mine.leader = static_cast<uint32_t>(leader_of(c_.settings.process));
      mine.identity = random_identity();
    }
    return mine;
  }

  void require_readable(int r) const {
    if (const auto& theirs = details_->of(r).settings.error; !theirs.empty())
      c_.fail(ncclInvalidUsage, "rank {} has a setting that it cannot read: {}", r,
              theirs.beginning());
  }

  void compare_settings(int r) const {
    const Details &mine = mine_, &other = details_->of(r);
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
      return may_stand_for_this && one->vote_.of(r).scheme == mine_.scheme.hash;
    });
    if (!is_shared)
      c_.fail(ncclInvalidUsage, "the scheme of rank {} is {}, but this rank's {}", r,
              details_->of(r).scheme.quoted(), mine_.scheme.quoted());
  }

  plan::Topology topology() const {
    std::vector<uint64_t> hosts, pods;
    for (const Hello hello : vote_.all()) {
      hosts.emplace_back(uint64_t{hello.host});
      pods.emplace_back(uint64_t{hello.pod});
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
    uint32_t gigabits = 0;
    bool is_alike = c_.backend.is_gpu();
    for (const Hello hello : vote_.all()) {
      is_alike = is_alike && hello.device == vote_.of(0).device;
      gigabits = std::max(gigabits, uint32_t{hello.gigabits});
    }
    return {.device = is_alike ? c_.backend.device_name() : "",
            .bandwidth = static_cast<double>(gigabits) * 1e9 / 8};
  }

  Communicator& c_;
  const Scheme* const scheme_;
  const std::optional<int> peer_;
  // The first agreement of all ranks numbers the communicator.
  const bool numbers_comm_ = !c_.agreed().introduced() && !peer_;
  const Details mine_;
  Vote<Hello> vote_;
  std::optional<Vote<Details>> details_;  // if the votes differ
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

// Reads the votes, and compares the details of handshakes where they differ.
void compare_details(const Handshakes& open, Timeout timeout) {
  std::vector<Handshake*> differing;
  std::optional<int> first;
  for (const auto& handshake : open) handshake->read();
  for (const auto& handshake : open)
    if (const auto rank = handshake->first_differing(open)) {
      differing.push_back(handshake.get());
      if (!first) first = rank;
    }
  if (differing.empty()) return;
  try {
    std::vector<HostAllGather*> all_gathers;
    for (Handshake* handshake : differing) {
      handshake->cast_details();
      all_gathers.push_back(&handshake->all_gather());
    }
    run_all_gathers(all_gathers, timeout);
    for (Handshake* handshake : differing) handshake->read_details();
  } catch (Error& e) {
    e.message = fmt::format(
        "rank {} has other settings, or another scheme, than this rank; which did not come: {}",
        *first, e.message);
    throw;
  }
}

void run_handshakes(const Handshakes& open) {
  std::vector<HostAllGather*> all_gathers;
  for (const auto& handshake : open) all_gathers.push_back(&handshake->all_gather());
  // A rank without terse takes this exchange for its next call.
  const bool any_first =
      std::ranges::any_of(open, [](const auto& handshake) { return handshake->is_first(); });
  const Timeout timeout = any_first ? Timeout::kInit : Timeout::kLateRank;
  try {
    run_all_gathers(all_gathers, timeout);
    compare_details(open, timeout);
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
