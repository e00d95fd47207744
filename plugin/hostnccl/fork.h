// fork(): the child has the library's memory, but none of its threads, and its locks as they were.
// What belongs to the parent is left alone there, and not found; the child may begin anew.
#pragma once

namespace hostnccl {

// True in a child of a process that had used the library.
bool is_forked_child();

// Calls `action` in every child from now on, while it has one thread.
void in_forked_child(void (*action)());

// The process's one object of a type. Never destroyed: threads and exit handlers may still use it.
// A forked child gets another one, as the parent's may be locked, or half changed.
template <class T>
T& of_process() {
  static T* object = (in_forked_child([] { object = new T; }), new T);
  return *object;
}

}  // namespace hostnccl
