// The C interface (terse.h): each function checks, calls the engine, and translates its exceptions.
#include <nccl.h>  // before terse.h, whose types then are NCCL's

#include <algorithm>
#include <cstring>

#include "base/error.h"
#include "codec/codec.h"
#include "codec/container.h"
#include "engine/call/exclusion.h"
#include "engine/call/group.h"
#include "engine/comm/directory.h"
#include "policy/settings.h"
#include "terse/terse.h"

struct terseScheme {
  terse::Scheme value;
};

namespace {

using namespace terse;

const Scheme& require(const terseScheme_t* scheme) {
  if (scheme == nullptr) fail(ncclInvalidArgument, "the scheme is null");
  return scheme->value;
}

template <class T>
T* require(T* pointer, const char* name) {
  if (pointer == nullptr) fail(ncclInvalidArgument, "{} is null", name);
  return pointer;
}

codec::Dtype require_compressible(ncclDataType_t datatype) {
  codec::Dtype dtype;
  if (!compressible(datatype, &dtype))
    fail(ncclInvalidArgument, "datatype {} cannot be compressed, only fp32, fp16 and bf16",
         static_cast<int>(datatype));
  return dtype;
}

const codec::Spec& require_codec(const terseScheme_t* scheme) {
  const Scheme& s = require(scheme);
  if (s.off) fail(ncclInvalidArgument, "the scheme is off and has no codec");
  return s.spec;
}

void compress(const Request& request, const terseScheme_t* scheme) {
  submit(request, require(scheme), settings());
}

void require_count(size_t count) {
  if (count > size_t{1} << 47)
    fail(ncclInvalidArgument, "a count of {} elements cannot be right", count);
}

}  // namespace

extern "C" {

terseResult_t terseSchemeParse(const char* text, terseScheme_t** scheme) {
  return guard("terseSchemeParse", [&] {
    *require(scheme, "scheme") = nullptr;
    *scheme = new terseScheme{parse_scheme(require(text, "text"))};
  });
}

void terseSchemeDestroy(terseScheme_t* scheme) { delete scheme; }

terseResult_t terseSchemePrint(const terseScheme_t* scheme, char* text, size_t capacity) {
  return guard("terseSchemePrint", [&] {
    const std::string printed = print_scheme(require(scheme));
    require(text, "text");
    if (printed.size() >= capacity)
      fail(ncclInvalidArgument, "{} bytes are needed, {} are there", printed.size() + 1, capacity);
    std::memcpy(text, printed.c_str(), printed.size() + 1);
  });
}

terseResult_t terseAllReduce(const void* sendbuff, void* recvbuff, size_t count,
                             terseDataType_t datatype, terseRedOp_t op, const terseScheme_t* scheme,
                             ncclComm_t comm, cudaStream_t stream) {
  return guard("terseAllReduce", [&] {
    compress({plan::Collective::kAllReduce, sendbuff, recvbuff, count, datatype, op, comm, stream},
             scheme);
  });
}

terseResult_t terseAllGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                             terseDataType_t datatype, const terseScheme_t* scheme, ncclComm_t comm,
                             cudaStream_t stream) {
  return guard("terseAllGather", [&] {
    compress({plan::Collective::kAllGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, comm,
              stream},
             scheme);
  });
}

terseResult_t terseReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                                 terseDataType_t datatype, terseRedOp_t op,
                                 const terseScheme_t* scheme, ncclComm_t comm,
                                 cudaStream_t stream) {
  return guard("terseReduceScatter", [&] {
    compress({plan::Collective::kReduceScatter, sendbuff, recvbuff, recvcount, datatype, op, comm,
              stream},
             scheme);
  });
}

terseResult_t terseAllToAll(const void* sendbuff, void* recvbuff, size_t count,
                            terseDataType_t datatype, const terseScheme_t* scheme, ncclComm_t comm,
                            cudaStream_t stream) {
  return guard("terseAllToAll", [&] {
    compress(
        {plan::Collective::kAllToAll, sendbuff, recvbuff, count, datatype, ncclSum, comm, stream},
        scheme);
  });
}

