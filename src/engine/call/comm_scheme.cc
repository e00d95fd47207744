#include "engine/call/comm_scheme.h"

#include <memory>
#include <string>

#include "base/error.h"
#include "engine/call/pending_group.h"
#include "engine/comm/directory.h"
#include "engine/peers/unanimous.h"

namespace terse {
namespace {

void require_no_group() {
  if (group_depth() > 0) fail(ncclInvalidUsage, "a scheme cannot be changed within a group");
}

}  // namespace

void push_scheme(ncclComm_t comm, std::string_view text, const Settings& settings) {
  if (comm == nullptr) fail(ncclInvalidArgument, "the communicator is null");
  require_no_group();
  const CommunicatorPointer held = communicator(comm, settings);
  Communicator& c = *held;
  std::shared_ptr<const Scheme> scheme;
  c.with_context([&] {
    const auto trouble = trouble_with([&] {
      scheme = std::make_shared<Scheme>(parse_scheme(text));
      if (scheme->automatic && c.topology().nodes() != 0 && c.profile() == nullptr)
        fail(ncclInvalidArgument, "auto needs a profile: {}", kProfileHint);
    });
    require_unanimous(c, fingerprint(text), trouble, "has another scheme than this rank");
  });
  after_agreeing(c, [&] { c.routing().push_scheme(std::move(scheme)); });
}

void pop_scheme(ncclComm_t comm) {
  require_no_group();
  if (const CommunicatorPointer held = find_communicator(comm)) held->routing().pop_scheme();
}

}  // namespace terse
