// The ranks of an NCCL program as threads of one process, of which rank 0 comes last to every call:
//
//   threads RANKS COUNT ROUNDS
#include <hostnccl.h>
#include <nccl.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <thread>
#include <vector>

namespace {

void must(ncclResult_t result) {
  if (result != ncclSuccess) std::exit(1);
}

void play(int rank, int ranks, ncclUniqueId id, size_t count, int rounds,
          std::barrier<>& together) {
  ncclComm_t comm = nullptr;
  must(ncclCommInitRank(&comm, ranks, id, rank));
  std::vector<float> data(count, 1.0f);
  for (int round = 0; round < rounds; ++round) {
    together.arrive_and_wait();
    if (rank == 0) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    must(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr));
  }
  must(ncclCommDestroy(comm));
}

}  // namespace

int main(int, char** words) {
  const int ranks = std::atoi(words[1]), rounds = std::atoi(words[3]);
  ncclUniqueId id;
  must(ncclGetUniqueId(&id));
  std::barrier<> together(ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank)
    threads.emplace_back(play, rank, ranks, id, std::strtoul(words[2], nullptr, 10), rounds,
                         std::ref(together));
  for (std::thread& thread : threads) thread.join();
}
