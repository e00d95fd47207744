// All threads of all processes of a run: barrier, gathering, averaging.
#pragma once

#include <barrier>
#include <cstring>
#include <string>
#include <vector>

#include "rendezvous.h"

namespace terse::perf {

// How one number comes from everybody's, as -a takes it.
enum class Average { kRank0 = 0, kMean = 1, kMin = 2, kMax = 3, kSum = 4 };

class Team {
 public:
  // `timeout` bounds the wait for other processes in each call, in seconds.
  Team(Rendezvous& rendezvous, int threads, double timeout);

  int process() const { return rendezvous_.process(); }
  int processes() const { return rendezvous_.processes(); }
  int threads() const { return threads_; }

  // Every thread of every process calls these, each with its own number within its process.
  // Throw on every thread of a process what goes wrong between the processes.
  std::vector<std::string> gather(int thread, const std::string& blob);
  double combine(int thread, double value, Average average);
  void barrier(int thread) { gather(thread, ""); }

  // One T from each thread, in order of processes, then threads.
  template <typename T>
  std::vector<T> gather_values(int thread, const T& value) {
    std::vector<T> values;
    for (const std::string& blob :
         gather(thread, std::string(reinterpret_cast<const char*>(&value), sizeof(T)))) {
      std::memcpy(&values.emplace_back(), blob.data(), sizeof(T));
    }
    return values;
  }

 private:
  void exchange();

  Rendezvous& rendezvous_;
  int threads_;
  double timeout_;
  std::barrier<> barrier_;
  std::vector<std::string> given_;  // by thread
  std::vector<std::string> all_;
  std::string failure_;
};

}  // namespace terse::perf
