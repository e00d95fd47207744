// A fiber: a stack on which one piece of work after another runs, each of which can be left in the
// middle and gone on with later.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>

namespace terse::simt::internal {

// Memory with a page below it that faults.
class Stack {
 public:
  Stack();
  ~Stack();
  Stack(const Stack&) = delete;
  Stack& operator=(const Stack&) = delete;

  std::byte* bottom() const { return bottom_; }
  std::byte* top() const { return bottom_ + size(); }
  static size_t size();

 private:
  std::byte* bottom_;
};

// The fiber itself lives as long as this object, whatever becomes of the work: a stack begun anew
// for every piece of work would cost more, and the address sanitizer's notes about it would have to
// be discarded from the very frames that they are about.
class Fiber {
 public:
  using Work = void (*)(void* argument);  // must not throw

  // `color` moves the first frame within its page: equal addresses in all stacks would fall into
  // the same cache sets.
  explicit Fiber(size_t color);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  // What the next resume() begins. Not while busy().
  void assign(Work work, void* argument) {
    work_ = work;
    argument_ = argument;
  }
  bool busy() const { return work_ != nullptr; }

  void resume();   // from outside: runs the work until it suspends or ends
  void suspend();  // from the work: goes on behind resume()

 private:
  static void enter(boost::context::detail::transfer_t from);
  void leave();

  Stack stack_;
  boost::context::detail::fcontext_t inside_, outside_ = nullptr;
  Work work_ = nullptr;
  void* argument_ = nullptr;
  bool ending_ = false;
  // The address sanitizer's.
  void* inside_frames_ = nullptr;
  const void* outside_bottom_ = nullptr;
  size_t outside_size_ = 0;
};

// This OS thread's fiber number `index`; they are kept until it ends.
Fiber& pooled_fiber(size_t index);

}  // namespace terse::simt::internal
