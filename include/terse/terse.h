/* terse: NCCL's collectives in fewer bits.
 *
 * Conventions of this interface:
 *  1. Plain C89; usable from C++ and from any foreign-function interface.
 *  2. Nothing here needs nccl.h. Where nccl.h is included first, its enum types are used; otherwise
 *     they are int, which has the same representation. Values are NCCL's in both cases.
 *  3. Every function that can fail returns an NCCL result code (0 is success). After a failure,
 *     terseGetLastError() on the same thread names the call, the communicator, the rank and the
 *     cause. A call that fails with ncclInvalidArgument or ncclInvalidUsage has written nothing.
 *  4. Handles are opaque. Structs that the caller allocates begin with a member `size`, set to
 *     sizeof the struct: fields are only ever appended, so old callers keep working.
 *  5. Buffers belong to the caller and must stay valid until the stream has passed the call, also
 *     one that failed: what it enqueued before still uses them. Any alignment, any count, zero
 *     included. Counts are in elements, sizes in bytes.
 *  6. Work is ordered on the caller's stream. With the host library (hostnccl) a stream is a
 *     hostncclStreamCreate() queue, and a null stream means "done on return".
 *  7. Thread-safe, with NCCL's own rule: one thread at a time drives one communicator. Any other
 *     may ask for its statistics and levels meanwhile.
 *
 * Start reading at terseSchemeParse and terseAllReduce.
 */
#ifndef TERSE_TERSE_H_
#define TERSE_TERSE_H_

#include <stddef.h>

#if defined(__GNUC__)
#define TERSE_API __attribute__((visibility("default")))
#else
#define TERSE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TERSE_VERSION_MAJOR 0
#define TERSE_VERSION_MINOR 1
#define TERSE_VERSION_PATCH 0
/* major * 10000 + minor * 100 + patch, as terseGetVersion() gives it */
#define TERSE_VERSION_CODE 100

struct ncclComm;    /* *ncclComm_t   */
struct CUstream_st; /* *cudaStream_t */

#ifdef NCCL_H_
typedef ncclResult_t terseResult_t;
typedef ncclDataType_t terseDataType_t;
typedef ncclRedOp_t terseRedOp_t;
#else
typedef int terseResult_t;
typedef int terseDataType_t;
typedef int terseRedOp_t;
#endif

/* NCCL's numbers, for callers without nccl.h. */
#define TERSE_SUCCESS 0
#define TERSE_SYSTEM_ERROR 2
#define TERSE_INTERNAL_ERROR 3
#define TERSE_INVALID_ARGUMENT 4
#define TERSE_INVALID_USAGE 5
#define TERSE_REMOTE_ERROR 6
#define TERSE_FLOAT16 6
#define TERSE_FLOAT32 7
#define TERSE_BFLOAT16 9
#define TERSE_SUM 0
#define TERSE_AVG 4

/* ---- Schemes ------------------------------------------------------------------------------ */

/* How a call is compressed: an immutable value that may be shared by threads and communicators. */
typedef struct terseScheme terseScheme_t;

