#include "ucx.h"

#include <sys/statvfs.h>
#include <ucm/api/ucm.h>
#include <ucs/config/global_opts.h>
#include <ucs/debug/debug.h>
#include <ucs/debug/log_def.h>

#include <algorithm>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "env.h"
#include "failure.h"
#include "fork.h"
#include "nccl_log.h"

// UCX's own, exported but in none of its installed headers: prints the text, and ends the process.
extern "C" [[noreturn]] void ucs_fatal_error_message(const char* file, unsigned line,
                                                     const char* function, char* text);

namespace hostnccl {
namespace {

struct Setting {
  const char* name;
  const char* value;
};

// Our choices without RDMA, each unless the user has set UCX_<name>.
constexpr Setting kSettings[] = {
    // A rendezvous costs a round trip through queues that our own data fills, and saves no copy
    // there; the flow control is ours.
    {"RNDV_THRESH", "inf"},
    // UCX 1.13 aborts the process (an assertion in uct_iface.h) when a peer dies in the middle of
    // an eager message that is sent without a copy.
    {"ZCOPY_THRESH", "inf"},
    // Fewer system calls per byte. A quarter of a megabyte would stall for hundreds of
    // milliseconds.
    {"TCP_TX_SEG_SIZE", "32k"},
    {"TCP_RX_SEG_SIZE", "64k"},
    // Shared memory: as many buffers as messages need, not 4 MB of them for each communicator,
    // which took longer to make and to give back than all else of it.
    {"MM_RX_BUFS_GROW", "16"},
};

// Returns true if there is RDMA hardware, with which UCX chooses best by itself.
bool has_rdma() {
  std::error_code error;
  const std::filesystem::directory_iterator devices("/sys/class/infiniband", error);
  return !error && devices != std::filesystem::directory_iterator();
}

struct OnThisThread {
  bool throws = false;
  bool is_lost = false;
  char complaint[512] = "";  // UCX's last
};
thread_local OnThisThread t_ucx;

// UCX prints to stdout, which is the program's. Its complaints (a lost peer is one, which we report
// ourselves) go to our log instead.
ucs_log_func_rc_t redirect_log(const char*, unsigned, const char*, ucs_log_level_t level,
                               const ucs_log_component_config_t*, const char* format,
                               va_list args) {
  if (level > UCS_LOG_LEVEL_WARN) return UCS_LOG_FUNC_RC_CONTINUE;  // the user asked for it
  char text[512];
  std::vsnprintf(text, sizeof(text), format, args);
  log(LogLevel::kInfo, kNoRank, "ucx: {}", text);
  if (level <= UCS_LOG_LEVEL_ERROR)
    std::snprintf(t_ucx.complaint, sizeof(t_ucx.complaint), "%s", text);
  return UCS_LOG_FUNC_RC_STOP;
}

// UCX installs handlers for SIGSEGV and the like as it is loaded, and would patch the program's
// mmap and malloc when it caches registrations. Neither is ours to take.
void leave_the_program_alone() {
  if (!user_has_set_ucx("ERROR_SIGNALS") && !user_has_set_ucx("HANDLE_ERRORS")) {
    for (const int signal : {SIGILL, SIGSEGV, SIGBUS, SIGFPE}) ucs_debug_disable_signal(signal);
    ucs_global_opts_set_value("HANDLE_ERRORS", "none");
  }
  if (!user_has_set_ucx("MEM_EVENTS")) {
    ucm_global_config_t options = ucm_global_opts;
    options.enable_events = 0;
    options.enable_malloc_hooks = 0;
    ucm_set_global_opts(&options);
  }
  if (!user_has_set_ucx("WARN_UNUSED_ENV_VARS")) {
    ucs_global_opts_set_value("WARN_UNUSED_ENV_VARS", "n");
  }
  ucs_log_push_handler(&redirect_log);
}

// Runs as the library is loaded, before the program can have handlers that UCX would replace.
[[gnu::constructor]] void on_load() { leave_the_program_alone(); }

void set(ucp_config_t* config, const Setting& setting) {
  if (user_has_set_ucx(setting.name) || has_rdma()) return;
  const ucs_status_t status = ucp_config_modify(config, setting.name, setting.value);
  if (status != UCS_OK) {
    log(LogLevel::kInfo, kNoRank, "ucx: {}={}: {}", setting.name, setting.value,
        ucs_status_string(status));
  }
}

ucp_context_h make_context(const std::string& device) {
  ucp_config_t* config = nullptr;
  check_ucx(ucp_config_read(nullptr, nullptr, &config), "read the UCX configuration");
  for (const Setting& setting : kSettings) set(config, setting);
  if (!device.empty()) set(config, {"NET_DEVICES", device.c_str()});
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED;
  params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
  params.mt_workers_shared = 1;
  ucp_context_h context = nullptr;
  const ucs_status_t status = ucp_init(&params, config, &context);
  ucp_config_release(config);
  check_ucx(status, "start UCX");
  return context;
}

struct Current {
  std::recursive_mutex mutex;  // UCX may fail while it makes a context
  std::map<std::string, std::weak_ptr<ucp_context>> contexts;  // by device
  bool is_lost = false;  // UCX was in use when this process was forked
};

// Returns the state that a forked child has of its parent's. If it was being made, the lock is held
// for good.
Current* inherited(Current& parents) {
  auto* current = new Current;
  current->is_lost = parents.is_lost || !parents.mutex.try_lock() ||
                     std::ranges::any_of(parents.contexts,
                                         [](const auto& each) { return !each.second.expired(); });
  return current;
}

Current& current() {
  static Current* current = (in_forked_child([] { current = inherited(*current); }), new Current);
  return *current;
}

struct Kept {
  std::mutex mutex;
  std::vector<std::shared_ptr<void>> objects;
};

// Locks of its contexts may be held for good: later communicators get others, and nothing of these
// is destroyed.
void lose_contexts() {
  Current& shared = current();
  const std::lock_guard lock(shared.mutex);
  for (const auto& [device, context] : shared.contexts) {
    if (auto held = context.lock()) keep_for_lost_ucx(std::move(held));
  }
  shared.contexts.clear();
}

// UCX names shared memory in a warning at most, and frees what it had of it before it returns.
std::string cause_of(ucs_status_t status) {
  constexpr ucs_status_t kOfMemory[] = {UCS_ERR_NO_MEMORY, UCS_ERR_NO_RESOURCE,
                                        UCS_ERR_SHMEM_SEGMENT};
  constexpr uint64_t kEnough = uint64_t{16} << 20;
  struct statvfs shared {};
  if (std::ranges::find(kOfMemory, status) != std::end(kOfMemory) &&
      statvfs("/dev/shm", &shared) == 0) {
    const uint64_t free = uint64_t{shared.f_bavail} * shared.f_frsize;
    if (free < kEnough) return fmt::format("no space in /dev/shm ({} KiB are free)", free / 1024);
  }
  return t_ucx.complaint;
}

}  // namespace

std::shared_ptr<ucp_context> ucx_context(const std::string& device) {
  Current& shared = current();
  std::lock_guard lock(shared.mutex);
  require(!shared.is_lost, ncclInvalidUsage,
          "this process was forked from one that had communicators, and cannot have any: UCX's "
          "threads were left behind");
  std::weak_ptr<ucp_context>& known = shared.contexts[device];
  std::shared_ptr<ucp_context> context = known.lock();
  if (context == nullptr) {
    context = {make_context(device), &ucp_cleanup};
    known = context;
  }
  return context;
}

UcxFailuresThrow::UcxFailuresThrow() { t_ucx = {.throws = true}; }
UcxFailuresThrow::~UcxFailuresThrow() { t_ucx = {}; }
bool ucx_is_lost() { return t_ucx.is_lost; }

void keep_for_lost_ucx(std::shared_ptr<void> object) {
  Kept& kept = of_process<Kept>();
  const std::lock_guard lock(kept.mutex);
  kept.objects.push_back(std::move(object));
}

void check_ucx(ucs_status_t status, const std::string& what) {
  if (status == UCS_OK) return;
  const std::string cause = cause_of(status);
  t_ucx.complaint[0] = '\0';
  fail(ncclSystemError, "cannot {}: {}{}{}", what, ucs_status_string(status),
       cause.empty() ? "" : ": ", cause);
}

}  // namespace hostnccl

// Replaces UCX's own function, which its libraries call if they cannot go on, and which ends the
// process.
extern "C" [[gnu::visibility("default")]] void ucs_fatal_error_format(const char* file,
                                                                      unsigned line,
                                                                      const char* function,
                                                                      const char* format, ...) {
  using namespace hostnccl;
  char text[512];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (!t_ucx.throws) ucs_fatal_error_message(file, line, function, text);
  t_ucx.is_lost = true;
  lose_contexts();
  fail(ncclInternalError, "UCX failed in {} ({}:{}): {}", function,
       std::filesystem::path(file).filename().string(), line, text);
}
