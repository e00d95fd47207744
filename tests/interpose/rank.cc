// One rank of an NCCL program:
//   rank.cc RANK RANKS ID_FILE COUNT ROUNDS [nonblocking | grouped | made_in_group | nowhere |
//           in_pairs | gathers]
// With either of the first two words its communicator does not block, and has the name that is in
// COMM_NAME; with `grouped` each call is a group of its own. `made_in_group`: its communicator's
// creation is one. `nowhere`: each call is a group of its own, and has no buffers. `in_pairs`:
// after its first call a communicator is split in pairs, which make the others. `gathers`: its
// calls are AllGathers in place, of COUNT elements in all. From its creation on, or from its first
// call on, it gets no more memory than the bytes that are in ROOM_AT_CREATION or ROOM_AT_CALLS.
// Prints what each call gave:
//   init RESULT MESSAGE
//   round K RESULT SUM MESSAGE     SUM: of the elements' bits
#include <hostnccl.h>
#include <nccl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace {

// Rank 0 leaves the id in a file for the others.
ncclUniqueId exchange_id(int rank, const char* path) {
  ncclUniqueId id;
  if (rank == 0) {
    ncclGetUniqueId(&id);
    const std::string temporary = std::string(path) + ".part";
    FILE* f = std::fopen(temporary.c_str(), "wb");
    std::fwrite(&id, sizeof id, 1, f);
    std::fclose(f);
    std::rename(temporary.c_str(), path);
    return id;
  }
  for (int tries = 0; tries < 1000; ++tries) {
    if (FILE* f = std::fopen(path, "rb")) {
      const size_t read = std::fread(&id, sizeof id, 1, f);
      std::fclose(f);
      if (read == 1) return id;
    }
    usleep(10'000);
  }
  std::puts("no id");
  std::exit(3);
}

// Limits this process to the memory that it has and the bytes in the variable.
void limit_memory(const char* variable) {
  const char* bytes = std::getenv(variable);
  if (bytes == nullptr) return;
  unsigned long long pages = 0;
  FILE* f = std::fopen("/proc/self/statm", "r");
  if (std::fscanf(f, "%llu", &pages) != 1) std::exit(3);
  std::fclose(f);
  const rlim_t most = pages * sysconf(_SC_PAGESIZE) + std::strtoull(bytes, nullptr, 10);
  const rlimit limit{most, most};
  setrlimit(RLIMIT_AS, &limit);
}

// What has come of a call in the end.
ncclResult_t settled(ncclResult_t state, ncclComm_t comm) {
  while (state == ncclInProgress) usleep(100), ncclCommGetAsyncError(comm, &state);
  return state;
}

ncclResult_t all_reduce(float* data, size_t count, ncclComm_t comm) {
  return settled(ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, nullptr), comm);
}

ncclResult_t all_gather(float* data, size_t count, ncclComm_t comm) {
  int rank = 0, ranks = 0;
  ncclCommUserRank(comm, &rank);
  ncclCommCount(comm, &ranks);
  const size_t shard = count / ranks;
  return settled(ncclAllGather(data + rank * shard, data, shard, ncclFloat32, comm, nullptr), comm);
}

ncclResult_t grouped_all_reduce(float* data, size_t count, ncclComm_t comm) {
  ncclGroupStart();
  all_reduce(data, count, comm);
  return settled(ncclGroupEnd(), comm);
}

ncclResult_t make_in_group(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  ncclGroupStart();
  ncclCommInitRank(comm, ranks, id, rank);
  return ncclGroupEnd();
}

ncclResult_t make_in_background(ncclComm_t* comm, int ranks, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.commName = std::getenv("COMM_NAME");
  const ncclResult_t begun = ncclCommInitRankConfig(comm, ranks, id, rank, &config);
  return settled(begun, *comm);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 6 && argc != 7) return 2;
  const std::string way = argc == 7 ? argv[6] : "";
  const bool nowhere = way == "nowhere", grouped = way == "grouped" || nowhere;
  const bool blocking = way != "nonblocking" && way != "grouped";
  const int rank = std::atoi(argv[1]), ranks = std::atoi(argv[2]);
  const size_t count = std::strtoull(argv[4], nullptr, 10);
  const int rounds = std::atoi(argv[5]);
  const ncclUniqueId id = exchange_id(rank, argv[3]);
  std::vector<float> data(count);  // the program's own, before any limit
  ncclComm_t comm = nullptr;
  limit_memory("ROOM_AT_CREATION");
  ncclResult_t result = way == "made_in_group" ? make_in_group(&comm, ranks, id, rank)
                        : blocking             ? ncclCommInitRank(&comm, ranks, id, rank)
                                               : make_in_background(&comm, ranks, id, rank);
  std::printf("init %d %s\n", result, result == ncclSuccess ? "" : ncclGetLastError(nullptr));
  std::fflush(stdout);
  if (result != ncclSuccess) return comm == nullptr || !blocking ? 0 : 4;
  limit_memory("ROOM_AT_CALLS");
  for (int k = 0; k < rounds; ++k) {
    for (size_t i = 0; i < count; ++i)
      data[i] = static_cast<float>((i * 2654435761u + rank * 97 + k) % 1000) / 37.0f;
    const auto call = grouped ? grouped_all_reduce : way == "gathers" ? all_gather : all_reduce;
    result = call(nowhere ? nullptr : data.data(), count, comm);
    unsigned long long sum = 0;
    for (size_t i = 0; i < count; ++i) {
      unsigned bits;
      std::memcpy(&bits, &data[i], 4);
      sum = sum * 31 + bits;
    }
    std::printf("round %d %d %llx %s\n", k, result, sum,
                result == ncclSuccess ? "" : ncclGetLastError(nullptr));
    std::fflush(stdout);
    if (result != ncclSuccess) {
      ncclCommAbort(comm);
      return 0;
    }
    if (k == 0 && way == "in_pairs") {
      const ncclComm_t whole = comm;
      ncclCommSplit(whole, rank / 2, rank, &comm, nullptr);
      ncclCommDestroy(whole);
    }
  }
  ncclCommDestroy(comm);
  return 0;
}
