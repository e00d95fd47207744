// One rank as a process: worker MODE RANK RANKS ID_FILE
//
//   collectives  a few checked calls, then an orderly end
//   late         the same, but the last rank comes seconds late to a collective
//   no_destroy   returns from main with the communicator alive
//   loop         AllReduces of random sizes until an error comes; exits with kRemoteError if it is
//                ncclRemoteError by every way of asking
//   overlap      the same with sends and receives, two launches under way on two streams
//   destroy      a Broadcast, an AllReduce and messages, then ncclCommDestroy and _exit at once
//   finalize     the same with ncclCommFinalize in its place
//   inherit      rank 0 of 2 sends, destroys its communicator and ends; rank 1 then receives
//   inherit_exit the same, ending by _exit
//   at_exit      one rank that returns from main; then a static destructor makes calls, and joins a
//                thread that does
//   stopped      rank 1 of 2 stops, by SIGSTOP; rank 0 sends to it and destroys its communicator
#include "worker.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <thread>

#include "reference.h"

namespace hostnccl_test {
namespace {

[[noreturn]] void Stop(const char* what) {
  std::fprintf(stderr, "worker %d: %s: %s\n", getpid(), what, ncclGetLastError(nullptr));
  std::_Exit(1);
}

#define REQUIRE(condition) \
  if (!(condition)) Stop(#condition)

// Rank 0 writes the id; a rename makes it appear as a whole.
ncclUniqueId share_id(int rank, const std::string& path) {
  ncclUniqueId id;
  if (rank == 0) {
    REQUIRE(ncclGetUniqueId(&id) == ncclSuccess);
    std::ofstream(path + ".part", std::ios::binary).write(id.internal, sizeof(id));
    REQUIRE(std::rename((path + ".part").c_str(), path.c_str()) == 0);
    return id;
  }
  for (;;) {
    std::ifstream file(path, std::ios::binary);
    if (file.read(id.internal, sizeof(id))) return id;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

void collectives(ncclComm_t comm, int rank, int ranks, bool late) {
  for (const size_t count : {size_t{1}, size_t{1009}, size_t{300007}}) {
    if (late && count == 1 && rank == ranks - 1)
      std::this_thread::sleep_for(std::chrono::seconds(8));
    Buffer data(ncclFloat32, count, 1);
    data.fill([&](size_t i) { return input(ncclFloat32, ncclSum, rank, i); });
    REQUIRE(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, nullptr) ==
            ncclSuccess);
    for (size_t i = 0; i < count; ++i) {
      REQUIRE(data[i] == reduced(ncclFloat32, ncclSum, ranks, i));
    }
    REQUIRE(data.guards_intact());
  }
}

int loop(ncclComm_t comm, int rank) {
  std::mt19937 random(1);  // the same sizes on all ranks
  std::vector<float> data(2 << 20, 1);
  cudaStream_t stream = nullptr;
  if (rank % 2 == 1) REQUIRE(hostncclStreamCreate(&stream) == ncclSuccess);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    const size_t count = size_t{1} << random() % 22;
    result = ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclMax, comm, stream);
    if (result == ncclSuccess) result = hostncclStreamSynchronize(stream);
  }
  ncclResult_t state = ncclSuccess;
  REQUIRE(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  REQUIRE(result == ncclRemoteError);
  REQUIRE(state == ncclRemoteError);
  REQUIRE(ncclAllReduce(data.data(), data.data(), 1, ncclFloat32, ncclMax, comm, stream) ==
          ncclRemoteError);
  if (stream != nullptr) REQUIRE(hostncclStreamDestroy(stream) == ncclSuccess);
  REQUIRE((rank % 3 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm)) == ncclSuccess);
  return kRemoteError;
}

// Everybody with everybody, the next launch under way before the last one has ended.
int overlap(ncclComm_t comm, int rank, int ranks) {
  std::mt19937 random(2);
  const size_t room = size_t{6} << 20;
  const auto peers = static_cast<size_t>(ranks);
  std::vector<char> send(room, 1), receive(2 * peers * room);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) REQUIRE(hostncclStreamCreate(&stream) == ncclSuccess);
  ncclResult_t result = ncclSuccess;
  for (size_t i = 0; result == ncclSuccess; ++i) {
    const size_t count = std::min(room, size_t{1} << random() % 24);
    REQUIRE(ncclGroupStart() == ncclSuccess);
    for (int peer = 0; peer < ranks; ++peer) {
      char* place = receive.data() + (i % 2 * peers + static_cast<size_t>(peer)) * room;
      (void)ncclSend(send.data(), count, ncclInt8, peer, comm, streams[i % 2]);
      (void)ncclRecv(place, count, ncclInt8, peer, comm, streams[i % 2]);
    }
    result = ncclGroupEnd();
    if (result == ncclSuccess) result = hostncclStreamSynchronize(streams[(i + 1) % 2]);
  }
  REQUIRE(result == ncclRemoteError);
  for (cudaStream_t stream : streams) {
    (void)hostncclStreamSynchronize(stream);
    REQUIRE(hostncclStreamDestroy(stream) == ncclSuccess);
  }
  REQUIRE((rank % 2 == 0 ? ncclCommDestroy(comm) : ncclCommAbort(comm)) == ncclSuccess);
  return kRemoteError;
}

// Every rank's last word goes to others, and it knows nothing of what becomes of it. Rank 0 sends
// most, for nobody's sake waits for anything, and is the hub of the liveness watch.
void last_words(ncclComm_t comm, int rank, int ranks) {
  std::vector<float> data(1000, rank == 0 ? 3 : 0);
  REQUIRE(ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, 0, comm, nullptr) ==
          ncclSuccess);
  REQUIRE(std::count(data.begin(), data.end(), 3) == 1000);
  float sum = 1;
  REQUIRE(ncclAllReduce(&sum, &sum, 1, ncclFloat32, ncclSum, comm, nullptr) == ncclSuccess);
  REQUIRE(sum == static_cast<float>(ranks));
  if (rank > 0) std::this_thread::sleep_for(std::chrono::milliseconds(5 * rank));
  for (int i = 0; i < 20 && rank > 0; ++i) {
    float got = 0;
    REQUIRE(ncclRecv(&got, 1, ncclFloat32, rank - 1, comm, nullptr) == ncclSuccess);
    REQUIRE(got == static_cast<float>(100 * i + rank - 1));
  }
  for (int i = 0; i < 20 && rank + 1 < ranks; ++i) {
    const auto word = static_cast<float>(100 * i + rank);
    REQUIRE(ncclSend(&word, 1, ncclFloat32, rank + 1, comm, nullptr) == ncclSuccess);
  }
  REQUIRE(ncclBroadcast(data.data(), data.data(), data.size(), ncclFloat32, 0, comm, nullptr) ==
          ncclSuccess);
  REQUIRE(std::count(data.begin(), data.end(), 3) == 1000);
}