/* Reads a scheme: NAME[:key=value[,key=value]...]
 *
 *   off              native NCCL, nothing is compressed
 *   int2 .. int8     symmetric block integers: one scale per block, codes -q..q, q = 2^(bits-1)-1
 *   minmax2 .. 8     block integers with a base and a step per block, codes 0..2^bits-1
 *   fp8e4m3, fp8e5m2 OCP FP8 with a scale per block
 *   mxfp8, mxfp6, mxfp4   OCP MX v1.0: e4m3, e2m3, e2m1, a power of two per block of 32
 *   nvfp4            e2m1, an e4m3 scale per 16 in units of an fp32 one per 4096
 *   bf16, fp16       fp32 elements rounded to 16 bits; sums in fp32
 *   linear8, linear16   integers of one grid for all ranks, which NCCL itself sums (Global-QSGD,
 *                    arXiv 2305.18627): of AllReduce, ReduceScatter and Reduce alone. For more
 *                    than 8 ranks linear8 means linear16, and 16-bit elements stay native; for
 *                    more than 2184 the call is an error, ncclInvalidArgument
 *   exp8             a sign and a power of two of one grid for all ranks; the owner of a shard
 *                    merges all ranks' codes, two at a time, by integers alone (Global-QSGD's
 *                    exponential dithering): of AllReduce, ReduceScatter and Reduce alone
 *   learned2 .. 8    one of 2^bits levels between the block's smallest and largest element (QSDP,
 *                    arXiv 2302.02390), which all ranks hold alike for each kind of call; not for
 *                    Send and Recv. Packed buffers have levels that are equally far apart
 *
 *   auto             what the profile TERSE_PROFILE predicts to be fastest for a call, native
 *                    included where nothing gains 10 %; not for Send and Recv. Its keys are bits=B
 *                    (codes of at least B bits, and no more error than those of intB, or from 9
 *                    bits on than stochastic bf16; default 8), error=E (any bits, and at most this
 *                    relative error on Gaussian data that is encoded once, or by linear summed;
 *                    by others an AllReduce of more than two ranks mostly encodes twice or more,
 *                    and errs more), round, own and seed
 *
 *   block=N          elements that share parameters: a multiple of 32, 32..4096 (default 128,
 *                    of linear and exp8 256)
 *   round=R          nearest (default), stochastic (default of linear and exp8), or shift (minmax
 *                    only: one random offset of the grid per block, QSDP's random shift, arXiv
 *                    2302.02390)
 *   scale=S          fp32 (default) or bf16: how int's, linear's and exp8's scales are stored
 *   fit=F            absmax (default): int's scale is that of the largest magnitude; or mse: the
 *                    one of the least squared error, of all 2^bits codes (nearest only)
 *   hadamard=N       32: each 32 elements go through a Walsh-Hadamard transform first, which
 *                    spreads outliers (SDP4Bit, arXiv 2410.15526); 0 (default): they do not
 *   intra=NAME       codec for what stays within a node, or off: it travels as it is (default: the
 *                    scheme's own)
 *   outer=NAME       codec for sums between groups of nodes (algo=multilevel; default: 8 bits of
 *                    the scheme's family, or the scheme's own if it has as many)
 *   second=NAME      codec for what an AllReduce or Reduce quantizes a second time, a sum on its
 *                    way to all ranks (default: the scheme's own)
 *   second-round=R   how such a sum is rounded (default: as round says)
 *   learn=L          of learned: at which calls of a kind the levels are fitted to what is sent,
 *                    up to 8 numbers with plus signs or commas between them (default
 *                    1+100+1000+10000), or never
 *   delta=D          of AllGather: inplace or shadow, differences to what all ranks hold (SDP4Bit's
 *                    qWD): of what is in the receive buffer, or of a copy that terse keeps; off
 *                    (default). In full where ranks do not hold the same, and nothing where no
 *                    shard has changed. Such a call waits for all ranks; in a graph it is native
 *   every=N          of delta: in full after so many calls that were not; 0 (default): never
 *   own=O            of AllGather: a rank's own shard comes to its receive buffer quantized
 *                    (default), so that all ranks have the same bytes; or exact, as it is, and
 *                    results differ between ranks
 *   seed=N           key of the random numbers, 0..2^64-1 (default 0, or TERSE_SEED); ranks need
 *                    not have the same
 *   algo=A           auto (default), multilevel, hierarchical, oneshot, twoshot, direct or
 *                    shared: how a collective is done; auto where it has none of that name. Of
 *                    linear codes there is summed alone, and of exp8 merged
 *
 * On success *scheme is a new handle, to be freed with terseSchemeDestroy(). On failure returns
 * ncclInvalidArgument, the message names the offending part, and *scheme is NULL. */
TERSE_API terseResult_t terseSchemeParse(const char* text, terseScheme_t** scheme);

/* Frees a scheme; NULL is allowed. Calls already made with it are not affected. */
TERSE_API void terseSchemeDestroy(terseScheme_t* scheme);

/* Writes the canonical text of a scheme, which parses back to the same scheme; always ends in a
 * NUL. ncclInvalidArgument when `capacity` bytes do not hold it (256 always do). */
TERSE_API terseResult_t terseSchemePrint(const terseScheme_t* scheme, char* text, size_t capacity);

