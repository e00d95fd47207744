#include "backend/host_windows.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <string_view>

#include "backend/process.h"
#include "backend/shared_memory.h"
#include "base/error.h"
#include "plan/fuse.h"

namespace terse {
namespace {

constexpr size_t kMaxRanks = plan::Fused::kMaxRanks;
constexpr char kName[] = "terse-window";

// Numbers in shared memory, which the ranks' threads write and read.
class Shared {
 public:
  uint32_t load() const { return word().load(std::memory_order_acquire); }
  void release(uint32_t value) { word().store(value, std::memory_order_release); }
  // In one order with those of all others.
  void store(uint32_t value) { word().store(value, std::memory_order_seq_cst); }
  uint32_t ordered_load() const { return word().load(std::memory_order_seq_cst); }
  void increment() { word().fetch_add(1, std::memory_order_seq_cst); }
  uint32_t* address() { return &value_; }

 private:
  std::atomic_ref<uint32_t> word() const {
    return std::atomic_ref<uint32_t>(const_cast<uint32_t&>(value_));
  }
  uint32_t value_;
};

// What a rank writes into a peer's window beside the areas: the number of the call that it has
// come to, and whose halves it has done. A rank is at most one call ahead of another, which still
// reads the call's header.
struct alignas(64) FromRank {
  Shared called;
  Shared flag[2];               // by half
  codec::CallHeader header[2];  // by the number
  uint64_t in_steps;            // number on the communicator of a call that is done in steps
  codec::CallHeader header_in_steps;
  Shared gone;  // 1: the rank makes no more calls here
};

struct Header {
  uint64_t nonce;     // of this window alone
  Shared arrivals;    // flags raised here, ever
  Shared is_waiting;  // 1: the rank sleeps until `arrivals` changes
  FromRank from[kMaxRanks];
};

constexpr size_t kHeaderBytes = 4096;
static_assert(sizeof(Header) <= kHeaderBytes);

struct Handle {
  int64_t process;
  int64_t file;
  uint64_t nonce;
  uint64_t bytes;
};
static_assert(sizeof(Handle) <= sizeof(WindowHandle));

// Sleeps while the word has the value, for a short time at most.
void sleep_while(Shared& word, uint32_t value) {
  const timespec limit{0, 5'000'000};
  syscall(SYS_futex, word.address(), FUTEX_WAIT, value, &limit, nullptr, 0);
}

void wake(Shared& word) {
  syscall(SYS_futex, word.address(), FUTEX_WAKE, INT32_MAX, nullptr, nullptr, 0);
}

class HostWindows;

// Windows of this process, whose peers learn of its end.
class Living {
 public:
  void add(HostWindows* windows) {
    const std::lock_guard lock(mutex_);
    all_.insert(windows);
  }
  void remove(HostWindows* windows) {
    const std::lock_guard lock(mutex_);
    all_.erase(windows);
  }
  // Never destroyed: functions of streams may run while the program exits.
  static Living& living() {
    static Living& all = *new Living;
    return all;
  }

  void leave();

 private:
  std::mutex mutex_;
  std::set<HostWindows*> all_;
};

class HostWindows final : public Windows {
 public:
  explicit HostWindows(const WindowRequest& request)
      : rank_(request.rank),
        ranks_(request.ranks),
        area_bytes_(request.area_bytes),
        kinds_(request.kinds),
        bytes_(kHeaderBytes + kAreas * area_bytes_),
        nonce_(uint64_t{std::random_device{}()} << 32 | std::random_device{}()),
        file_(memfd_create(kName, MFD_CLOEXEC)) {
    const int failed = reserve();
    if (failed != 0 || !of_rank_[rank_].map(file_.number(), bytes_))
      fail(ncclSystemError, "a window of {} B is not to be had: {}", bytes(area_bytes_, kinds_),
           std::strerror(failed != 0 ? failed : errno));
    header(rank_).nonce = nonce_;
    Living::living().add(this);
  }
  ~HostWindows() override {
    Living::living().remove(this);
    leave();
  }

