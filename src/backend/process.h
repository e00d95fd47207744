// Another process, by its number.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace terse {

class Process {
 public:
  Process() = default;
  explicit Process(pid_t id);

  // Returns false if it has ended, though nobody has waited for it yet; true if that cannot be
  // read.
  bool lives() const;

 private:
  struct State {
    bool has_ended;
    std::string begin;  // of the process, in ticks
  };
  std::optional<State> state() const;  // empty: it cannot be read

  pid_t id_ = 0;
  std::string begin_;  // empty: not known
};

}  // namespace terse
