#include "engine/observe/levels_file.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>

#include "base/file.h"
#include "base/log.h"
#include "engine/observe/reporting_comm.h"

namespace terse {
namespace {

struct LevelsFile {
  std::mutex mutex;
  std::optional<std::vector<Levels>> holds;  // empty: what was read from it
};

// Never destroyed: communicators may be released while the program exits.
LevelsFile& levels_file() {
  static LevelsFile& file = *new LevelsFile;
  return file;
}

// Puts levels before others that fit, as calls take the first ones that do. Returns true if that
// changed something.
bool put(const Levels& levels, std::vector<Levels>& all) {
  const auto is_of_same = [&](const Levels& other) { return other.same_calls(levels); };
  const auto first = std::ranges::find_if(all, [&](const Levels& other) {
    return is_of_same(other) ||
           other.fit(*levels.collective, *levels.count, *levels.dtype, *levels.spec);
  });
  if (first != all.end() && *first == levels) return false;
  const auto place = first - all.begin();
  std::erase_if(all, is_of_same);  // none is before the first
  all.insert(all.begin() + place, levels);
  return true;
}

bool is_behind(const Levels& levels, const std::vector<Levels>& all) {
  const auto progress = [](const Levels& l) { return std::pair(l.fits, l.calls); };
  return std::ranges::any_of(all, [&](const Levels& other) {
    return other.same_calls(levels) && progress(levels) < progress(other);
  });
}

}  // namespace

void save_levels(const Settings& settings, std::span<const Levels> fitted,
                 std::span<const Levels> continued) noexcept try {
  if (settings.levels_path.empty() || leading_rank() != 0) return;
  LevelsFile& file = levels_file();
  const std::lock_guard lock(file.mutex);
  if (!file.holds) file.holds = settings.levels;
  bool changed = false;
  for (const Levels& each : continued)
    if (!is_behind(each, *file.holds)) changed |= put(each, *file.holds);
  for (const Levels& each : fitted) changed |= put(each, *file.holds);
  if (changed) write_file(settings.levels_path, print_most_used(*file.holds));
} catch (const std::exception& e) {
  log(LogLevel::kWarn, "TERSE_LEVELS={}: {}", settings.levels_path, e.what());
}

}  // namespace terse