/* ---- Collectives --------------------------------------------------------------------------
 * NCCL's own calls and semantics, in place and out of place, with the scheme before the
 * communicator. Every rank must pass the same scheme. fp32, fp16 and bf16 with ncclSum or ncclAvg
 * are compressed; any other dtype or operation is handed to NCCL as it is and counted as a bypass.
 * A PreMulSum is compressed by the preload library alone, which sees the program make it: these
 * calls hand it to NCCL (TERSE_BYPASS_OP). A scheme's first use on a communicator compares it
 * across the ranks, and so does a collective that needs more memory than those before it: these
 * calls wait for all ranks; others only enqueue. Not within ncclGroupStart and ncclGroupEnd:
 * terseGroupStart and terseGroupEnd are these calls' own. */

/* Each rank ends with the same bytes: the quantized sum (or average) of all `count` elements. */
TERSE_API terseResult_t terseAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                                       terseDataType_t datatype, terseRedOp_t op,
                                       const terseScheme_t* scheme, struct ncclComm* comm,
                                       struct CUstream_st* stream);

/* Sends `sendcount` elements, receives nranks * sendcount; each rank ends with the same bytes, the
 * own part included but with own=exact. */
TERSE_API terseResult_t terseAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                       terseDataType_t datatype, const terseScheme_t* scheme,
                                       struct ncclComm* comm, struct CUstream_st* stream);

/* Sends nranks * recvcount elements, receives the reduced `recvcount` of this rank. What the peers
 * contribute is quantized once; what this rank contributes is used as it is. */
TERSE_API terseResult_t terseReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                           terseDataType_t datatype, terseRedOp_t op,
                                           const terseScheme_t* scheme, struct ncclComm* comm,
                                           struct CUstream_st* stream);

/* Sends each rank its `count` elements of nranks * count, receives as many from each. What comes
 * from others was quantized once; the own shard is copied exactly. In place (sendbuff == recvbuff)
 * is right where it is compressed; NCCL itself takes it, and overwrites what is yet to be sent. */
TERSE_API terseResult_t terseAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                                      terseDataType_t datatype, const terseScheme_t* scheme,
                                      struct ncclComm* comm, struct CUstream_st* stream);

/* Each rank ends with the same bytes, the root included: the root's elements, quantized once. So in
 * place the root's own buffer takes the quantized values, too. Only the root needs a sendbuff. */
TERSE_API terseResult_t terseBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                                       terseDataType_t datatype, int root,
                                       const terseScheme_t* scheme, struct ncclComm* comm,
                                       struct CUstream_st* stream);

/* The root ends with the quantized sum (or average), as every rank does after AllReduce; the others
 * need no recvbuff. */
TERSE_API terseResult_t terseReduce(const void* sendbuff, void* recvbuff, size_t count,
                                    terseDataType_t datatype, terseRedOp_t op, int root,
                                    const terseScheme_t* scheme, struct ncclComm* comm,
                                    struct CUstream_st* stream);

/* The root receives `sendcount` elements of each rank, nranks * sendcount in all: its own exactly,
 * the others' quantized once. The others need no recvbuff. */
TERSE_API terseResult_t terseGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                                    terseDataType_t datatype, int root, const terseScheme_t* scheme,
                                    struct ncclComm* comm, struct CUstream_st* stream);

/* Each rank receives its `recvcount` of the root's nranks * recvcount elements: the root its own
 * exactly, the others theirs, quantized once. The others need no sendbuff. */
TERSE_API terseResult_t terseScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                     terseDataType_t datatype, int root,
                                     const terseScheme_t* scheme, struct ncclComm* comm,
                                     struct CUstream_st* stream);

/* A message from one rank to another, quantized once; both pass the same count, datatype and
 * scheme. Messages between two ranks match in order. In a group all messages of a communicator are
 * under way at once, and so none waits for another; their scratch then is all they send and
 * receive, packed. A rank's messages to itself go to NCCL.
 * A scheme that was not compared across all ranks yet is compared with the peer at its first use
 * with it, before anything is sent: the call, or the group with all its peers, waits for them to
 * come to it. Where they cannot, because they wait for a message of the same group, or where one
 * rank makes calls in a group that the other makes one by one, use the scheme in a call of all
 * ranks before. */
