#include "engine/observe/levels_file.h"

#include <algorithm>
#include <mutex>
#include <optional>

#include "base/file.h"
#include "base/log.h"

namespace terse {
namespace {

struct LevelsFile {
  std::mutex mutex;
  std::optional<int> rank;                   // on the first communicator
  std::optional<std::vector<Levels>> holds;  // empty: what was read from it
};

// Never destroyed: communicators may be released while the program exits.
LevelsFile& levels_file() {
  static LevelsFile& file = *new LevelsFile;
  return file;
}

// Whether that changed something.
bool put(const Levels& levels, std::vector<Levels>& all) {
  const auto known =
      std::ranges::find_if(all, [&](const Levels& other) { return other.same_calls(levels); });
  if (known == all.end())
    all.push_back(levels);
  else if (*known == levels)
    return false;
  else
    *known = levels;
  return true;
}

}  // namespace

void levels_begin(int rank) noexcept {
  LevelsFile& file = levels_file();
  const std::lock_guard lock(file.mutex);
  if (!file.rank) file.rank = rank;
}

void save_levels(const Settings& settings, std::span<const Levels> levels) noexcept try {
  if (settings.levels_path.empty()) return;
  LevelsFile& file = levels_file();
  const std::lock_guard lock(file.mutex);
  if (file.rank != 0) return;
  if (!file.holds) file.holds = settings.levels;
  bool changed = false;
  for (const Levels& each : levels)
    if (each.fits != 0) changed |= put(each, *file.holds);
  if (changed) write_file(settings.levels_path, print_most_used(*file.holds));
} catch (const std::exception& e) {
  log(LogLevel::kWarn, "TERSE_LEVELS={}: {}", settings.levels_path, e.what());
}

}  // namespace terse