  // Tells the peers that the rank makes no more calls here; not in a forked child.
  void leave() const {
    if (getpid() != own_process_) return;
    each_peer([&](int peer) {
      if (of_rank_[peer].begin() == nullptr) return;
      header(peer).from[rank_].gone.release(1);
      notify(peer);
    });
  }

  void follow(Windows* earlier) override {
    take_over_failure();
    earlier_ = static_cast<HostWindows*>(earlier);
  }

  WindowHandle handle() const override {
    const Handle own{getpid(), file_.number(), nonce_, bytes_};
    WindowHandle handle;
    std::memcpy(handle.bytes.data(), &own, sizeof own);
    return handle;
  }

  void open(std::span<const WindowHandle> by_rank) override {
    for (int peer = 0; peer < ranks_; ++peer)
      if (peer != rank_) open(peer, by_rank[static_cast<size_t>(peer)]);
  }

  void write_pattern() override {
    each_peer([&](int peer) {
      each_pattern(peer, rank_, [](uint64_t& there, uint64_t word) { there = word; });
    });
  }

  void check_pattern() override {
    file_.close();  // the peers have it
    each_peer([&](int peer) {
      each_pattern(rank_, peer, [&](uint64_t& here, uint64_t word) {
        if (here != word)
          fail(ncclSystemError, "what rank {} has written into the window is not there", peer);
        here = 0;
      });
    });
  }

  void name(uint64_t number, const codec::CallHeader& call) override {
    if (earlier_ != nullptr) earlier_->name(number, call);
    each_peer([&](int peer) {
      FromRank& mine = header(peer).from[rank_];
      mine.header_in_steps = call;
      std::atomic_ref(mine.in_steps).store(number, std::memory_order_release);
      notify(peer);
    });
  }

  char* area(int rank, size_t number) const override {
    return of_rank_[rank].begin() + kHeaderBytes + number * area_bytes_;
  }

  // Does a call. Returns false if it is without a result, as all later ones are.
  bool run(const FusedCall& call) {
    // What it packs would meet peers that still read a call which this rank has left.
    take_over_failure();
    has_failed_ = has_failed_ || call.is_over(call) || !carry_out(call);
    return !has_failed_;
  }

  // Rank that has left while a call waited for it, or -1.
  int gone() const { return gone_; }

 private:
  void take_over_failure() {
    has_failed_ = has_failed_ || (earlier_ != nullptr && earlier_->has_failed_);
  }

  bool carry_out(const FusedCall& call) {
    const auto combine = [](const std::vector<codec::Combine>& works) {
      for (const codec::Combine& work : works) codec::combine(work);
    };
    begin(call);
    if (call.pushing) {
      combine(call.pushes);
      raise(0, call);
      if (!wait(0, call)) return false;
    }
    combine(call.makes);
    if (call.sharing) {
      std::ranges::for_each(call.shared, [this](const auto& shared) { share(shared); });
      raise(1, call);
      if (!wait(1, call)) return false;
      combine(call.takes);
    }
    for (const Copy& copy : call.copies) std::memcpy(copy.target, copy.source, copy.bytes);
    return true;
  }

  // Begins the next call, and names it to all peers.
  void begin(const FusedCall& call) {
    if (earlier_ != nullptr) earlier_->name(call.number, call.own);
    ++epoch_;
    each_peer([&](int peer) {
      FromRank& mine = header(peer).from[rank_];
      mine.header[epoch_ % 2] = call.own;
      mine.called.release(epoch_);
      notify(peer);
    });
  }

  // Raises the rank's flag at all peers, behind what it has written there; of a call with one half
  // both, so that neither falls behind.
  void raise(size_t half, const FusedCall& call) const {
    const bool both = !call.pushing || !call.sharing;
    each_peer([&](int peer) {
      FromRank& mine = header(peer).from[rank_];
      if (both) mine.flag[1 - half].release(epoch_);
      mine.flag[half].release(epoch_);
      notify(peer);
    });
  }