std::string state_of(int pid) {  // one letter, behind the number and the name; empty: gone
  std::string number, name, state;
  std::ifstream("/proc/" + std::to_string(pid) + "/stat") >> number >> name >> state;
  return state;
}

// The other of two ranks knows what becomes of this one.
std::array<int, 2> pids(ncclComm_t comm, int rank) {
  std::array<int, 2> pids{};
  pids[static_cast<size_t>(rank)] = getpid();
  REQUIRE(ncclAllGather(&pids[static_cast<size_t>(rank)], pids.data(), 1, ncclInt32, comm,
                        nullptr) == ncclSuccess);
  return pids;
}

void stopped(ncclComm_t comm, int rank) {
  const int peer = pids(comm, rank)[1];
  if (rank == 1) raise(SIGSTOP);
  while (state_of(peer) != "T") std::this_thread::yield();
  REQUIRE(ncclSend(&peer, 1, ncclInt32, 1, comm, nullptr) == ncclSuccess);
}

void inherit(ncclComm_t comm, int rank) {
  const int peer = pids(comm, rank)[0];
  std::vector<char> data(100'000);
  if (rank == 1) {
    for (std::string state = "R"; !state.empty() && state != "Z"; state = state_of(peer)) {
      std::this_thread::yield();
    }
  }
  for (char i = 0; i < 30; ++i) {
    if (rank == 0) {
      std::fill(data.begin(), data.end(), i);
      REQUIRE(ncclSend(data.data(), data.size(), ncclInt8, 1, comm, nullptr) == ncclSuccess);
    } else {
      REQUIRE(ncclRecv(data.data(), data.size(), ncclInt8, 0, comm, nullptr) == ncclSuccess);
      REQUIRE(std::count(data.begin(), data.end(), i) == 100'000);
    }
  }
}

// Goes when the process exits, after the library's threads.
class LastCaller {
 public:
  void begin(ncclComm_t comm) {
    comm_ = comm;
    REQUIRE(hostncclStreamCreate(&stream_) == ncclSuccess);
    ncclComm_t other;
    REQUIRE(ncclCommInitAll(&other, 1, nullptr) == ncclSuccess);
    thread_ = std::thread([other] {
      ncclResult_t result = ncclSuccess;
      while (result == ncclSuccess) {
        float value = 1;
        result = ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, other, nullptr);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      // Whether its call came before the end had begun, or after.
      REQUIRE(result == ncclInternalError || result == ncclInvalidUsage);
      const std::string text = ncclGetLastError(nullptr);
      REQUIRE(text.find("the process exits") != std::string::npos);
    });
  }
  ~LastCaller() {
    if (comm_ == nullptr) return;
    thread_.join();
    float value = 1;
    REQUIRE(ncclAllReduce(&value, &value, 1, ncclFloat32, ncclSum, comm_, stream_) ==
            ncclInvalidUsage);
    REQUIRE(hostncclStreamSynchronize(stream_) == ncclSuccess);
    REQUIRE(hostncclStreamDestroy(stream_) == ncclSuccess);
    REQUIRE(ncclCommDestroy(comm_) == ncclSuccess);
  }

 private:
  ncclComm_t comm_ = nullptr;
  cudaStream_t stream_ = nullptr;
  std::thread thread_;
} last_caller;

int run_worker(const std::string& mode, int rank, int ranks, const std::string& path) {
  const ncclUniqueId id = share_id(rank, path);
  ncclComm_t comm;
  REQUIRE(ncclCommInitRank(&comm, ranks, id, rank) == ncclSuccess);
  std::ofstream(path + ".ready" + std::to_string(rank)) << "ready";
  if (mode == "loop") return loop(comm, rank);
  if (mode == "overlap") return overlap(comm, rank, ranks);
  if (mode == "stopped" || mode == "inherit" || mode == "inherit_exit") {
    (mode == "stopped" ? stopped : inherit)(comm, rank);
    REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
    if (mode == "inherit_exit") _exit(0);
    return 0;
  }
  if (mode == "destroy" || mode == "finalize") {
    last_words(comm, rank, ranks);
    REQUIRE((mode == "destroy" ? ncclCommDestroy : ncclCommFinalize)(comm) == ncclSuccess);
    _exit(0);
  }
  collectives(comm, rank, ranks, mode == "late");
  if (mode == "at_exit") {
    last_caller.begin(comm);
    return 0;
  }
  if (mode != "no_destroy") REQUIRE(ncclCommDestroy(comm) == ncclSuccess);
  return 0;
}

}  // namespace
}  // namespace hostnccl_test

int main(int argc, char** argv) {
  if (argc != 5) return 2;
  return hostnccl_test::run_worker(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), argv[4]);
}
