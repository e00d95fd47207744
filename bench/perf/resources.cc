#include "resources.h"

#include <algorithm>
#include <span>

#include "nccl_check.h"

namespace terse::perf {
namespace {

enum Registration { kNone = 0, kLocal = 1, kSymmetric = 2 };

void CreateComms(const Run& run, std::span<RankResources> ranks, const ncclUniqueId& id) {
  const int nranks = run.team.processes() * run.options.RanksPerProcess();
  CheckNccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : ranks) {
    run.device.select(rank.device);
    CheckNccl(ncclCommInitRank(&rank.comm, nranks, id, rank.rank), "ncclCommInitRank");
  }
  CheckNccl(ncclGroupEnd(), "ncclCommInitRank");
}

void Register(const Run& run, std::span<RankResources> ranks) {
  if (run.options.registration == kNone) return;
  CheckNccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : ranks) {
    char* const buffers[] = {rank.send, rank.receive};
    for (int i = 0; i < 2; ++i) {
      if (run.options.registration == kSymmetric) {
        CheckNccl(ncclCommWindowRegister(rank.comm, buffers[i], run.buffer_bytes,
                                         reinterpret_cast<ncclWindow_t*>(&rank.handles[i]),
                                         NCCL_WIN_COLL_SYMMETRIC),
                  "ncclCommWindowRegister");
      } else {
        CheckNccl(ncclCommRegister(rank.comm, buffers[i], run.buffer_bytes, &rank.handles[i]),
                  "ncclCommRegister");
      }
    }
  }
  CheckNccl(ncclGroupEnd(), "registering buffers");
}

void Deregister(const Run& run, const RankResources& rank) {
  for (void* handle : rank.handles) {
    if (handle == nullptr) continue;
    if (run.options.registration == kSymmetric) {
      CheckNccl(ncclCommWindowDeregister(rank.comm, static_cast<ncclWindow_t>(handle)),
                "ncclCommWindowDeregister");
    } else {
      CheckNccl(ncclCommDeregister(rank.comm, handle), "ncclCommDeregister");
    }
  }
}

}  // namespace

std::size_t BufferBytes(const Run& run) {
  if (run.files.empty()) return run.options.max_bytes;
  std::size_t bytes = 0;
  for (const DataType& type : DataTypes()) {
    if (run.options.datatype != "all" && &type != &FindDataType(run.options.datatype)) continue;
    bytes = std::max(bytes, Sizes(run, type).back());
  }
  return bytes;
}

void CreateResources(Run* run, const ncclUniqueId& id) {
  const Options& o = run->options;
  // Room for -u elements of the widest type, and never an allocation of nothing.
  const std::size_t bytes = run->buffer_bytes + 8 * (static_cast<std::size_t>(o.unalign) + 1);
  run->ranks.resize(static_cast<std::size_t>(o.RanksPerProcess()));
  for (std::size_t i = 0; i < run->ranks.size(); ++i) {
    RankResources& rank = run->ranks[i];
    rank.rank = run->team.process() * o.RanksPerProcess() + static_cast<int>(i);
    rank.device = run->devices[i];
    run->device.select(rank.device);
    rank.stream = o.null_stream != 0 ? nullptr : run->device.create_stream();
    rank.send = static_cast<char*>(run->device.allocate(bytes));
    rank.receive = static_cast<char*>(run->device.allocate(bytes));
    run->device.zero(rank.receive, bytes);
  }
  if (o.parallel_init != 0) return;
  run->progress("creating the communicators");
  CreateComms(*run, run->ranks, id);
  Register(*run, run->ranks);
}

void CreateThreadResources(Run* run, const ncclUniqueId& id, int thread) {
  const Options& o = run->options;
  if (o.parallel_init == 0) return;
  const auto each = static_cast<std::size_t>(o.ranks_per_thread);
  const auto mine = std::span(run->ranks).subspan(static_cast<std::size_t>(thread) * each, each);
  CreateComms(*run, mine, id);
  Register(*run, mine);
}

void DestroyResources(Run* run) {
  for (RankResources& rank : run->ranks) {
    Deregister(*run, rank);
    if (run->scheme != nullptr) {
      CheckTerse(run->scheme->api(), run->scheme->api().comm_release(rank.comm));
    }
  }
  // Destroying waits for the other ranks, those of this thread too: in one group.
  CheckNccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : run->ranks) CheckNccl(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  CheckNccl(ncclGroupEnd(), "ncclCommDestroy");
  for (RankResources& rank : run->ranks) {
    run->device.select(rank.device);
    if (rank.stream != nullptr) run->device.destroy_stream(rank.stream);
    run->device.release(rank.send);
    run->device.release(rank.receive);
  }
}

}  // namespace terse::perf
