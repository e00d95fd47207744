#include "check_call_config.h"

#include "failure.h"

namespace hostnccl {
namespace {

constexpr int kAllPolicies =
    NCCL_CTA_POLICY_DEFAULT | NCCL_CTA_POLICY_EFFICIENCY | NCCL_CTA_POLICY_ZERO;

}  // namespace

// Checks in NCCL's order.
void check_call_config(const ncclCollConfig_t* config) {
  if (config == nullptr) return;
  if (config->size < NCCL_COLLCONFIG_V23100_BYTES)
    fail(ncclInvalidArgument, "the configuration's size is {}, less than {}", config->size,
         NCCL_COLLCONFIG_V23100_BYTES);
  if (config->magic != NCCL_API_MAGIC)
    fail(ncclInvalidArgument, "the configuration's magic is {:#x}, not {:#x}", config->magic,
         NCCL_API_MAGIC);
  if (config->forceAlgSelection != 0 && config->forceAlgSelection != 1)
    fail(ncclInvalidArgument, "forceAlgSelection is {}, neither 0 nor 1",
         config->forceAlgSelection);
  const int policy = config->CTAPolicy;
  if (policy != NCCL_CONFIG_UNDEF_INT && (policy < 0 || policy > kAllPolicies))
    fail(ncclInvalidArgument, "CTAPolicy {} does not exist", policy);
}

}  // namespace hostnccl
