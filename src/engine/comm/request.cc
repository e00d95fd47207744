#include "engine/comm/request.h"

#include "base/error.h"
#include "base/text.h"

namespace terse {

bool compressible(const Request& r) {
  return !plan::traits(r.collective).reduces || r.op == ncclSum || r.op == ncclAvg ||
         r.op >= ncclNumOps;
}

bool premultiplies(const Request& r) {
  return plan::traits(r.collective).reduces && r.op >= ncclNumOps;
}

bool is_native_within_nodes(const Request& r, const Scheme& scheme) {
  return premultiplies(r) && scheme.intra.off;
}

size_t message_bytes(const Request& r, int ranks) {
  return r.count * datatype_size(r.datatype) * plan::shards(r.collective, ranks);
}

// No address space holds more.
bool fits_memory(const Request& r) {
  return r.count <= (size_t{1} << 47) / datatype_size(r.datatype);
}

void validate(const Request& r) {
  if (datatype_size(r.datatype) == 0)
    fail(ncclInvalidArgument, "unknown datatype {}", static_cast<int>(r.datatype));
  if (plan::traits(r.collective).reduces && (r.op < 0 || r.op > ncclMaxRedOp))
    fail(ncclInvalidArgument, "unknown operation {}", static_cast<int>(r.op));
  if (!fits_memory(r))
    fail(ncclInvalidArgument, "a count of {} cannot be right", counted(r.count, "element"));
}

void validate(const Request& r, int rank, int ranks) {
  const plan::Traits& t = plan::traits(r.collective);
  const char* whose = plan::is_point_to_point(r.collective) ? "peer" : "root";
  if (t.rooted && (r.root < 0 || r.root >= ranks))
    fail(ncclInvalidArgument, "{} {} is not one of {}", whose, r.root, counted(ranks, "rank"));
  if (r.count == 0) return;
  const plan::Position at{ranks, rank, r.root};
  if (r.send == nullptr && plan::extent(t.send, at) != 0)
    fail(ncclInvalidArgument, "sendbuff is null");
  if (r.recv == nullptr && plan::extent(t.recv, at) != 0)
    fail(ncclInvalidArgument, "recvbuff is null");
}

}  // namespace terse
