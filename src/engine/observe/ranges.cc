#include "engine/observe/ranges.h"

#ifdef TERSE_NVTX
#include <nvtx3/nvToolsExt.h>

#include <atomic>

#include "base/first_made.h"
#endif

namespace terse::ranges {

#ifdef TERSE_NVTX

namespace {

// Null where no tool listens.
nvtxDomainHandle_t domain() noexcept {
  static constinit std::atomic<const nvtxDomainHandle_t*> place{nullptr};
  return first_made(place, [] { return nvtxDomainCreateA("terse"); });  // it may load a tool
}

nvtxEventAttributes_t attributes(const char* text, size_t bytes) noexcept {
  nvtxEventAttributes_t a{};
  a.version = NVTX_VERSION;
  a.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  a.messageType = NVTX_MESSAGE_TYPE_ASCII;
  a.message.ascii = text;
  a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  a.payload.ullValue = bytes;
  return a;
}

}  // namespace

bool attached() noexcept { return domain() != nullptr; }

uint64_t start(const std::string& text, size_t bytes) noexcept {
  if (!attached()) return 0;
  const nvtxEventAttributes_t a = attributes(text.c_str(), bytes);
  return nvtxDomainRangeStartEx(domain(), &a);
}

void end(uint64_t range) noexcept {
  if (range != 0) nvtxDomainRangeEnd(domain(), range);
}

Scope::Scope(const char* text, size_t bytes) noexcept {
  if (!attached()) return;
  const nvtxEventAttributes_t a = attributes(text, bytes);
  nvtxDomainRangePushEx(domain(), &a);
}

Scope::~Scope() {
  if (attached()) nvtxDomainRangePop(domain());
}

#else

bool attached() noexcept { return false; }
uint64_t start(const std::string&, size_t) noexcept { return 0; }
void end(uint64_t) noexcept {}
Scope::Scope(const char*, size_t) noexcept {}
Scope::~Scope() = default;

#endif

}  // namespace terse::ranges
