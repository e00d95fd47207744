#include "engine/agree.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <random>
#include <thread>

#include "base/error.h"
#include "base/log.h"
#include "policy/settings.h"

namespace terse {
namespace {

// What each rank says of itself.
struct Hello {
  uint64_t version = TERSE_VERSION_CODE;
  uint64_t settings = 0;
  uint64_t scheme = 0;
  uint64_t ordinal = 0;   // rank 0's counts
  uint64_t identity = 0;  // and so does this: no other communicator's, anywhere
  char text[96] = {};     // for the message
};

// Counts the communicators of this process, so that random numbers differ between them and yet are
// the same in every run of the program.
uint64_t next_ordinal() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

uint64_t random_identity() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

bool same(const Scheme* a, const Scheme* b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

// One rank's side of the exchange: its own words, and those of all.
class Exchange {
 public:
  explicit Exchange(const Agreement& agreement)
      : c_(*agreement.communicator), scheme_(agreement.scheme), all_(c_.ranks) {
    const std::string text =
        scheme_ != nullptr ? print_scheme(*scheme_) : settings().policy.print();
    Hello mine{.settings = fingerprint(settings()), .scheme = fingerprint(text)};
    if (introduces_ && c_.rank == 0) {
      if (!c_.number) c_.number = next_ordinal();
      mine.ordinal = *c_.number;
      mine.identity = random_identity();
    }
    c_.introduced = true;
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

  bool covers(const Agreement& a) const { return &c_ == a.communicator && same(scheme_, a.scheme); }

  void start() const {
    check(c_.library,
          c_.library.nccl.AllGather(memory_ + c_.ranks, memory_, sizeof(Hello), ncclUint8, c_.comm,
                                    stream_),
          "ncclAllGather");
  }

  void finish(std::chrono::steady_clock::time_point deadline) {
    if (!wait(deadline)) give_up();
    c_.backend.download(stream_, all_.data(), memory_, all_.size() * sizeof(Hello));
    try {
      for (int r = 0; r < c_.ranks; ++r) compare(r);
    } catch (const Error&) {
      part(deadline);
      throw;
    }
    agreed_ = true;
    if (introduces_) {
      c_.ordinal = all_[0].ordinal;
      c_.identity = all_[0].identity;
      for (const Rule& rule : settings().policy.rules) c_.agreed.push_back(rule.scheme);
    }
    if (scheme_ != nullptr) c_.agreed.push_back(*scheme_);
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
      start();
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
           "{}: the settings of rank {} differ from this rank's; TERSE_SCHEME, TERSE_MIN_BYTES, "
           "TERSE_CHUNK_BYTES, TERSE_SEED and TERSE_VERIFY must be alike on all ranks (its scheme "
           "is "
           "\"{}\", this rank's \"{}\")",
           c_.describe(), r, other.text, mine.text);
    if (other.scheme != mine.scheme)
      fail(ncclInvalidUsage, "{}: the scheme of rank {} is \"{}\", but this rank's \"{}\"",
           c_.describe(), r, other.text, mine.text);
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
  const bool introduces_ = !c_.introduced;  // the communicator's first exchange numbers it
  Stream stream_ = nullptr;
  Hello mine_;
  std::vector<Hello> all_;   // by rank
  Hello* memory_ = nullptr;  // the backend's: by rank, and then this rank's own
  bool abandoned_ = false;
  bool agreed_ = false;
};

bool agreed(const Communicator& c, const Scheme* scheme) {
  if (scheme == nullptr) return c.introduced;
  return std::ranges::find(c.agreed, *scheme) != c.agreed.end();
}

}  // namespace

void agree(std::span<const Agreement> agreements) {
  std::vector<std::unique_ptr<Exchange>> open;
  for (const Agreement& a : agreements) {
    const bool under_way = std::ranges::any_of(open, [&](const auto& e) { return e->covers(a); });
    if (under_way || agreed(*a.communicator, a.scheme)) continue;
    if (a.communicator->backend.recording(a.stream) != 0)
      fail(
          ncclInvalidUsage,
          "{}: the scheme \"{}\" is used for the first time while a graph is recorded; use it once "
          "before",
          a.communicator->describe(), a.scheme != nullptr ? print_scheme(*a.scheme) : "");
    open.push_back(std::make_unique<Exchange>(a));
  }
  if (open.empty()) return;
  const NcclLibrary& library = agreements.front().communicator->library;
  check(library, library.nccl.GroupStart(), "ncclGroupStart");
  try {
    for (const auto& e : open) e->start();
  } catch (...) {
    library.nccl.GroupEnd();
    throw;
  }
  check(library, library.nccl.GroupEnd(), "ncclGroupEnd");
  const auto deadline =
      std::chrono::steady_clock::now() + std::chrono::seconds(settings().timeout_seconds);
  for (const auto& e : open) e->finish(deadline);
}

}  // namespace terse
