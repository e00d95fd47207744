// An NCCL program of two ranks as threads, which ends in a way of its own: leaver WAY CALLS
//   destroy   destroys its communicators      leave     just returns from main
//   exit      exits from a thread             abort     dies by abort()
//   finish    ncclCommAbort                   fork      has a child that gives up one of its
//                                                       communicators, and exits; then as leave
//   release   destroys, and then abort()      exec      a child, before the first communicator,
//                                                       does the work and leaves
//   global    destroys them while the program's own globals go
//   split     as leave, on a part of a part, neither of which has a name, of "world"
#include <hostnccl.h>
#include <nccl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

void must(ncclResult_t result) {
  if (result == ncclSuccess) return;
  std::fprintf(stderr, "%s\n", ncclGetLastError(nullptr));
  std::_Exit(3);
}

ncclComm_t part_of_part(const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER, nameless = NCCL_CONFIG_INITIALIZER;
  config.commName = "world";
  ncclComm_t all = nullptr, part = nullptr, its_part = nullptr;
  must(ncclCommInitRankConfig(&all, 2, id, rank, &config));
  must(ncclCommSplit(all, 0, rank, &part, &nameless));
  must(ncclCommSplit(part, 0, rank, &its_part, &nameless));
  return its_part;
}

// Made before anything of the libraries that main opens, and so gone after it.
struct Global {
  ~Global() {
    for (const ncclComm_t comm : comms)
      if (comm != nullptr) must(ncclCommDestroy(comm));
  }
  ncclComm_t comms[2] = {};
} g_global;

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const std::string way = argv[1];
  const int calls = std::atoi(argv[2]);
  if (way == "exec") {
    if (const pid_t child = fork()) {
      int status = 0;
      waitpid(child, &status, 0);
      return WEXITSTATUS(status);
    }
  }
  ncclComm_t comms[2];
  ncclUniqueId id;
  if (way == "split")
    must(ncclGetUniqueId(&id));
  else
    must(ncclCommInitAll(comms, 2, nullptr));
  std::vector<std::thread> threads;
  for (int r = 0; r < 2; ++r)
    threads.emplace_back([&, r] {
      if (way == "split") comms[r] = part_of_part(id, r);
      std::vector<float> data(100'000, 1.0f + r), few(10, 1.0f);
      for (int k = 0; k < calls; ++k)
        must(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclAvg, comms[r],
                           nullptr));
      must(ncclAllReduce(few.data(), few.data(), few.size(), ncclFloat32, ncclSum, comms[r],
                         nullptr));
    });
  for (std::thread& t : threads) t.join();
  if (way == "destroy" || way == "release")
    for (const ncclComm_t comm : comms) must(ncclCommDestroy(comm));
  if (way == "global") std::copy_n(comms, 2, g_global.comms);
  if (way == "finish")
    for (const ncclComm_t comm : comms) must(ncclCommAbort(comm));
  if (way == "abort" || way == "release") std::abort();
  if (way == "exit") std::thread([] { std::exit(0); }).join();
  if (way == "fork") {
    const pid_t child = fork();
    if (child == 0) {
      ncclCommAbort(comms[1]);  // which NCCL refuses
      std::exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    std::printf("child %d\n", static_cast<int>(child));
    if (status != 0) return 4;
  }
  return 0;
}
