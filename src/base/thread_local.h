// Objects of a thread's own which calls may use at any time: also those of exit handlers and of
// static objects' destructors, which run when the thread_local objects of the main thread are gone.
#pragma once

#include <utility>

namespace terse {

// Object of a thread and type; so its user defines a type for it. It is made when the thread first
// gets it, and goes when the thread ends. A later get makes another one, which stays.
template <class T>
class ThreadLocal {
 public:
  static T& get() {
    if (place() == nullptr) make();
    return *place();
  }

  // Null where the thread has none yet, or none any more.
  static T* find() { return place(); }

 private:
  struct End {
    ~End() { delete std::exchange(place(), nullptr); }
  };

  static T*& place() {
    thread_local T* object = nullptr;
    return object;
  }

  static void make() {
    place() = new T();
    [[maybe_unused]] thread_local const End end{};  // a thread has it once
  }
};

}  // namespace terse
