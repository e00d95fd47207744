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

void RunActions() {
  is_child = true;
  for (const std::atomic<Action>& action : actions) {
    if (const Action run = action) run();
  }
}

}  // namespace

bool IsForkedChild() { return is_child; }

void InForkedChild(Action action) {
  static const int registered = pthread_atfork(nullptr, nullptr, &RunActions);
  Require(registered == 0, ncclSystemError, "no memory to be told of fork()");
  actions.at(count++) = action;
}

}  // namespace hostnccl
