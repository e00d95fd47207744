// fork(): the child has the library's memory, but none of its threads, and its locks as they were.
// What belongs to the parent is left alone there, and not found; the child may begin anew.
#ifndef HOSTNCCL_FORK_H_
#define HOSTNCCL_FORK_H_

namespace hostnccl {

// True in a child of a process that had used the library.
bool IsForkedChild();

// Calls `action` in every child from now on, while it has one thread.
void InForkedChild(void (*action)());

// The process's one object of a type. Never destroyed: threads and exit handlers may still use it.
// A forked child gets another one, as the parent's may be locked, or half changed.
template <class T>
T& OfProcess() {
  static T* object = (InForkedChild([] { object = new T; }), new T);
  return *object;
}

}  // namespace hostnccl

#endif  // HOSTNCCL_FORK_H_
