#include "resources.h"

#include <algorithm>
#include <span>

#include "memory.h"
#include "nccl_check.h"

namespace terse::perf {
namespace {

enum Registration { kNone = 0, kLocal = 1, kSymmetric = 2 };

void create_comms(const Run& run, std::span<RankResources> ranks, const ncclUniqueId& id) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.CTAPolicy = run.options.cta_policy;
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : ranks) {
    run.device.select(rank.device);
    // An older NCCL has no configurations.
    check_nccl(run.options.cta_policy < 0
                   ? ncclCommInitRank(&rank.comm, run.nranks(), id, rank.rank)
                   : ncclCommInitRankConfig(&rank.comm, run.nranks(), id, rank.rank, &config),
               "ncclCommInitRank");
  }
  check_nccl(ncclGroupEnd(), "ncclCommInitRank");
}

void register_buffers(const Run& run, std::span<RankResources> ranks) {
  if (run.options.registration == kNone) return;
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : ranks) {
    char* const buffers[] = {rank.send, rank.receive};
    for (int i = 0; i < 2; ++i) {
      if (run.options.registration == kSymmetric) {
        check_nccl(ncclCommWindowRegister(rank.comm, buffers[i], run.buffer_bytes,
                                          reinterpret_cast<ncclWindow_t*>(&rank.handles[i]),
                                          NCCL_WIN_COLL_SYMMETRIC),
                   "ncclCommWindowRegister");
      } else {
        check_nccl(ncclCommRegister(rank.comm, buffers[i], run.buffer_bytes, &rank.handles[i]),
                   "ncclCommRegister");
      }
    }
  }
  check_nccl(ncclGroupEnd(), "registering buffers");
}

void deregister_buffers(const Run& run, const RankResources& rank) {
  for (void* handle : rank.handles) {
    if (handle == nullptr) continue;
    if (run.options.registration == kSymmetric) {
      check_nccl(ncclCommWindowDeregister(rank.comm, static_cast<ncclWindow_t>(handle)),
                 "ncclCommWindowDeregister");
    } else {
      check_nccl(ncclCommDeregister(rank.comm, handle), "ncclCommDeregister");
    }
  }
}

}  // namespace

std::size_t buffer_bytes(const Run& run) {
  if (run.files.empty()) return run.options.max_bytes;
  std::size_t bytes = 0;
  for (const DataType& type : data_types()) {
    if (run.options.datatype != "all" && &type != &find_data_type(run.options.datatype)) continue;
    bytes = std::max(bytes, sizes(run, type).back());
  }
  return bytes;
}

void create_resources(Run* run, const ncclUniqueId& id) {
  const Options& o = run->options;
  // Room for -u elements of the widest type, and never an allocation of nothing.
  const std::size_t bytes = run->buffer_bytes + 8 * (static_cast<std::size_t>(o.unalign) + 1);
  const auto make_buffers = [&] {
    for (RankResources& rank : run->ranks) {
      run->device.select(rank.device);
      rank.send = static_cast<char*>(run->device.allocate(bytes));
      rank.receive = static_cast<char*>(run->device.allocate(bytes));
      run->device.zero(rank.receive, bytes);
    }
  };
  run->ranks.resize(static_cast<std::size_t>(o.ranks_per_process()));
  for (std::size_t i = 0; i < run->ranks.size(); ++i) {
    RankResources& rank = run->ranks[i];
    rank.rank = run->group.process * o.ranks_per_process() + static_cast<int>(i);
    rank.device = run->devices[i];
    run->device.select(rank.device);
    rank.stream = o.null_stream != 0 ? nullptr : run->device.create_stream();
  }
  note_memory(run, &MemoryUse::buffers, 0, make_buffers);
  if (o.parallel_init != 0) return;
  run->progress("creating the communicators");
  note_memory(run, &MemoryUse::communicators, 0, [&] {
    create_comms(*run, run->ranks, id);
    register_buffers(*run, run->ranks);
  });
}

void create_thread_resources(Run* run, const ncclUniqueId& id, int thread) {
  const Options& o = run->options;
  if (o.parallel_init == 0) return;
  const auto each = static_cast<std::size_t>(o.ranks_per_thread);
  const auto mine = std::span(run->ranks).subspan(static_cast<std::size_t>(thread) * each, each);
  note_memory(run, &MemoryUse::communicators, thread, [&] {
    create_comms(*run, mine, id);
    register_buffers(*run, mine);
  });
}

void destroy_resources(Run* run) {
  for (RankResources& rank : run->ranks) {
    deregister_buffers(*run, rank);
    if (run->scheme != nullptr) {
      check_terse(run->scheme->api(), run->scheme->api().comm_release(rank.comm));
    }
  }
  // Destroying waits for the other ranks, those of this thread too: in one group.
  check_nccl(ncclGroupStart(), "ncclGroupStart");
  for (RankResources& rank : run->ranks) check_nccl(ncclCommDestroy(rank.comm), "ncclCommDestroy");
  check_nccl(ncclGroupEnd(), "ncclCommDestroy");
  for (RankResources& rank : run->ranks) {
    run->device.select(rank.device);
    if (rank.stream != nullptr) run->device.destroy_stream(rank.stream);
    run->device.release(rank.send);
    run->device.release(rank.receive);
  }
}

}  // namespace terse::perf
