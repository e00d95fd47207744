// The processes of one run find each other and exchange small blobs. Process 0 listens; no MPI.
#pragma once

#include <string>
#include <vector>

#include "socket.h"

namespace terse::perf {

struct Meeting {
  int process = 0;
  int processes = 1;
  std::string address;
  int port = 0;
  double timeout = 60;  // seconds until all must have met
};

class Rendezvous {
 public:
  // Returns when all processes have met. Throws TimeoutError, naming who is missing, otherwise.
  // With one process no socket is opened.
  explicit Rendezvous(const Meeting& meeting);

  int process() const { return meeting_.process; }
  int processes() const { return meeting_.processes; }

  // Hands every process everybody's blob, in order of process. Collective. Throws TimeoutError
  // after `timeout` seconds, std::runtime_error when a process is lost.
  std::vector<std::string> all_gather(const std::string& blob, double timeout);

  // The connections over which processes watch each other's life (lifeline.h): at process 0 one to
  // each other process, elsewhere one to process 0.
  std::vector<Socket> take_lifelines() { return std::move(lifelines_); }

 private:
  void meet_as_first();
  void meet_as_other();

  Meeting meeting_;
  // Process 0: links_[p] to process p, links_[0] unused. Others: links_[0] to process 0.
  std::vector<Socket> links_;
  std::vector<Socket> lifelines_;
};

}  // namespace terse::perf
