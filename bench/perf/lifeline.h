// If one process dies, all end: a thread that watches the connections between the processes while
// the others are busy, or stuck, in a collective.
#pragma once

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "socket.h"

namespace terse::perf {

class Lifeline {
 public:
  // `peers` as Rendezvous::take_lifelines gives them to this process. When a connection closes
  // without a goodbye, on_loss(message) is called on the watching thread; it is expected to end the
  // process.
  Lifeline(int process, std::vector<Socket> peers, std::function<void(const std::string&)> on_loss);

  // Says goodbye and waits for the others' goodbye, or for their loss.
  ~Lifeline();

 private:
  void watch();

  int process_;
  std::vector<Socket> peers_;
  std::function<void(const std::string&)> on_loss_;
  std::thread watcher_;
};

}  // namespace terse::perf
