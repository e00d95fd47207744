#include "call.h"

#pragma weak ncclAlltoAll
#pragma weak ncclGather
#pragma weak ncclScatter

namespace terse::perf {

ncclResult_t native_all_reduce(const Call& c) {
  return ncclAllReduce(c.send, c.receive, c.count(), c.type, c.op, c.comm, c.stream);
}

ncclResult_t native_all_gather(const Call& c) {
  return ncclAllGather(c.send, c.receive, c.count(), c.type, c.comm, c.stream);
}

ncclResult_t native_reduce_scatter(const Call& c) {
  return ncclReduceScatter(c.send, c.receive, c.count(), c.type, c.op, c.comm, c.stream);
}

ncclResult_t native_broadcast(const Call& c) {
  return ncclBroadcast(c.send, c.receive, c.count(), c.type, c.seat.root, c.comm, c.stream);
}

ncclResult_t native_reduce(const Call& c) {
  return ncclReduce(c.send, c.receive, c.count(), c.type, c.op, c.seat.root, c.comm, c.stream);
}

ncclResult_t native_all_to_all(const Call& c) {
  return ncclAlltoAll(c.send, c.receive, c.count(), c.type, c.comm, c.stream);
}

ncclResult_t native_gather(const Call& c) {
  return ncclGather(c.send, c.receive, c.count(), c.type, c.seat.root, c.comm, c.stream);
}

ncclResult_t native_scatter(const Call& c) {
  return ncclScatter(c.send, c.receive, c.count(), c.type, c.seat.root, c.comm, c.stream);
}

bool lacks_all_to_all() { return ncclAlltoAll == nullptr; }
bool lacks_gather() { return ncclGather == nullptr; }
bool lacks_scatter() { return ncclScatter == nullptr; }

ncclResult_t quantized_all_reduce(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.all_reduce(c.send, c.receive, c.count(), c.type, c.op, scheme, c.comm, c.stream);
}

ncclResult_t quantized_all_gather(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.all_gather(c.send, c.receive, c.count(), c.type, scheme, c.comm, c.stream);
}

ncclResult_t quantized_reduce_scatter(const TerseApi& api, const terseScheme_t* scheme,
                                      const Call& c) {
  return api.reduce_scatter(c.send, c.receive, c.count(), c.type, c.op, scheme, c.comm, c.stream);
}

ncclResult_t quantized_broadcast(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.broadcast(c.send, c.receive, c.count(), c.type, c.seat.root, scheme, c.comm, c.stream);
}

ncclResult_t quantized_reduce(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.reduce(c.send, c.receive, c.count(), c.type, c.op, c.seat.root, scheme, c.comm,
                    c.stream);
}

ncclResult_t quantized_all_to_all(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.all_to_all(c.send, c.receive, c.count(), c.type, scheme, c.comm, c.stream);
}

ncclResult_t quantized_gather(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.gather(c.send, c.receive, c.count(), c.type, c.seat.root, scheme, c.comm, c.stream);
}

ncclResult_t quantized_scatter(const TerseApi& api, const terseScheme_t* scheme, const Call& c) {
  return api.scatter(c.send, c.receive, c.count(), c.type, c.seat.root, scheme, c.comm, c.stream);
}

}  // namespace terse::perf
