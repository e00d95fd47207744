// Training that is parallel in two ways, with a thread for each rank:
//
//   hybrid_threads 4                                    NCCL alone
//   terse run --scheme int8 -- hybrid_threads 4         the same program, compressed
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <thread>
#include <vector>

#include "step.h"

int main(int argc, char** argv) {
  const int ranks = argc > 1 ? std::atoi(argv[1]) : 4;
  if (ranks < 2 || ranks % 2 != 0) {
    std::fprintf(stderr, "usage: hybrid_threads RANKS, an even number\n");
    return 2;
  }
  ncclUniqueId id;
  if (ncclGetUniqueId(&id) != ncclSuccess) {
    std::fprintf(stderr, "ncclGetUniqueId: %s\n", ncclGetLastError(nullptr));
    return 1;
  }
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back([=] {
      try {
        run_steps(id, ranks, rank);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
        std::_Exit(1);  // the others wait for this one
      }
    });
  for (std::thread& thread : threads) thread.join();
  return 0;
}
