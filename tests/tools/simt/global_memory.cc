#include "global_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "processor.h"

namespace terse::simt {
namespace internal {
namespace {

std::vector<const Memory*>& ranges() {
  thread_local std::vector<const Memory*> all;
  return all;
}

void reset_windows() {
  // With nothing registered everything is allowed, else nothing before it is looked up.
  readable = writable = ranges().empty() ? Window{} : Window{0, 0};
}

uintptr_t distance(const Memory& range, uintptr_t address) {
  if (address < range.begin()) return range.begin() - address;
  return address < range.end() ? 0 : address - range.end() + 1;
}

const char* name(Operation operation) {
  switch (operation) {
    case Operation::kLoad:
      return "load";
    case Operation::kStore:
      return "store";
    case Operation::kAtomicAdd:
      return "atomic_add";
    case Operation::kAtomicMax:
      return "atomic_max";
  }
  return "";
}

std::string place(uintptr_t address) {
  const std::vector<const Memory*>& all = ranges();
  if (all.empty()) return fmt::format("address {:#x}", address);
  const Memory& nearest =
      **std::min_element(all.begin(), all.end(), [address](const Memory* a, const Memory* b) {
        return distance(*a, address) < distance(*b, address);
      });
  return fmt::format("offset {} of \"{}\" ({} bytes{})",
                     static_cast<intptr_t>(address - nearest.begin()), nearest.name(),
                     nearest.bytes(), nearest.writable() ? "" : ", read-only");
}

}  // namespace

std::string why_refused(Operation operation, uintptr_t address, size_t bytes) {
  bool readable_there = false;
  bool allowed = ranges().empty();
  for (const Memory* range : ranges()) {
    const Window window{range->begin(), range->end()};
    if (!window.has(address, bytes)) continue;
    readable_there = true;
    if (operation != Operation::kLoad && !range->writable()) continue;
    (operation == Operation::kLoad ? readable : writable) = window;
    allowed = true;
    break;
  }
  if (allowed && (address & (bytes - 1)) == 0) return {};
  const char* reason = !allowed ? readable_there ? "which is read-only" : "which is out of bounds"
                                : "which is misaligned";
  return fmt::format("{} of {} bytes at {}, {}", name(operation), bytes, place(address), reason);
}

void find_window(Operation operation, uintptr_t address, size_t bytes, Site site) {
  const std::string why = why_refused(operation, address, bytes);
  if (!why.empty()) processor().fail(site, why);
}

}  // namespace internal

Memory::Memory(const void* data, size_t bytes, Access access, std::string name)
    : begin_(reinterpret_cast<uintptr_t>(data)),
      bytes_(bytes),
      writable_(access == Access::kReadWrite),
      name_(std::move(name)) {
  internal::ranges().push_back(this);
  internal::reset_windows();
}

Memory::~Memory() {
  std::erase(internal::ranges(), this);
  internal::reset_windows();
}

}  // namespace terse::simt
