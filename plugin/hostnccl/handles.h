// Live objects behind the opaque pointers of the C interface. A pointer that we did not give out,
// or have taken back, is recognised instead of followed.
#ifndef HOSTNCCL_HANDLES_H_
#define HOSTNCCL_HANDLES_H_

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
  static Handle Add(std::shared_ptr<Object> object) {
    auto handle = reinterpret_cast<Handle>(object.get());
    std::lock_guard lock(All().mutex);
    All().map[handle] = std::move(object);
    return handle;
  }

  static std::shared_ptr<Object> Find(Handle handle, const char* what) {
    std::lock_guard lock(All().mutex);
    const auto found = All().map.find(handle);
    if (found == All().map.end()) Complain(handle, what);
    return found->second;
  }

  static std::shared_ptr<Object> Take(Handle handle, const char* what) {
    std::lock_guard lock(All().mutex);
    const auto found = All().map.find(handle);
    if (found == All().map.end()) Complain(handle, what);
    std::shared_ptr<Object> object = std::move(found->second);
    All().map.erase(found);
    return object;
  }

 private:
  struct Live {
    std::mutex mutex;
    std::unordered_map<Handle, std::shared_ptr<Object>> map;
  };
  static Live& All() { return OfProcess<Live>(); }
  [[noreturn]] static void Complain(Handle handle, const char* what) {
    if (handle == Handle{}) Fail(ncclInvalidArgument, "{} is NULL", what);
    if (IsForkedChild()) {
      Fail(ncclInvalidUsage, "{} {} was not made in this process, a forked child", what,
           static_cast<const void*>(handle));
    }
    Fail(ncclInvalidArgument, "{} {} is not valid: never made, or already destroyed", what,
         static_cast<const void*>(handle));
  }
};

}  // namespace hostnccl

#endif  // HOSTNCCL_HANDLES_H_