  // Waits for the flags of all peers. Returns false if that is in vain, or a peer is at another
  // call.
  bool wait(size_t half, const FusedCall& call) {
    constexpr uint32_t kSleepsPerLook = 20;
    Header& own = header(rank_);
    for (uint32_t sleeps = 1;; ++sleeps) {
      const uint32_t arrivals = own.arrivals.load();
      const int gone = gone_peer(half, sleeps % kSleepsPerLook == 0);
      const bool come = have_come(half);
      if (!are_alike(call)) return false;  // also those who have come
      if (come) return true;
      if (gone >= 0) {
        gone_ = gone;
        return false;
      }
      own.is_waiting.store(1);
      if (own.arrivals.ordered_load() == arrivals) sleep_while(own.arrivals, arrivals);
      own.is_waiting.store(0);
      if (own.arrivals.load() == arrivals && call.is_over(call)) return false;
    }
  }

  void share(const FusedCall::Shared& shared) const {
    const char* const own = area(rank_, shared.area) + shared.offset;
    each_peer(
        [&](int peer) { std::memcpy(area(peer, shared.area) + shared.offset, own, shared.bytes); });
  }

  Header& header(int rank) const { return *reinterpret_cast<Header*>(of_rank_[rank].begin()); }

  // Takes the memory, for what is not there would end the process at the first touch. Returns 0, or
  // what failed.
  int reserve() const {
    if (file_.number() < 0 || ftruncate(file_.number(), static_cast<off_t>(bytes_)) != 0)
      return errno;
    const auto take = [&](size_t begin, size_t bytes) {
      return posix_fallocate(file_.number(), static_cast<off_t>(begin), static_cast<off_t>(bytes));
    };
    // All ranks take as much at the same time.
    if (bytes(area_bytes_, kinds_) > free_bytes() / static_cast<uint64_t>(ranks_)) return ENOMEM;
    int failed = take(0, kHeaderBytes);
    for (size_t number = 0; failed == 0 && number < kAreas; ++number)
      if (kinds_.has(number)) failed = take(kHeaderBytes + number * area_bytes_, area_bytes_);
    return failed;
  }

  template <class Visit>
  void each_peer(const Visit& visit) const {
    for (int k = 1; k < ranks_; ++k) visit((rank_ + k) % ranks_);
  }

  // Words at the beginning and the end of each area of `owner`, which are another rank's to write.
  template <class Visit>
  void each_pattern(int owner, int writer, const Visit& visit) const {
    constexpr size_t kWords = 2;
    for (size_t number = 0; number < kAreas; ++number)
      for (size_t k = 0; kinds_.has(number) && k < kWords; ++k) {
        const size_t place = (static_cast<size_t>(writer) * kWords + k) * sizeof(uint64_t);
        const uint64_t word = nonces_[owner] * (2 * place + 1) + nonces_[writer] + number;
        visit(*reinterpret_cast<uint64_t*>(area(owner, number) + place), word);
        visit(*reinterpret_cast<uint64_t*>(area(owner, number) + area_bytes_ - sizeof(uint64_t) -
                                           place),
              ~word);
      }
  }

  void open(int peer, const WindowHandle& handle) {
    Handle theirs;
    std::memcpy(&theirs, handle.bytes.data(), sizeof theirs);
    const std::string path = fmt::format("/proc/{}/fd/{}", theirs.process, theirs.file);
    // In another namespace the process is somebody else's: a file of any kind, which is not opened.
    char target[64];
    const ssize_t length = readlink(path.c_str(), target, sizeof target);
    const bool is_window = length > 0 && std::string_view(target, static_cast<size_t>(length))
                                             .starts_with(std::string("/memfd:") + kName);
    const File file(is_window ? ::open(path.c_str(), O_RDWR | O_CLOEXEC) : -1);
    struct stat status {};
    if (file.number() < 0 || fstat(file.number(), &status) != 0 || theirs.bytes != bytes_ ||
        static_cast<size_t>(status.st_size) != bytes_ || !of_rank_[peer].map(file.number(), bytes_))
      fail(ncclSystemError, "the window of rank {} is out of reach", peer);
    if (header(peer).nonce != theirs.nonce)
      fail(ncclSystemError, "the window of rank {} is another one's", peer);
    process_[peer] = Process(static_cast<pid_t>(theirs.process));
    nonces_[peer] = theirs.nonce;
    nonces_[rank_] = nonce_;
  }

