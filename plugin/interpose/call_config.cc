#include "interpose/call_config.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "base/error.h"
#include "terse/terse.h"

namespace terse::interpose {
namespace {

bool is_set(int number) { return number != NCCL_CONFIG_UNDEF_INT; }

bool nccl_takes(const ncclCollConfig_t& c) {
  constexpr int kAllPolicies =
      NCCL_CTA_POLICY_DEFAULT | NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;
  return c.size >= NCCL_COLLCONFIG_V23100_BYTES && c.magic == NCCL_API_MAGIC &&
         (c.forceAlgSelection == 0 || c.forceAlgSelection == 1) &&
         (!is_set(c.CTAPolicy) || (c.CTAPolicy >= 0 && c.CTAPolicy <= kAllPolicies));
}

bool has_event(const ncclCollConfig_t& c) {
  return c.size >= sizeof c && c.launchCompletionEvent != nullptr;
}

// Returns true if members that terse does not know are set: neither null, nor zero, nor
// NCCL_CONFIG_UNDEF_INT.
bool has_more(const ncclCollConfig_t& c) {
  constexpr size_t kMaxBytes = 4096;  // bytes looked at
  const size_t begin = c.size < sizeof c ? NCCL_COLLCONFIG_V23100_BYTES : sizeof c;
  if (c.size > kMaxBytes) return true;
  for (size_t at = begin; at < c.size; at += sizeof(int)) {
    int word = 0;
    std::memcpy(&word, reinterpret_cast<const char*>(&c) + at, std::min(sizeof word, c.size - at));
    if (word != 0 && is_set(word)) return true;
  }
  return false;
}

// Returns true if the algorithm is forced; otherwise NCCL itself may take another one.
bool forces_algorithm(const ncclCollConfig_t& c) {
  return c.forceAlgSelection == 1 && c.algSelection != nullptr && *c.algSelection != '\0';
}

bool is_for_nccl_alone(const ncclCollConfig_t& c) {
  const int numbers[] = {c.minCTAs, c.maxCTAs, c.nvlsCTAs, c.cgaClusterSize, c.CTAPolicy};
  return std::ranges::any_of(numbers, is_set) || forces_algorithm(c) || has_event(c) || has_more(c);
}

// Parsed scheme, cached as programs name the same few over and over.
std::shared_ptr<const Scheme> scheme_of(const char* text) {
  constexpr size_t kMaxSchemes = 256;
  struct Known {
    std::mutex mutex;
    std::map<std::string, std::shared_ptr<const Scheme>, std::less<>> schemes;
  };
  // Never destroyed: calls may come from other threads while the program exits.
  static Known& known = *new Known;
  if (text == nullptr) fail(ncclInvalidArgument, "the scheme of its configuration is null");
  const std::lock_guard lock(known.mutex);
  if (const auto found = known.schemes.find(text); found != known.schemes.end())
    return found->second;
  auto scheme = std::make_shared<const Scheme>(parse_scheme(text));
  if (known.schemes.size() >= kMaxSchemes) known.schemes.clear();
  known.schemes.emplace(text, scheme);
  return scheme;
}

// Indexed by the option's number, from 1.
constexpr void (*kOptions[])(const ncclConfigExt_t& option, CallConfig& parsed) = {
    [](const ncclConfigExt_t& option, CallConfig& parsed) {
      parsed.scheme = scheme_of(option.val.s);
    },
    [](const ncclConfigExt_t& option, CallConfig& parsed) { parsed.exact = option.val.i != 0; },
    [](const ncclConfigExt_t& option, CallConfig& parsed) {
      parsed.must_compress = option.val.i != 0;
    }};
static_assert(std::size(kOptions) == TERSE_OPTION_MUST_COMPRESS);

void read_options(const ncclConfigExt_t* first, CallConfig& parsed) {
  constexpr size_t kMaxOptions = 1024;
  size_t count = 0;
  bool given[std::size(kOptions)] = {};
  for (const ncclConfigExt_t* o = first; o != nullptr; o = o->next) {
    if (++count > kMaxOptions)
      fail(ncclInvalidArgument, "the options of its configuration have no end");
    if (o->key.vendorId != TERSE_VENDOR_ID) continue;
    const int id = o->key.optionId;
    if (id < 1 || id > static_cast<int>(std::size(kOptions)))
      fail(ncclInvalidArgument, "terse has no option {}, which its configuration gives", id);
    if (std::exchange(given[id - 1], true))
      fail(ncclInvalidArgument, "its configuration gives terse's option {} twice", id);
    kOptions[id - 1](*o, parsed);
  }
  if (parsed.exact && (parsed.scheme != nullptr || parsed.must_compress))
    fail(ncclInvalidArgument, "its configuration asks that it is exact, and that it is compressed");
}

}  // namespace

std::optional<CallConfig> call_config_of(const ncclCollConfig_t& config) {
  if (!nccl_takes(config)) return {};
  CallConfig parsed{.tag = config.userProfilerTag, .native = is_for_nccl_alone(config)};
  read_options(config.ext, parsed);
  return parsed;
}

}  // namespace terse::interpose
