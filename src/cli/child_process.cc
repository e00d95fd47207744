#include "cli/child_process.h"

#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "base/error.h"
#include "cli/option_checks.h"
#include "cli/program.h"

namespace terse::cli {
namespace {

// Signals of launchers, schedulers and people.
constexpr int kForwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

sigset_t awaited() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  sigaddset(&set, SIGCHLD);
  return set;
}

// The kernel sends a terminal's signals to the whole foreground group, the program included; a
// hang-up only to the leader of the session.
bool is_for_this_process_alone(const siginfo_t& info) {
  const bool sent_by_a_process = info.si_code <= 0;
  return sent_by_a_process || (info.si_signo == SIGHUP && getsid(0) == getpid());
}

}  // namespace

int run_child(std::vector<std::string> command) {
  const sigset_t set = awaited();
  sigset_t before;
  sigprocmask(SIG_BLOCK, &set, &before);  // from here on none is lost
  signal(SIGCHLD, SIG_DFL);               // it may have been inherited as ignored
  const pid_t self = getpid(), child = fork();
  if (child < 0) fail(ncclSystemError, "no process for {}: {}", command[0], std::strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(kFailed);  // it is gone already
    sigprocmask(SIG_SETMASK, &before, nullptr);
    _exit(become(std::move(command)));
  }
  for (;;) {
    siginfo_t info{};
    const int signal = sigwaitinfo(&set, &info);
    if (signal > 0 && signal != SIGCHLD) {
      if (is_for_this_process_alone(info)) kill(child, signal);
      continue;
    }
    int waited = 0;
    if (waitpid(child, &waited, WNOHANG) == child) {
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return waited;
    }
  }
}

int end_like(int waited) {
  if (WIFEXITED(waited)) return WEXITSTATUS(waited);
  const int signal_number = WTERMSIG(waited);
  const rlimit none{0, 0};  // a core, if any, is the program's
  setrlimit(RLIMIT_CORE, &none);
  signal(signal_number, SIG_DFL);
  sigset_t its;
  sigemptyset(&its);
  sigaddset(&its, signal_number);
  raise(signal_number);
  sigprocmask(SIG_UNBLOCK, &its, nullptr);
  return 128 + signal_number;
}

}  // namespace terse::cli
