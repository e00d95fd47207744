// Another process, by its number.
#pragma once

#include <sys/types.h>

#include <string>

namespace terse {

class Process {
 public:
  Process() = default;
  explicit Process(pid_t id) : id_(id), begin_(state().begin) {}

  // Returns false if it has ended, though nobody has waited for it yet.
  bool lives() const;

 private:
  struct State {
    char letter = 0;         // 0: there is no such process
    std::string begin = {};  // of the process, in ticks
  };
  State state() const;

  pid_t id_ = 0;
  std::string begin_;
};

}  // namespace terse
