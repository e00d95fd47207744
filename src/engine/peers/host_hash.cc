#include "engine/peers/host_hash.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace terse {
namespace {

// Identity of the machine. Machines made of one image may share a name, but not a boot.
std::string own_identity() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  std::string boot;
  std::getline(std::ifstream("/proc/sys/kernel/random/boot_id"), boot);
  return name + (' ' + boot);
}

}  // namespace

uint64_t host_hash(const Settings& settings) {
  static const std::string& own = *new std::string(own_identity());  // lasts while others exit
  const std::string& given = settings.node;
  return fingerprint(given.empty() ? own : given);
}

}  // namespace terse
