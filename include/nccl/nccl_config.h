/* What NCCL 2.31 and 2.32 add to nccl.h for the configuration of a single call, after nccl.h of
 * 2.28.9 (nccl.h here). Values, layouts and calling conventions are NCCL's; the declarations are
 * our own. A program that has NCCL's own header of 2.32 needs none of this. Usable from C and C++.
 */
#ifndef NCCL_CONFIG_H_
#define NCCL_CONFIG_H_

#include <nccl.h>
#include <stdint.h>

#ifndef NCCL_COLLCONFIG_INITIALIZER

#ifdef __cplusplus
extern "C" {
#endif

#define NCCL_API_MAGIC 0xcafebeef

/* An option of a vendor's; NCCL itself ignores all of them. The list has an end, and no key twice.
 * A vendor's id is not 0, less than 2^24, and chosen at random. */
typedef struct ncclConfigExt {
  struct ncclConfigExt* next; /* NULL: the last */
  struct {
    int vendorId;
    int optionId;
  } key;
  union {
    int i;
    const char* s;
    void* raw;
  } val;
} ncclConfigExt_t;

/* Later versions only append members. It belongs to the caller, and lasts for the call; every rank
 * gives the same. */
typedef struct ncclCollConfig_v23200 {
  size_t size;
  unsigned int magic;
  unsigned int version;
  ncclConfigExt_t* ext;
  int minCTAs;
  int maxCTAs;
  int nvlsCTAs;
  int cgaClusterSize;
  const char* algSelection; /* NULL or "": NCCL chooses */
  int forceAlgSelection;    /* 1: an algSelection that cannot be kept is an error; 0: is ignored */
  int CTAPolicy;            /* NCCL_CTA_POLICY_* */
  uint64_t userProfilerTag; /* of the call, for profilers; 0: none; the highest bit is NCCL's */
  struct CUevent_st* launchCompletionEvent; /* a cudaEvent_t; since 2.32 */
} ncclCollConfig_t;

/* The bytes of the first version, of 2.31, without the event. */
#define NCCL_COLLCONFIG_V23100_BYTES 64

/* clang-format off */
#define NCCL_COLLCONFIG_INITIALIZER {                                                \
  sizeof(ncclCollConfig_t), NCCL_API_MAGIC, NCCL_VERSION(2, 32, 0),                  \
  NCCL_CONFIG_UNDEF_PTR, /* ext */                                                   \
  NCCL_CONFIG_UNDEF_INT, /* minCTAs */                                               \
  NCCL_CONFIG_UNDEF_INT, /* maxCTAs */                                               \
  NCCL_CONFIG_UNDEF_INT, /* nvlsCTAs */                                              \
  NCCL_CONFIG_UNDEF_INT, /* cgaClusterSize */                                        \
  NCCL_CONFIG_UNDEF_PTR, /* algSelection */                                          \
  1,                     /* forceAlgSelection */                                     \
  NCCL_CONFIG_UNDEF_INT, /* CTAPolicy */                                             \
  0,                     /* userProfilerTag */                                       \
  NCCL_CONFIG_UNDEF_PTR  /* launchCompletionEvent */                                 \
}
/* clang-format on */

/* The plain calls with a configuration; NULL is as the plain call. */
ncclResult_t ncclAllReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclBroadcastConfig(const void* sendbuff, void* recvbuff, size_t count,
                                 ncclDataType_t datatype, int root, ncclComm_t comm,
                                 cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclReduceConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, ncclRedOp_t op, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAllGatherConfig(const void* sendbuff, void* recvbuff, size_t sendcount,
                                 ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                 const ncclCollConfig_t* config);
ncclResult_t ncclReduceScatterConfig(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     ncclDataType_t datatype, ncclRedOp_t op, ncclComm_t comm,
                                     cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclAlltoAllConfig(const void* sendbuff, void* recvbuff, size_t count,
                                ncclDataType_t datatype, ncclComm_t comm, cudaStream_t stream,
                                const ncclCollConfig_t* config);
ncclResult_t ncclGatherConfig(const void* sendbuff, void* recvbuff, size_t count,
                              ncclDataType_t datatype, int root, ncclComm_t comm,
                              cudaStream_t stream, const ncclCollConfig_t* config);
ncclResult_t ncclScatterConfig(const void* sendbuff, void* recvbuff, size_t count,
                               ncclDataType_t datatype, int root, ncclComm_t comm,
                               cudaStream_t stream, const ncclCollConfig_t* config);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* NCCL_COLLCONFIG_INITIALIZER */

#endif /* NCCL_CONFIG_H_ */
