#include "fork.h"

#include <pthread.h>

#include <array>
#include <atomic>
#include <cstddef>

#include "failure.h"

namespace hostnccl {
namespace {

using Action = void (*)();

bool is_child = false;
// No lock: the child must be able to read it, whatever the parent's threads were about.
std::array<std::atomic<Action>, 16> actions;
std::atomic<size_t> count{0};

void run_actions() {
  is_child = true;
  for (const std::atomic<Action>& action : actions) {
    if (const Action run = action) run();
  }
}

}  // namespace

bool is_forked_child() { return is_child; }

void in_forked_child(Action action) {
  static const int registered = pthread_atfork(nullptr, nullptr, &run_actions);
  require(registered == 0, ncclSystemError, "no memory to be told of fork()");
  actions.at(count++) = action;
}

}  // namespace hostnccl