TERSE_API terseResult_t terseSend(const void* sendbuff, size_t count, terseDataType_t datatype,
                                  int peer, const terseScheme_t* scheme, struct ncclComm* comm,
                                  struct CUstream_st* stream);
TERSE_API terseResult_t terseRecv(void* recvbuff, size_t count, terseDataType_t datatype, int peer,
                                  const terseScheme_t* scheme, struct ncclComm* comm,
                                  struct CUstream_st* stream);

/* Calls between Start and the matching End are launched together at the outermost End, which
 * returns their first error; as ncclGroupStart / ncclGroupEnd, and per thread. One thread that
 * drives several communicators must use them. */
TERSE_API terseResult_t terseGroupStart(void);
TERSE_API terseResult_t terseGroupEnd(void);

/* Frees what libterse keeps for a communicator (scratch, state, counters, agreed schemes) after
 * waiting for its work. Call it on each rank before ncclCommDestroy: a rank that did not would take
 * a later communicator of as many ranks, which may come to lie at the same address, for this one,
 * and the others wait for what it does not tell them. Where NCCL has failed it waits no longer, and
 * returns NCCL's error, which a call on the null stream may have returned before. What calls in a
 * CUDA graph use is kept as long as the graph is there, and freed at the next such call after that.
 *
 * After a call that failed on its way libterse refuses all others on the communicator, with the
 * same cause, as its ranks may be at different ones. Where all ranks release it, it begins anew;
 * but where not every rank came to a call on which they decide together, NCCL still waits for them:
 * then ncclInvalidUsage, and the communicator is to be aborted. */
TERSE_API terseResult_t terseCommRelease(struct ncclComm* comm);

/* Call it before ncclCommAbort, from any thread: calls of libterse that wait for other ranks of the
 * communicator give up with ncclInvalidUsage, and nothing is waited for. What was enqueued may
 * still run: what libterse keeps for it is freed when that has ended, at the next call of libterse
 * that makes, releases or aborts a communicator. */
TERSE_API terseResult_t terseCommAbort(struct ncclComm* comm);

/* ---- Elements that stay exact -------------------------------------------------------------
 * Norms and biases are few and sensitive, but a sharded model's flat parameters hold them between
 * large matrices (QSDP, section 5). They can be excluded, by their place in the message. */

typedef struct {
  size_t first, count; /* elements */
} terseRange_t;

/* From now on, in compressed AllReduces, AllGathers and ReduceScatters on `comm` whose whole
 * message has `elements` elements (nranks times the count, where each rank has a shard), the
 * elements of the ranges get what native NCCL gives. `count` ranges, in ascending order and apart;
 * none: nothing is excluded any more. They are copied. Other elements of their blocks are still
 * quantized beside them, and their bytes travel twice, compressed and not. Where that is as much as
 * NCCL sends, the call is NCCL's, unless the scheme names the one taken.
 *
 * Every rank calls it alike, outside of groups; it compares and blocks, and fails on all ranks or
 * on none: ncclInvalidArgument on a rank whose own ranges cannot be, ncclInvalidUsage on the others
 * and where the ranks differ. Calls made before are not affected. */
TERSE_API terseResult_t terseCommExclude(struct ncclComm* comm, size_t elements,
                                         const terseRange_t* ranges, size_t count);

/* The same for the calls of NCCL that the preload library compresses. Only libterse_nccl.so has it,
 * not libterse.so: look it up, dlsym(RTLD_DEFAULT, "tersePreloadExclude"), NULL without. */
terseResult_t tersePreloadExclude(struct ncclComm* comm, size_t elements,
                                  const terseRange_t* ranges, size_t count);

/* From now on, until it is called with 0 as often, all of NCCL's calls on `comm` stay native: for
 * what must be exact, as a checkpoint that is gathered. Calls in CUDA graphs stay as they were
 * recorded. Every rank calls it alike, before and after the same calls, outside of groups. To
 * pause, it compares and blocks: ncclInvalidUsage where the ranks differ, and then nothing has
 * changed. With 0 it does not wait for the others, and does nothing where `comm` is over. Only the
 * preload library has it; libterse's own functions do as they are called. */
