// The collectives, Send and Recv, and groups of them (terse.h).
#include <nccl_signatures.h>

#include "api/require.h"
#include "engine/call/pending_group.h"
#include "policy/settings.h"

using namespace terse;

namespace {

void submit_with(const terseScheme_t* scheme, ncclComm_t comm, const Request& request) {
  submit(comm, request, scheme != nullptr ? &scheme->value : nullptr, settings());
}

}  // namespace

extern "C" {

#define NCCL_COLLECTIVE(suffix, form, from, to, name, ...)                                        \
  terseResult_t terse##name(NCCL_PARAMETERS_##form, const terseScheme_t* scheme, ncclComm_t comm, \
                            cudaStream_t stream) {                                                \
    return answer("terse" #name, [&] {                                                            \
      submit_with(scheme, comm,                                                                   \
                  request_of(plan::Collective::k##name, NCCL_ALL_ARGUMENTS_##form, stream));      \
    });                                                                                           \
  }
#include <nccl_collectives.inc>

terseResult_t terseGroupStart(void) {
  return answer("terseGroupStart", [] { group_start(); });
}

terseResult_t terseGroupEnd(void) {
  return answer("terseGroupEnd", [] { group_end(); });
}

}  // extern "C"
