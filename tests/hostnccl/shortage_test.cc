// A stream's thread for which there is no memory: what is queued goes on. Its own program, for it
// replaces operator new.
#include <cstdlib>
#include <new>

#include "streams.h"

namespace {

thread_local bool t_starved = false;

void* granted(size_t bytes) {
  void* memory = t_starved ? nullptr : std::malloc(bytes != 0 ? bytes : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

#pragma GCC visibility push(default)  // the library's own code takes them, too
void* operator new(size_t bytes) { return granted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
#pragma GCC visibility pop

namespace hostnccl_test {
namespace {

TEST(Shortage, OfAStreamsThreadLetsItWaitForOthers) {
  const Stream first, second;
  Gate before(first), start(second);
  const Event event;
  bool starved = false;
  ASSERT_NCCL(hostncclEventRecord(event, first));
  ASSERT_NCCL(hostncclLaunchHostFunc(
      second, [](void*) { t_starved = true; }, nullptr));
  ASSERT_NCCL(hostncclStreamWaitEvent(second, event));
  ASSERT_NCCL(hostncclLaunchHostFunc(
      second, [](void* seen) { *static_cast<bool*>(seen) = t_starved; }, &starved));
  start.open();
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it comes to the event first
  before.open();
  ASSERT_NCCL(hostncclStreamSynchronize(second));
  EXPECT_TRUE(starved);
}

}  // namespace
}  // namespace hostnccl_test