terseResult_t tersePreloadPause(struct ncclComm* comm, int paused);

/* From now on calls of the program on `comm` go by the scheme instead of by the rules, until the
 * call with NULL that ends it; small ones, too. No preset. Such calls nest. All ranks come to it
 * alike, with the same scheme, outside of groups, and wait for each other there; not at the end.
 * What a rule with off matches, or a pause, stays native; and so does all where no rule compresses
 * anything. An error (ncclInvalidUsage, ncclInvalidArgument) changes nothing on any rank. Of the
 * preload library alone. */
terseResult_t tersePreloadScheme(struct ncclComm* comm, const char* scheme);

/* ---- Levels of learned schemes -------------------------------------------------------------
 * As text, in TOML: a [[levels]] for each kind of call. TERSE_LEVELS=FILE begins with those of the
 * file, where there is one, and saves there what is learned.
 *
 *   [[levels]]
 *   collective = "allgather"   # of these calls; what is left out asks nothing
 *   count = 1048576            # elements, as NCCL's call has it
 *   dtype = "bfloat16"
 *   scheme = "learned4:block=1024"
 *   calls = 250                # that had gone by them (default 1); learn= counts on from there
 *   fits = 2                   # of them to what was sent (default 0)
 *   at = [0, 0.31, 0.69, 1]    # 4, 8, .. or 256 numbers from 0 to 1, ascending
 *
 * Of several that a call may go by the first one counts. Those that do not begin with 0 and end
 * with 1 are not for stochastic rounding. */

/* From now on, calls on `comm` of learned schemes go by these levels, unless none is of them; in
 * CUDA graphs, too. Every rank calls it alike, outside of groups, with nothing under way; it
 * compares and blocks, and fails on all ranks or on none: ncclInvalidArgument on a rank whose own
 * cannot be levels, ncclInvalidUsage on the others and where the ranks differ. */
TERSE_API terseResult_t terseCommSetLevels(struct ncclComm* comm, const char* levels);

/* Writes the levels by which calls on `comm` go, those of the last fit that has come to the host,
 * with a NUL. *bytes = what that takes; with a null text only that. ncclInvalidArgument when
 * `capacity` bytes do not hold it. */
TERSE_API terseResult_t terseCommGetLevels(struct ncclComm* comm, char* text, size_t capacity,
                                           size_t* bytes);

/* The same for the calls of NCCL that the preload library compresses, as tersePreloadExclude. */
terseResult_t tersePreloadSetLevels(struct ncclComm* comm, const char* levels);
terseResult_t tersePreloadGetLevels(struct ncclComm* comm, char* text, size_t capacity,
                                    size_t* bytes);

/* ---- What a call's own configuration says ---------------------------------------------------
 * For programs that call ncclAllReduceConfig or another function with a configuration (NCCL 2.31)
 * under the preload library. ncclCollConfig_t has a list of options, ncclConfigExt_t, which NCCL
 * ignores; those with key.vendorId TERSE_VENDOR_ID are terse's. Every rank gives a call the same.
 */

/* Chosen at random, as nccl.h asks. */
#define TERSE_VENDOR_ID 0x3ace00

enum {
  /* val.s: the call's scheme, as terseSchemeParse reads it, in place of the rules', and for
   * messages of any size. What a rule with `off` matches stays native, and so does all where no
   * rule compresses anything. */
  TERSE_OPTION_SCHEME = 1,
  /* val.i, but for 0: the call stays native. */
  TERSE_OPTION_EXACT = 2,
  /* val.i, but for 0: a call that cannot be compressed is an error, ncclInvalidUsage on all ranks,
   * with a message that names collective, communicator, rank and cause. One rank alone, which sends
   * nothing, has none. */
  TERSE_OPTION_MUST_COMPRESS = 3
};

/* ---- Encode and decode on their own -------------------------------------------------------
 * A packed buffer is self-describing and checked: src/codec/FORMAT.md. Host memory, done on
 * return. */

/* *bytes = exact size of `count` packed elements of `datatype`. */
TERSE_API terseResult_t terseEncodedSize(const terseScheme_t* scheme, size_t count,
                                         terseDataType_t datatype, size_t* bytes);