terseResult_t terseBroadcast(const void* sendbuff, void* recvbuff, size_t count,
                             terseDataType_t datatype, int root, const terseScheme_t* scheme,
                             ncclComm_t comm, cudaStream_t stream) {
  return guard("terseBroadcast", [&] {
    compress({plan::Collective::kBroadcast, sendbuff, recvbuff, count, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseReduce(const void* sendbuff, void* recvbuff, size_t count,
                          terseDataType_t datatype, terseRedOp_t op, int root,
                          const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return guard("terseReduce", [&] {
    compress(
        {plan::Collective::kReduce, sendbuff, recvbuff, count, datatype, op, comm, stream, root},
        scheme);
  });
}

terseResult_t terseGather(const void* sendbuff, void* recvbuff, size_t sendcount,
                          terseDataType_t datatype, int root, const terseScheme_t* scheme,
                          ncclComm_t comm, cudaStream_t stream) {
  return guard("terseGather", [&] {
    compress({plan::Collective::kGather, sendbuff, recvbuff, sendcount, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseScatter(const void* sendbuff, void* recvbuff, size_t recvcount,
                           terseDataType_t datatype, int root, const terseScheme_t* scheme,
                           ncclComm_t comm, cudaStream_t stream) {
  return guard("terseScatter", [&] {
    compress({plan::Collective::kScatter, sendbuff, recvbuff, recvcount, datatype, ncclSum, comm,
              stream, root},
             scheme);
  });
}

terseResult_t terseSend(const void* sendbuff, size_t count, terseDataType_t datatype, int peer,
                        const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return guard("terseSend", [&] {
    compress(
        {plan::Collective::kSend, sendbuff, nullptr, count, datatype, ncclSum, comm, stream, peer},
        scheme);
  });
}

terseResult_t terseRecv(void* recvbuff, size_t count, terseDataType_t datatype, int peer,
                        const terseScheme_t* scheme, ncclComm_t comm, cudaStream_t stream) {
  return guard("terseRecv", [&] {
    compress(
        {plan::Collective::kRecv, nullptr, recvbuff, count, datatype, ncclSum, comm, stream, peer},
        scheme);
  });
}

terseResult_t terseGroupStart(void) {
  return guard("terseGroupStart", [] { group_start(); });
}

terseResult_t terseGroupEnd(void) {
  return guard("terseGroupEnd", [] { group_end(); });
}

terseResult_t terseCommRelease(ncclComm_t comm) {
  return guard("terseCommRelease", [&] {
    require(comm, "the communicator");
    release_communicator(comm, false);
  });
}

terseResult_t terseCommAbort(ncclComm_t comm) {
  return guard("terseCommAbort", [&] {
    require(comm, "the communicator");
    abort_communicator(comm);
  });
}

terseResult_t terseCommExclude(ncclComm_t comm, size_t elements, const terseRange_t* ranges,
                               size_t count) {
  return guard("terseCommExclude", [&] { exclude(comm, elements, ranges, count, settings()); });
}

terseResult_t terseEncodedSize(const terseScheme_t* scheme, size_t count, terseDataType_t datatype,
                               size_t* bytes) {
  return guard("terseEncodedSize", [&] {
    const codec::Spec& spec = require_codec(scheme);
    require_compressible(datatype);
    require_count(count);
    *require(bytes, "bytes") = codec::container_size(spec, count);
  });
}

terseResult_t terseEncode(const void* data, size_t count, terseDataType_t datatype,
                          const terseScheme_t* scheme, size_t draw, void* packed, size_t capacity) {
  return guard("terseEncode", [&] {
    const codec::Spec& spec = require_codec(scheme);
    const codec::Dtype dtype = require_compressible(datatype);
    require_count(count);
    if (count != 0) require(data, "data");
    const size_t bytes = codec::container_size(spec, count);
    char* out = static_cast<char*>(require(packed, "packed"));
    if (capacity < bytes)
      fail(ncclInvalidArgument, "{} bytes are needed, {} are there", bytes, capacity);
    const codec::Source source{data, dtype};
    const uint64_t seed = scheme->value.seed.value_or(settings().seed);
    codec::combine({.sources = {&source, 1},
                    .target = {out + codec::kHeaderBytes, spec,
                               codec::make_draw({.seed = seed, .sequence = draw})},
                    .total = count,
                    .count = count});
    codec::seal({spec, dtype, count}, out);
  });
}

terseResult_t terseDecode(const void* packed, size_t bytes, void* data, size_t count,
                          terseDataType_t datatype) {
  return guard("terseDecode", [&] {
    const codec::Dtype dtype = require_compressible(datatype);
    codec::Header header;
    if (const char* wrong = codec::open(require(packed, "packed"), bytes, &header))
      fail(ncclInvalidArgument, "not a packed buffer: {}", wrong);
    if (header.count != count)
      fail(ncclInvalidArgument, "the buffer holds {} elements, not {}", header.count, count);
    if (count != 0) require(data, "data");
    const codec::Source source{static_cast<const char*>(packed) + codec::kHeaderBytes, header.spec};
    codec::combine(
        {.sources = {&source, 1}, .target = {data, dtype}, .total = count, .count = count});
  });
}

terseResult_t terseCommGetStats(ncclComm_t comm, terseStats_t* stats) {
  return guard("terseCommGetStats", [&] {
    require(comm, "the communicator");
    const size_t size = require(stats, "stats")->size;
    if (size < sizeof(size_t)) fail(ncclInvalidArgument, "stats->size is {}", size);
    const CommunicatorPointer c = find_communicator(comm);
    const terseStats_t current = c != nullptr ? c->current_stats() : terseStats_t{};
    std::memset(stats, 0, size);
    std::memcpy(stats, &current, std::min(size, sizeof current));
    stats->size = size;
  });
}

terseResult_t terseGetVersion(int* version) {
  return guard("terseGetVersion", [&] { *require(version, "version") = TERSE_VERSION_CODE; });
}

const char* terseGetLastError(void) { return last_error(); }

}  // extern "C"
