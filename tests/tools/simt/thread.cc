#include "thread.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace terse::simt::internal {
namespace {

bool same(const Thread& a, const Thread& b) {
  if (a.activity != b.activity) return false;
  // Where an exited or running thread waited before means nothing.
  if (a.activity == Activity::kRunning || a.activity == Activity::kExited) return true;
  return a.site == b.site;
}

std::string at(const Thread& thread) {
  const auto call = [&](const char* name) {
    return fmt::format("at {} ({})", name, to_string(thread.site));
  };
  switch (thread.activity) {
    case Activity::kRunning:
      return "running";
    case Activity::kShuffleXor:
      return call("shuffle_xor");
    case Activity::kShuffle:
      return call("shuffle");
    case Activity::kBallot:
      return call("ballot");
    case Activity::kSyncWarp:
      return call("sync_warp");
    case Activity::kSyncBlock:
      return call("sync_block");
    case Activity::kPause:
      return call("pause");
    case Activity::kExited:
      return "exited";
  }
  return "";
}

// "3", "0-31", "0, 2, 4-7"
std::string list(const std::vector<uint32_t>& indices) {
  std::string text;
  for (size_t first = 0, next = 0; first < indices.size(); first = next) {
    for (next = first + 1; next < indices.size() && indices[next] == indices[next - 1] + 1;) ++next;
    if (first != 0) text += ", ";
    text += fmt::format("{}", indices[first]);
    if (next - first > 1) text += fmt::format("-{}", indices[next - 1]);
  }
  return text;
}

}  // namespace

bool together(std::span<const Thread> threads) {
  return std::all_of(threads.begin(), threads.end(),
                     [&](const Thread& thread) { return same(thread, threads.front()); });
}

std::string describe(std::span<const Thread> threads) {
  struct Party {
    const Thread* first;
    std::vector<uint32_t> indices;
  };
  std::vector<Party> parties;
  for (const Thread& thread : threads) {
    auto party = std::find_if(parties.begin(), parties.end(),
                              [&](const Party& p) { return same(*p.first, thread); });
    if (party == parties.end()) party = parties.insert(party, {&thread, {}});
    party->indices.push_back(thread.index);
  }
  std::string text;
  for (const Party& party : parties)
    text +=
        fmt::format("{}thread{} {} {}", text.empty() ? "" : "; ",
                    party.indices.size() == 1 ? "" : "s", list(party.indices), at(*party.first));
  return text;
}

}  // namespace terse::simt::internal
