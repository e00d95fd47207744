#include "engine/agree.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "engine/host.h"
#include "policy/settings.h"

namespace terse {
namespace {

// What each rank says of itself.
struct Hello {
  uint64_t version = TERSE_VERSION_CODE;
  uint64_t settings = 0;
  uint64_t scheme = 0;
  uint64_t ordinal = 0;  // rank 0's counts
  uint64_t host = 0;
  uint64_t name = 0;    // of the communicator, where the policy goes by it
  char text[96] = {};   // for the message
  char label[64] = {};  // the name, likewise
};

// Counts the communicators of this process, so that random numbers differ between them and yet are
// the same in every run of the program.
uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

bool same(const Scheme* a, const Scheme* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

class Exchange;
void start_together(const NcclLibrary& library, const std::vector<const Exchange*>& exchanges);

// One rank's side of the exchange: its own words, and those of all, or of its peer.
class Exchange {
 public:
  explicit Exchange(const Agreement& agreement)
      : c_(*agreement.communicator),
        scheme_(agreement.scheme),
        peer_(agreement.peer),
        all_(c_.ranks) {
    const std::string text =
        scheme_ != nullptr ? print_scheme(*scheme_) : settings().policy.print();
    Hello mine{
        .settings = fingerprint(settings()), .scheme = fingerprint(text), .host = host_hash()};
    if (settings().policy.asks_name()) {
      mine.name = fingerprint(c_.name);
      std::strncpy(mine.label, c_.name.c_str(), sizeof mine.label - 1);
    }
    if (introduces_ && c_.rank == 0) {
      if (!c_.number) c_.number = next_ordinal();
      mine.ordinal = *c_.number;
    }
    if (introduces_) c_.introduced = true;
    std::strncpy(mine.text, text.c_str(), sizeof mine.text - 1);
    mine_ = mine;
    try {
      stream_ = c_.backend.create_stream();
      memory_ = static_cast<Hello*>(c_.backend.allocate((c_.ranks + 1) * sizeof(Hello)));
      c_.backend.upload(stream_, memory_ + c_.ranks, &mine_, sizeof mine_);
    } catch (Error& e) {
      destroy();
      c_.sign(e);
      throw;
    }
  }

  ~Exchange() {
    if (!abandoned_) destroy();
  }
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  bool covers(const Agreement& a) const {
    return &c_ == a.communicator && same(scheme_, a.scheme) && (!peer_ || peer_ == a.peer);
  }

  // Within a group.
  void start() const {
    const NcclTable& nccl = c_.library.nccl;
    const Hello* mine = memory_ + c_.ranks;
    if (!peer_)
      return check(c_.library,
                   nccl.AllGather(mine, memory_, sizeof(Hello), ncclUint8, c_.comm, stream_),
                   "ncclAllGather");
    check(c_.library, nccl.Send(mine, sizeof(Hello), ncclUint8, *peer_, c_.comm, stream_),
          "ncclSend");
    check(c_.library,
          nccl.Recv(memory_ + *peer_, sizeof(Hello), ncclUint8, *peer_, c_.comm, stream_),
          "ncclRecv");
  }

  void finish(std::chrono::steady_clock::time_point deadline) {
    if (!wait(deadline)) give_up();
    c_.backend.download(stream_, all_.data(), memory_, all_.size() * sizeof(Hello));
    try {
      for (int r = 0; r < c_.ranks; ++r)
        if (!peer_ || r == *peer_) compare(r);
    } catch (const Error&) {
      part(deadline);
      throw;
    }
    agreed_ = true;
    if (introduces_) {
      c_.ordinal = all_[0].ordinal;
      c_.nodes = count_hosts();
      for (const Rule& rule : settings().policy.rules) c_.agreed.push_back(rule.scheme);
    }
    if (scheme_ == nullptr) return;
    if (peer_)
      c_.agreed_with.emplace_back(*peer_, *scheme_);
    else
      c_.agreed.push_back(*scheme_);
  }

 private:
  void destroy() noexcept {
    if (introduces_ && !agreed_) c_.introduced = false;  // the next exchange numbers it
    if (stream_ != nullptr) c_.backend.destroy_stream(stream_);
    c_.backend.release(memory_);
  }

  // Until what was started has ended; false: not by the deadline.
  bool wait(std::chrono::steady_clock::time_point deadline) const {
    auto pause = std::chrono::microseconds(20);
    while (!c_.backend.idle(stream_)) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(pause);
      pause = std::min(2 * pause, std::chrono::microseconds(1000));
    }
    return true;
  }

  // All ranks see the same words, and so all of them come here or none. They meet once more, so
  // that nobody tears the communicator down while another one still waits for the words; what
  // becomes of the meeting does not matter.
  void part(std::chrono::steady_clock::time_point deadline) {
    try {
      start_together(c_.library, {this});
      abandoned_ = !wait(deadline);
    } catch (const Error& e) {
      log(LogLevel::kInfo, "{}: {}", c_.describe(), e.message);
    }
  }

  void compare(int r) const {
    const Hello &mine = mine_, &other = all_[r];
    if (other.version != mine.version)
      fail(ncclInvalidUsage, "{}: rank {} has version {} of terse, this rank {}", c_.describe(), r,
           other.version, mine.version);
    if (other.settings != mine.settings)
      fail(ncclInvalidUsage,
           "{}: the settings of rank {} differ from this rank's; TERSE_SCHEME, TERSE_POLICY, "
           "TERSE_MIN_BYTES, TERSE_CHUNK_BYTES and TERSE_SEED must be alike on all ranks (its "
           "scheme "
           "is \"{}\", this rank's \"{}\")",
           c_.describe(), r, other.text, mine.text);
    if (other.name != mine.name)
      fail(ncclInvalidUsage,
           "{}: the policy goes by names, and this communicator's is \"{}\" on rank {}, but \"{}\" "
           "on this rank",
           c_.describe(), other.label, r, mine.label);
    if (other.scheme != mine.scheme)
      fail(ncclInvalidUsage, "{}: the scheme of rank {} is \"{}\", but this rank's \"{}\"",
           c_.describe(), r, other.text, mine.text);
  }

  int count_hosts() const {
    std::vector<uint64_t> hosts;
    for (const Hello& hello : all_) hosts.push_back(hello.host);
    std::ranges::sort(hosts);
    const auto repeated = std::ranges::unique(hosts);
    return static_cast<int>(repeated.begin() - hosts.begin());
  }

  // What still waits may wait for ever, and would use the memory when it does not: both are left.
  [[noreturn]] void give_up() {
    abandoned_ = true;
    fail(ncclSystemError,
         "{}: not every rank answered within {} s (TERSE_TIMEOUT); is terse in use on all of them?",
         c_.describe(), settings().timeout_seconds);
  }

  Communicator& c_;
  const Scheme* const scheme_;
  const std::optional<int> peer_;
  // The communicator's first exchange of all ranks numbers it.
  const bool introduces_ = !c_.introduced && !peer_;
  Stream stream_ = nullptr;
  Hello mine_;
  std::vector<Hello> all_;   // by rank
  Hello* memory_ = nullptr;  // the backend's: by rank, and then this rank's own
  bool abandoned_ = false;
  bool agreed_ = false;
};

void start_together(const NcclLibrary& library, const std::vector<const Exchange*>& exchanges) {
  check(library, library.nccl.GroupStart(), "ncclGroupStart");
  try {
    for (const Exchange* e : exchanges) e->start();
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  check(library, library.nccl.GroupEnd(), "ncclGroupEnd");
}

bool agreed(const Agreement& a) {
  const Communicator& c = *a.communicator;
  if (a.scheme == nullptr) return c.introduced;
  const auto with_peer = [&](const auto& known) {
    return known.first == a.peer && known.second == *a.scheme;
  };
  return std::ranges::find(c.agreed, *a.scheme) != c.agreed.end() ||
         std::ranges::any_of(c.agreed_with, with_peer);
}

}  // namespace

void agree(std::span<const Agreement> agreements) {
  std::vector<std::unique_ptr<Exchange>> open;
  // What all ranks agree on, two of them need not.
  std::vector<Agreement> ordered(agreements.begin(), agreements.end());
  std::ranges::stable_partition(ordered, [](const Agreement& a) { return !a.peer; });
  for (const Agreement& a : ordered) {
    const bool under_way = std::ranges::any_of(open, [&](const auto& e) { return e->covers(a); });
    if (under_way || agreed(a)) continue;
    if (a.communicator->backend.recording(a.stream) != 0)
      fail(ncclInvalidUsage,
           "{}: {} used for the first time while a graph is recorded; use it once before",
           a.communicator->describe(),
           a.scheme != nullptr ? fmt::format("the scheme \"{}\" is", print_scheme(*a.scheme))
                               : "the communicator is");
    open.push_back(std::make_unique<Exchange>(a));
  }
  if (open.empty()) return;
  std::vector<const Exchange*> exchanges;
  for (const auto& e : open) exchanges.push_back(e.get());
  start_together(agreements.front().communicator->library, exchanges);
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(settings().timeout_seconds);
  for (const auto& e : open) e->finish(deadline);
}

}  // namespace terse