/* Packs `count` elements into `packed`, which holds `capacity` bytes (at least terseEncodedSize).
 * `draw` numbers the call: with the scheme's seed it fixes the random numbers. `data` and `packed`
 * must not overlap. */
TERSE_API terseResult_t terseEncode(const void* data, size_t count, terseDataType_t datatype,
                                    const terseScheme_t* scheme, size_t draw, void* packed,
                                    size_t capacity);

/* Unpacks a buffer of exactly `bytes` bytes that holds exactly `count` elements, to `datatype`
 * (which may differ from the encoded one). A truncated or damaged buffer is ncclInvalidArgument,
 * and nothing is written. */
TERSE_API terseResult_t terseDecode(const void* packed, size_t bytes, void* data, size_t count,
                                    terseDataType_t datatype);

/* ---- Introspection ------------------------------------------------------------------------ */

/* Why a call went to NCCL uncompressed. */
enum {
  TERSE_BYPASS_OFF = 0,        /* the scheme is off, no rule is for the call, or it is paused; or
                                  the call says TERSE_OPTION_EXACT */
  TERSE_BYPASS_DTYPE = 1,      /* not fp32, fp16 or bf16; of the 16-bit schemes, not fp32 */
  TERSE_BYPASS_OP = 2,         /* not a sum or an average; or a PreMulSum with intra=off, or one
                                  that was made where the preload library did not see it */
  TERSE_BYPASS_SMALL = 3,      /* the message, or a shard, is under TERSE_MIN_BYTES, or under what
                                  the rule asks for */
  TERSE_BYPASS_ONE_RANK = 4,   /* no other rank to send to, or a message of a rank to itself */
  TERSE_BYPASS_FALLBACK = 5,   /* a rank lacked the memory for it */
  TERSE_BYPASS_LINK = 6,       /* NCCL sends less over the link that a node's ranks share */
  TERSE_BYPASS_COLLECTIVE = 7, /* the scheme is for sums, and the collective forms none; or for
                                  AllGather, and it is another one; or learned, and it is a
                                  message */
  TERSE_BYPASS_AUTO = 8,       /* auto, or a preset: predicted to gain less than 10 % */
  TERSE_BYPASS_DELTA = 9,      /* delta: a graph is recorded, which cannot wait for the ranks'
                                  answer; or time and again they did not hold the same, or one had
                                  no memory to keep what was gathered */
  TERSE_BYPASS_EXACT = 10,     /* what stays exact (terseCommExclude) and the codes are as much as
                                  NCCL sends */
  TERSE_BYPASS_CONFIG = 11,    /* its ncclCollConfig_t asks for what NCCL alone does: an algorithm
                                  that is forced, CTAs, an event, or what terse does not know */
  TERSE_BYPASS_OBSERVED = 12,  /* TERSE_OBSERVE: it would have been compressed */
  TERSE_BYPASS_SLOW = 13,      /* the profile predicts it to be slower than native, by more than
                                  3 %, and the scheme does not name its algorithm (algo=) */
  TERSE_BYPASS_REASONS = 14
};

/* Why an AllGather of differences (delta=) went in full. */
enum {
  TERSE_FULL_FIRST = 0,  /* no rank holds anything to differ from */
  TERSE_FULL_OTHERS = 1, /* the ranks do not hold the same: another buffer, or one that was written
                            to in between, as by a checkpoint that was loaded */
  TERSE_FULL_EVERY = 2,  /* every= */
  TERSE_FULL_MEMORY = 3, /* a rank has no memory to keep what was gathered */
  TERSE_FULL_NONFINITE = 4, /* a rank sends a NaN, an infinity or what is too large for differences
                               (2^113, of fp16 8192), or what is held has one */
  TERSE_FULL_REASONS = 5
};

/* A short English phrase for a reason; "unknown" outside the range. */
TERSE_API const char* terseBypassReasonString(int reason);

