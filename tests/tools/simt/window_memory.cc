#include "window_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "processor.h"

namespace terse::simt::internal {

std::string Numbers::name(size_t number) const {
  return fmt::format("rank {}'s block {}, thread {}", number / (blocks * threads),
                     number / threads % blocks, number % threads);
}

WindowMemory::WindowMemory(std::vector<RankWindow> windows, const Numbers& numbers)
    : numbers_(numbers), clocks_(numbers.all(), Clock(numbers.all())) {
  for (RankWindow& window : windows) {
    std::vector<Byte> bytes(window.bytes);
    for (size_t i = 0; i < window.initialized; ++i) bytes[i].is_initialized = true;
    regions_.push_back({std::move(window), std::move(bytes), {}});
  }
  for (size_t thread = 0; thread < clocks_.size(); ++thread) begin_next(thread);
}

WindowMemory::Region* WindowMemory::region_of(const void* at, size_t bytes, Site site) {
  const auto begin = reinterpret_cast<uintptr_t>(at), end = begin + bytes;
  for (Region& region : regions_) {
    const auto first = reinterpret_cast<uintptr_t>(region.window.data);
    const auto last = first + region.window.bytes;
    if (end <= first || begin >= last) continue;
    if (begin < first || end > last)
      processor().fail(
          site, fmt::format("touches {} bytes across an end of \"{}\"", bytes, region.window.name));
    return &region;
  }
  return nullptr;
}

std::string WindowMemory::place(const void* at) const {
  for (const Region& region : regions_)
    if (region.offset(at) < region.window.bytes)
      return fmt::format("offset {} of \"{}\"", region.offset(at), region.window.name);
  return fmt::format("address {}", at);
}

void WindowMemory::touch(Operation operation, const void* at, size_t bytes, size_t thread,
                         Site site) {
  Region* const region = region_of(at, bytes, site);
  if (region == nullptr) return;
  const auto* const begin = static_cast<const char*>(at);
  for (size_t i = 0; i < bytes; ++i) {
    Byte& byte = region->bytes[region->offset(begin + i)];
    if (byte.is_flag)
      processor().fail(site,
                       fmt::format("touches {}, of a flag, as if it were data", place(begin + i)));
    if (operation != Operation::kStore) read(byte, begin + i, now(thread, site));
    if (operation != Operation::kLoad) write(byte, begin + i, now(thread, site));
  }
}

void WindowMemory::read(Byte& byte, const void* at, const Access& access) const {
  if (byte.write.time == 0 && !byte.is_initialized)
    processor().fail(access.site, fmt::format("reads {}, which nobody has written", place(at)));
  if (!is_over(byte.write, access.thread)) conflict("reads", at, access, "wrote", byte.write);
  // Who knows this read knows the earlier ones that it knew of.
  std::erase_if(byte.reads, [&](const Access& before) { return is_over(before, access.thread); });
  byte.reads.push_back(access);
}

void WindowMemory::write(Byte& byte, const void* at, const Access& access) const {
  if (!is_over(byte.write, access.thread)) conflict("writes", at, access, "wrote", byte.write);
  for (const Access& before : byte.reads)
    if (!is_over(before, access.thread)) conflict("writes", at, access, "read", before);
  byte.write = access;
  byte.reads.clear();
}

void WindowMemory::conflict(const char* what, const void* at, const Access& access,
                            const char* before_what, const Access& before) const {
  processor().fail(access.site,
                   fmt::format("missing order: {} {}, which {} {} at {}, with nothing in between "
                               "that says that it is over",
                               what, place(at), numbers_.name(before.thread), before_what,
                               to_string(before.site)));
}

WindowMemory::Flag& WindowMemory::flag_of(const void* at, size_t bytes, size_t thread, Site site) {
  Region* const region = region_of(at, bytes, site);
  if (region == nullptr)
    processor().fail(site, fmt::format("the flag at {} is in no window", place(at)));
  const size_t offset = region->offset(at);
  const auto [found, is_new] = region->flags.try_emplace(
      offset, Flag{const_cast<void*>(at), bytes, {}, Clock(clocks_.size()), {}});
  if (!is_new) return found->second;
  for (size_t i = 0; i < bytes; ++i) {
    Byte& byte = region->bytes[offset + i];
    byte.is_flag = true;
    if (byte.write.time != 0) conflict("has a flag in", at, now(thread, site), "wrote", byte.write);
    if (!byte.reads.empty())
      conflict("has a flag in", at, now(thread, site), "read", byte.reads.front());
  }
  return found->second;
}

void WindowMemory::release(void* flag, size_t bytes, uint64_t value, size_t thread, Site site,
                           bool orders) {
  Flag& of = flag_of(flag, bytes, thread, site);
  if (orders && !is_over(of.last, thread))
    conflict("releases", flag, now(thread, site), "released", of.last);
  of.last = now(thread, site);
  of.on_its_way.push_back({value, orders ? clocks_[thread] : Clock(clocks_.size()), of.last});
  on_their_way_.insert(&of);
  begin_next(thread);
}

uint64_t WindowMemory::acquire(const void* flag, size_t bytes, size_t thread, Site site,
                               bool orders) {
  Flag& of = flag_of(flag, bytes, thread, site);
  // A value that was given before is there, as between two kernels of a rank.
  while (!of.on_its_way.empty() && is_over(of.on_its_way.front().release, thread)) arrive(of);
  uint64_t value = 0;
  std::memcpy(&value, flag, bytes);  // the lower bytes first
  if (!orders) return value;
  join(clocks_[thread], of.known);
  for (auto at = on_their_way_.begin(); at != on_their_way_.end();) {
    Flag& other = **at++;  // arrive() may take it out
    while (!other.on_its_way.empty() && is_over(other.on_its_way.front().release, thread)) {
      if (other.on_its_way.front().release.thread == thread) break;  // that is no news
      arrive(other);
      has_news_ = true;
    }
  }
  return value;
}

void WindowMemory::meet(size_t first, size_t count) {
  Clock all(clocks_.size());
  for (size_t thread = first; thread < first + count; ++thread) join(all, clocks_[thread]);
  for (size_t thread = first; thread < first + count; ++thread) {
    clocks_[thread] = all;
    begin_next(thread);
  }
}

bool WindowMemory::deliver(Random& random) {
  std::vector<Flag*> waiting;
  for (Region& region : regions_)
    for (auto& [offset, flag] : region.flags)
      if (!flag.on_its_way.empty()) waiting.push_back(&flag);
  if (waiting.empty()) return false;
  arrive(*waiting[random.below(static_cast<uint32_t>(waiting.size()))]);
  return true;
}

void WindowMemory::arrive(Flag& flag) {
  std::memcpy(flag.at, &flag.on_its_way.front().value, flag.bytes);
  flag.known = std::move(flag.on_its_way.front().known);
  flag.on_its_way.pop_front();
  if (flag.on_its_way.empty()) on_their_way_.erase(&flag);
  ++delivered_;
}

void WindowMemory::join(Clock& to, const Clock& from) {
  for (size_t i = 0; i < to.size(); ++i) to[i] = std::max(to[i], from[i]);
}

}  // namespace terse::simt::internal
