// Live objects behind the opaque pointers of the C interface. A pointer that we did not give out,
// or have taken back, is recognised instead of followed.
#pragma once

#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "failure.h"
#include "fork.h"

namespace hostnccl {

template <class Object, class Handle>
class Handles {
 public:
  static Handle add(std::shared_ptr<Object> object) {
    auto handle = reinterpret_cast<Handle>(object.get());
    std::lock_guard lock(all().mutex);
    all().map[handle] = std::move(object);
    return handle;
  }

  static std::shared_ptr<Object> find(Handle handle, const char* what) {
    std::lock_guard lock(all().mutex);
    const auto found = all().map.find(handle);
    if (found == all().map.end()) complain(handle, what);
    return found->second;
  }

  static std::shared_ptr<Object> take(Handle handle, const char* what) {
    std::lock_guard lock(all().mutex);
    const auto found = all().map.find(handle);
    if (found == all().map.end()) complain(handle, what);
    std::shared_ptr<Object> object = std::move(found->second);
    all().map.erase(found);
    return object;
  }

 private:
  struct Live {
    std::mutex mutex;
    std::unordered_map<Handle, std::shared_ptr<Object>> map;
  };
  static Live& all() { return of_process<Live>(); }
  [[noreturn]] static void complain(Handle handle, const char* what) {
    if (handle == Handle{}) fail(ncclInvalidArgument, "{} is NULL", what);
    if (is_forked_child()) {
      fail(ncclInvalidUsage, "{} {} was not made in this process, a forked child", what,
           static_cast<const void*>(handle));
    }
    fail(ncclInvalidArgument, "{} {} is not valid: never made, or already destroyed", what,
         static_cast<const void*>(handle));
  }
};

}  // namespace hostnccl
