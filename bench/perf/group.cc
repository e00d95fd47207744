#include "group.h"

#include <string>

namespace terse::perf {
namespace {

constexpr double kSeconds = 60;

}  // namespace

Group gather_groups(Rendezvous* rendezvous, int color) {
  Group group;
  for (const std::string& blob : rendezvous->all_gather(std::to_string(color), kSeconds)) {
    const int process = static_cast<int>(group.colors.size());
    group.colors.push_back(std::stoi(blob));
    if (group.colors.back() != color) continue;
    if (process == rendezvous->process()) group.process = group.size();
    group.processes.push_back(process);
  }
  return group;
}

}  // namespace terse::perf
