// NCCL's eight calls that may have a configuration of their own, each beside its plain one.
#pragma once

#include <nccl.h>
#include <nccl_config.h>

#include <cstddef>

// A call of one rank with the configuration, or without one.
using ConfiguredCall = ncclResult_t (*)(const float* in, float* out, size_t count, ncclComm_t comm,
                                        const ncclCollConfig_t* config);
struct CallPair {
  const char* name;
  ConfiguredCall plain, configured;
};

#define CALL_PAIR(name, ...)                                                              \
  {                                                                                       \
#name,                                                                                  \
   [](const float* in, float* out, size_t count, ncclComm_t comm,                          \
      const ncclCollConfig_t*) {                                                           \
     return nccl##name(in, out, count, ncclFloat32, __VA_ARGS__, nullptr);                 \
   },                                                                                      \
   [](const float* in, float* out, size_t count, ncclComm_t comm,                          \
      const ncclCollConfig_t* config) {                                                    \
     return nccl##name##Config(in, out, count, ncclFloat32, __VA_ARGS__, nullptr, config); \
   } \
  }
constexpr CallPair kCallPairs[] = {CALL_PAIR(AllReduce, ncclAvg, comm),
                                   CALL_PAIR(AllGather, comm),
                                   CALL_PAIR(ReduceScatter, ncclSum, comm),
                                   CALL_PAIR(AlltoAll, comm),
                                   CALL_PAIR(Broadcast, 1, comm),
                                   CALL_PAIR(Reduce, ncclSum, 0, comm),
                                   CALL_PAIR(Gather, 1, comm),
                                   CALL_PAIR(Scatter, 0, comm)};
#undef CALL_PAIR

inline ncclCollConfig_t call_config() { return NCCL_COLLCONFIG_INITIALIZER; }
