// Identity of a communicator: its handle, its place among the ranks, and how messages name it.
#pragma once

#include <unistd.h>

#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "engine/comm/agreed.h"
#include "nccl/table.h"
#include "policy/settings.h"

namespace terse {

class CommIdentity {
 public:
  // The settings outlive it.
  CommIdentity(const Settings& settings, const NcclLibrary& library, ncclComm_t comm);
  CommIdentity(const CommIdentity&) = delete;
  CommIdentity& operator=(const CommIdentity&) = delete;

  const Settings& settings;
  const NcclLibrary& library;
  const ncclComm_t comm;
  const int ranks, rank;

  const std::string& name() const { return name_; }  // NCCL's commName; empty: none
  // Name of the communicator that it was split or has grown from.
  const std::string& made_from() const { return made_from_; }
  void set_names(std::string name, std::string made_from) {
    name_ = std::move(name);
    made_from_ = std::move(made_from);
  }

  Agreed& agreed() { return agreed_; }
  const Agreed& agreed() const { return agreed_; }

  // Returns false in a forked child; the parent reports it.
  bool is_of_this_process() const { return process_ == getpid(); }

  // Name in messages: `communicator "dp", rank 2 of 8`; by its ordinal if it has no name.
  std::string describe() const;
  // Message with the name before it, unless it is there.
  std::string about(std::string text) const;
  // Inverse of about().
  std::string without_name(std::string text) const;

  // Makes an error one about this communicator.
  void add_context(Error& error) const;

  // Throws an Error that names the communicator.
  template <class... Args>
  [[noreturn]] void fail(ncclResult_t result, fmt::format_string<Args...> format,
                         Args&&... args) const {
    Error error(result, fmt::format(format, std::forward<Args>(args)...));
    add_context(error);
    throw error;
  }

  // Logs a line that names the communicator.
  template <class... Args>
  void log(LogLevel level, fmt::format_string<Args...> format, Args&&... args) const {
    if (level <= log_level())
      write_log(level, rank, about(fmt::format(format, std::forward<Args>(args)...)));
  }

  // Runs a part of the communicator's work, whose errors name the communicator.
  template <class Part>
  auto with_context(const Part& part) const {
    try {
      return part();
    } catch (Error& e) {
      add_context(e);
      throw;
    }
  }

  // Runs a part of a call, whose errors also end with the call's name, as what() gives it.
  template <class What, class Part>
  auto with_context(const What& what, const Part& part) const {
    return with_context([&] {
      try {
        return part();
      } catch (Error& e) {
        e.message += fmt::format(" ({})", what());
        throw;
      }
    });
  }

 private:
  std::string name_, made_from_;
  Agreed agreed_;
  const pid_t process_ = getpid();
};

// Name of a communicator in messages: its own, or else the ordinal that the ranks have agreed on.
std::string describe(const std::string& name, std::optional<uint64_t> ordinal, int rank, int ranks);

}  // namespace terse
