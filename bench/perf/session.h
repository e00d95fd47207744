// The processes of a run meet, make their ranks, and do something together on all threads.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "bench.h"
#include "environment.h"
#include "rendezvous.h"
#include "watchdog.h"

namespace terse::perf {

constexpr double kMeetSeconds = 60;

struct Session {
  const Options& options;
  const Launch launch;
  Rendezvous& rendezvous;
  Watchdog& watchdog;
  std::function<void(const std::string&)> die;  // ends the process with the message
  std::function<void(const std::string&)> say;  // prints, on the first process
  const Device& device;
  std::vector<int> devices;  // of this process's ranks
  std::vector<Site> sites;   // by process
  Layout layout;
  Group group;
  Team team;

  // Of this process's group.
  int nranks() const { return group.size() * options.ranks_per_process(); }
  int color() const { return group.colors[static_cast<std::size_t>(rendezvous.process())]; }
  bool is_first() const { return rendezvous.process() == 0; }

  // A run of these ranks, which lives no longer. `scheme` may be null.
  Run run_of(const Collective& collective, const Scheme* scheme, const InputFiles& files);

  // Makes the run's ranks, with buffers of run->buffer_bytes, calls body(thread) on every thread,
  // and takes them down again. `prepared` is called when they are made.
  void on_ranks(Run* run, const std::function<void()>& prepared,
                const std::function<void(int thread)>& body);
};

// Where the processes have met and NCCL is at hand. Returns what `body` does; an exception ends the
// process, and by that the others.
int run_session(const std::string& program, const Options& options,
                const std::function<int(Session&)>& body);

// What a program does around that: the NCCL that is asked for, errors of the command line.
int run_program(const std::string& program, const Options& options,
                const std::function<int(Session&)>& body);

}  // namespace terse::perf
