#include "policy/match.h"

#include <algorithm>

namespace terse {
namespace {

bool has(Set set, Set bit) { return (set & bit) != 0; }

// A set without bits has everything.
bool covers(Set set, Set other) { return set == 0 || (other != 0 && (other & ~set) == 0); }

bool meets(Set set, Set other) { return set == 0 || other == 0 || (set & other) != 0; }

bool is_less_than_usual(const Facts& f) { return f.bytes < default_min_bytes(f); }

// Shards of the largest match, on hosts or on GPUs, where shards have 32 KiB or more; fewer of
// fused calls alone, by a profile.
Range shards_of(const Match& m) {
  return {std::max<uint64_t>(m.shard.first, m.usual ? kUsualShard / 2 : 0), m.shard.last};
}

// Returns true if a name may match both. Two patterns always may.
bool names_meet(std::string_view name, std::string_view other) {
  const auto is_pattern = [](std::string_view s) { return s.find_first_of("*?") != s.npos; };
  if (name.empty() || other.empty() || (is_pattern(name) && is_pattern(other))) return true;
  return is_pattern(name) ? glob(name, other) : glob(other, name);
}

}  // namespace

size_t default_min_bytes_in_steps(const Facts& f) {
  const auto ranks = static_cast<size_t>(f.ranks);
  return f.gpu ? std::max(size_t{8} << 20, (size_t{32} << 10) * ranks)
               : kUsualShard * plan::shards(f.collective, f.ranks);
}

size_t default_min_bytes(const Facts& f) {
  return std::min(default_min_bytes_in_steps(f), f.fused_from);
}

// Sizes come last: if they alone refuse, the message is too small or too large.
const char* Match::refusal(const Facts& f) const {
  if (!has(collectives, set_of(f.collective))) return "collective";
  if (dtypes != 0 && !has(dtypes, set_of(f.dtype))) return "dtype";
  if (ops != 0 && !(has(reducing_collectives(), set_of(f.collective)) && has(ops, set_of(f.op))))
    return "op";
  if (!ranks.contains(static_cast<uint64_t>(f.ranks))) return "ranks";
  if (!nodes.everything() && (f.nodes == 0 || !nodes.contains(static_cast<uint64_t>(f.nodes))))
    return "nodes";
  if (!name.empty() && !glob(name, f.name)) return "name";
  if (!tag.contains(f.tag)) return "tag";
  if (!bytes.contains(f.bytes) || (usual && is_less_than_usual(f))) return "bytes";
  if (!shard.contains(f.shard_bytes())) return "shard";
  return nullptr;
}

bool Match::is_too_small(const Facts& f) const {
  return f.bytes < bytes.first || f.shard_bytes() < shard.first || (usual && is_less_than_usual(f));
}

bool Match::covers(const Match& o) const {
  return (!usual || o.usual) && terse::covers(collectives, o.collectives) &&
         terse::covers(dtypes, o.dtypes) && terse::covers(ops, o.ops) && ranks.contains(o.ranks) &&
         nodes.contains(o.nodes) && (name.empty() || name == o.name) && tag.contains(o.tag) &&
         bytes.contains(o.bytes) && shard.contains(o.shard);
}

bool Match::meets(const Match& o) const {
  // A shard is no larger than its message.
  const Range own = shards_of(*this), others = shards_of(o);
  const bool of_sizes = bytes.meets(o.bytes) && own.meets(others) &&
                        std::max(own.first, others.first) <= std::min(bytes.last, o.bytes.last);
  return terse::meets(collectives, o.collectives) && terse::meets(dtypes, o.dtypes) &&
         terse::meets(ops, o.ops) && ranks.meets(o.ranks) && nodes.meets(o.nodes) &&
         names_meet(name, o.name) && tag.meets(o.tag) && of_sizes;
}

// After a mismatch the last * takes more, up to a place where its follower may begin.
bool glob(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, star = pattern.npos, taken = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      taken = t;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == text[t])) {
      ++p;
      ++t;
    } else if (star != pattern.npos) {
      p = star + 1;
      ++taken;
      if (p < pattern.size() && pattern[p] != '*' && pattern[p] != '?')
        taken = std::min(text.find(pattern[p], taken), text.size());
      t = taken;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace terse
