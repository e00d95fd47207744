// An object of a type for each thread, which calls may use at any time: also those of exit handlers
// and of static objects' destructors, when the main thread's thread_local objects are gone.
#pragma once

#include <utility>

namespace hostnccl {

// Goes when the thread ends. Who asks after that gets another one, which stays.
template <class T>
T& of_thread() {
  thread_local T* object = nullptr;
  struct End {
    T*& object;
    ~End() { delete std::exchange(object, nullptr); }
  };
  if (object != nullptr) return *object;
  object = new T;
  [[maybe_unused]] thread_local const End end{object};  // a thread has it once
  return *object;
}

}  // namespace hostnccl