/* Counters of one communicator on this rank, since its first call. Bytes are those that this rank
 * sends to its peers; uncompressed, in NCCL's algorithm for large messages of S bytes:
 *
 *   AllReduce                  2 (n-1)/n S
 *   AllGather, ReduceScatter   (n-1)/n S
 *   AllToAll                   (n-1)/n S
 *   Broadcast                  S, as each rank passes them on to the next; 0 on the last one,
 *                              before the root
 *   Reduce                     S, 0 on the root
 *   Gather                     S/n, 0 on the root
 *   Scatter                    (n-1)/n S on the root, else 0
 *   Send, Recv                 S and 0 */
typedef struct terseStats {
  size_t size;          /* in: sizeof(terseStats_t) */
  size_t calls;         /* compressed calls */
  size_t raw_bytes;     /* what they would have sent uncompressed */
  size_t wire_bytes;    /* what they sent */
  size_t native_bytes;  /* what the calls that stayed native sent */
  size_t bypasses[16];  /* calls, by reason */
  size_t scratch_bytes; /* memory held at present */
  /* Sums over the calls of which times are known (TERSE_METER): from a call's first step to its
   * last, and how long it was encoding, communicating and decoding, which overlap. The Sends and
   * Recvs of a group are measured as one call. */
  size_t timed_calls;
  size_t total_ns, encode_ns, communicate_ns, decode_ns; /* nanoseconds */
  /* Of the calls of all ranks that ran natively too (TERSE_VERIFY), as this rank's results show
   * it. */
  size_t verified_calls;
  double relative_error;   /* norm of (compressed - native) / norm of native, finite values only,
                              pooled over the elements of all these calls, in which large numbers
                              outweigh the others; the end of this struct has it by call */
  double largest_error;    /* magnitude of the largest single difference */
  size_t lost_nonfinite;   /* elements that only the native result has as NaN or infinity */
  size_t spread_nonfinite; /* that only the compressed result has so: neighbours in a block */
  /* The relative errors of those calls, each by itself. The first two are known to 1.1 %. */
  double median_relative_error, p99_relative_error, worst_relative_error;
  /* Of the bytes above, those that leave this rank's node: by a link that its ranks may share. For
   * uncompressed calls they are a model of NCCL's rings, which leave a node once, whatever the
   * number of its ranks: of AllReduce 2 (n-1)/n S a node, of which each of its ranks counts its
   * share. So it is with AllGather, ReduceScatter, Broadcast and Reduce; what others send leaves
   * where its rank is elsewhere. */
  size_t nodes; /* that the ranks are on; 0, as the next: they have not told each other */
  size_t raw_off_node_bytes, wire_off_node_bytes, native_off_node_bytes;
  size_t state_bytes; /* memory held at present that keeps what it has from call to call */
  /* AllGathers with delta=: of differences; of nothing, for no rank's shard had changed; in full,
   * by reason. */
  size_t delta_calls, delta_unchanged, delta_full[8];
  /* Of the calls, those whose ranks have quantized into each other's memory, in one step that is
   * neither encoding, communicating nor decoding; its time in them; and of the scratch memory, what
   * they need. */
  size_t fused_calls, fused_ns, window_bytes;
  /* Pods that the nodes are in (TERSE_POD), 0: none. Of the bytes that leave this rank's node,
   * those that leave its pod. */
  size_t pods;
  size_t raw_off_pod_bytes, wire_off_pod_bytes, native_off_pod_bytes;
} terseStats_t;

/* Zeros of a communicator that has had no calls; ncclInvalidArgument of what is none. */
TERSE_API terseResult_t terseCommGetStats(struct ncclComm* comm, terseStats_t* stats);

/* The same of the calls of NCCL that went through the preload library, and what else it tells of
 * itself: the version as terseGetVersion, and its policy as a line of rules, "off" where it
 * compresses nothing, "" where its settings cannot be read. To be looked up like
 * tersePreloadExclude; messages of failures are ncclGetLastError's. */
terseResult_t tersePreloadStats(struct ncclComm* comm, terseStats_t* stats);
int tersePreloadVersion(void);
const char* tersePreloadPolicy(void);

/* *version = TERSE_VERSION_CODE of the library in use. */
TERSE_API terseResult_t terseGetVersion(int* version);

/* The message of the last failure on this thread, "" when there was none; valid until this thread's
 * next call. */
TERSE_API const char* terseGetLastError(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* TERSE_TERSE_H_ */
