#include "engine/peers/host_hash.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace terse {
namespace {

// Machines made of one image may share their name; a boot they do not.
std::string own_identity() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return name + (' ' + boot);
}

}  // namespace

uint64_t host_hash(const Settings& settings) {
  static const std::string& own = *new std::string(own_identity());  // also while others exit
  const std::string& given = settings.node;
  return fingerprint(given.empty() ? own : given);
}

}  // namespace terse