  // Wakes a peer that waits for what the rank has written.
  void notify(int peer) const {
    Header& there = header(peer);
    there.arrivals.increment();
    if (there.is_waiting.ordered_load() != 0) wake(there.arrivals);
  }

  // Peer that has left before it raised its flag, or -1. `looks`: for its process, too.
  int gone_peer(size_t half, bool looks) const {
    int found = -1;
    each_peer([&](int peer) {
      const FromRank& theirs = header(rank_).from[peer];
      const bool is_gone = theirs.gone.load() != 0 || (looks && !process_[peer].lives());
      if (is_gone && !has_reached(theirs.flag[half].load())) found = peer;
    });
    return found;
  }

  bool has_reached(uint32_t number) const { return static_cast<int32_t>(number - epoch_) >= 0; }

  bool have_come(size_t half) const {
    bool all = true;
    each_peer(
        [&](int peer) { all = all && has_reached(header(rank_).from[peer].flag[half].load()); });
    return all;
  }

  // Returns false if a peer that has come to its call is at another one, and reports it.
  bool are_alike(const FusedCall& call) const {
    bool all = true;
    each_peer([&](int peer) {
      const FromRank& theirs = header(rank_).from[peer];
      // In this order: a peer comes to a later call in steps after this one.
      const uint64_t in_steps =
          std::atomic_ref(const_cast<uint64_t&>(theirs.in_steps)).load(std::memory_order_acquire);
      if (has_reached(theirs.called.load()))
        all = all && is_same(call, theirs.header[epoch_ % 2]);
      else if (in_steps >= call.number)
        all = all && report(call, theirs.header_in_steps);
    });
    return all;
  }

  static bool is_same(const FusedCall& call, const codec::CallHeader& theirs) {
    return !codec::differs(call.own, theirs) || report(call, theirs);
  }

  // Reports a peer's call. Returns false.
  static bool report(const FusedCall& call, const codec::CallHeader& theirs) {
    codec::report(*call.report, call.own, theirs);
    return false;
  }

  const int rank_, ranks_;
  const size_t area_bytes_;
  const Kinds kinds_;
  const pid_t own_process_ = getpid();
  Process process_[kMaxRanks];
  const size_t bytes_;  // of the file, in which areas that are not used have no memory
  const uint64_t nonce_;
  File file_;
  Mapping of_rank_[kMaxRanks];
  uint64_t nonces_[kMaxRanks] = {};
  uint32_t epoch_ = 0;  // number of the call, which wraps around
  bool has_failed_ = false;
  int gone_ = -1;
  HostWindows* earlier_ = nullptr;
};

// In no order with a stream's thread that makes or ends windows: a lock that it holds is its end.
void Living::leave() {
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock.owns_lock()) return;
  for (const HostWindows* windows : all_) windows->leave();
}

}  // namespace

void leave_windows_at_exit() {
  static const int registered = std::atexit([] { Living::living().leave(); });
  (void)registered;
}

std::unique_ptr<Windows> make_host_windows(const WindowRequest& request) {
  if (static_cast<size_t>(request.ranks) > kMaxRanks)
    fail(ncclInvalidUsage, "{} ranks are more than {}", request.ranks, kMaxRanks);
  return std::make_unique<HostWindows>(request);
}

void run(const FusedCall& call) {
  auto& windows = static_cast<HostWindows&>(*call.windows);
  if (!windows.run(call)) call.failed(call, windows.gone());
}

}  // namespace terse
