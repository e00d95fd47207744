#include "fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <memory>
#include <new>
#include <vector>

#include "sanitizer.h"

namespace terse::simt::internal {
namespace {

using boost::context::detail::jump_fcontext;
using boost::context::detail::make_fcontext;
using boost::context::detail::transfer_t;

size_t page_size() {
  static const size_t bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  return bytes;
}

}  // namespace

size_t Stack::size() { return kAsan ? 256 * 1024 : 64 * 1024; }

Stack::Stack() {
  void* memory = mmap(nullptr, page_size() + size(), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (mprotect(memory, page_size(), PROT_NONE) != 0) {
    munmap(memory, page_size() + size());
    throw std::bad_alloc();
  }
  bottom_ = static_cast<std::byte*>(memory) + page_size();
}

Stack::~Stack() {
  forget_memory(bottom_, size());
  munmap(bottom_ - page_size(), page_size() + size());
}

Fiber::Fiber(size_t color) {
  constexpr size_t kLine = 64, kColors = 61;
  inside_ = make_fcontext(stack_.top() - color * 5 % kColors * kLine, stack_.size(), enter);
}

Fiber::~Fiber() {
  if (outside_ == nullptr) return;  // never entered
  ending_ = true;
  resume();
}

void Fiber::resume() {
  void* frames = nullptr;
  start_switch(&frames, stack_.bottom(), Stack::size());
  inside_ = jump_fcontext(inside_, this).fctx;
  finish_switch(frames, nullptr, nullptr);
}

void Fiber::suspend() {
  start_switch(&inside_frames_, outside_bottom_, outside_size_);
  outside_ = jump_fcontext(outside_, nullptr).fctx;
  finish_switch(inside_frames_, &outside_bottom_, &outside_size_);
}

// Neither of the two has frames that the sanitizer keeps: leave() discards them.
__attribute__((no_sanitize("address"))) void Fiber::leave() {
  start_switch(nullptr, outside_bottom_, outside_size_);
  jump_fcontext(outside_, nullptr);
  __builtin_unreachable();
}

__attribute__((no_sanitize("address"))) void Fiber::enter(transfer_t from) {
  Fiber& fiber = *static_cast<Fiber*>(from.data);
  finish_switch(nullptr, &fiber.outside_bottom_, &fiber.outside_size_);
  fiber.outside_ = from.fctx;
  while (!fiber.ending_) {
    if (fiber.work_ != nullptr) fiber.work_(fiber.argument_);
    fiber.work_ = nullptr;
    fiber.suspend();
  }
  fiber.leave();
}

Fiber& pooled_fiber(size_t index) {
  thread_local std::vector<std::unique_ptr<Fiber>> pool;
  while (pool.size() <= index) pool.push_back(std::make_unique<Fiber>(pool.size()));
  return *pool[index];
}

}  // namespace terse::simt::internal
