// Object that is made at its first use, for making that takes the loader's lock, as dlopen and
// dlsym do: such an object must not be static. A thread that has the loader's lock, in a library's
// constructor, would wait for the thread that makes it, and that one for the loader.
#pragma once

#include <atomic>
#include <memory>

namespace terse {

// The object at `place`, which stays. Threads that find none make one each, and the first that is
// done is everyone's. What make() throws is passed on; the next call makes it anew.
template <class T, class Make>
const T& first_made(std::atomic<const T*>& place, const Make& make) {
  if (const T* known = place.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<const T>(make());
  const T* known = nullptr;
  if (place.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel))
    return *made.release();
  return *known;
}

}  // namespace terse
