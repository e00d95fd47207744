#include "engine/call/comm_levels.h"

#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/agree.h"
#include "engine/peers/unanimous.h"

namespace terse {

void give_levels(ncclComm_t comm, const char* text, const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  if (group_depth() > 0) fail(ncclInvalidUsage, "levels cannot be given within a group");
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  c.with_context([&] {
    std::vector<Levels> levels;
    const auto trouble = trouble_with([&] {
      if (text == nullptr) fail(ncclInvalidArgument, "the levels are null");
      levels = parse_levels(text, "levels");
    });
    require_unanimous(c, fingerprint(print_levels(levels)), trouble,
                      "gives other levels than this rank");
    after_agreeing(c, [&] {
      c.memory().stream_sets().synchronize();
      c.memory().codebooks().give(std::move(levels));
    });
  });
}

size_t get_levels(ncclComm_t comm, char* text, size_t capacity) {
  std::string levels;
  if (const CommunicatorPointer c = find_communicator(comm)) {
    c->read_levels();
    levels = print_levels(c->memory().codebooks().levels());
  }
  const size_t bytes = levels.size() + 1;
  if (text != nullptr && bytes > capacity)
    fail(ncclInvalidArgument, "{} needed, {} there", counted(bytes, "byte"), capacity);
  if (text != nullptr) std::memcpy(text, levels.c_str(), bytes);
  return bytes;
}

}  // namespace terse
