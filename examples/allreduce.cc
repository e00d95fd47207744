// The smallest program with libterse: every rank contributes a gradient, all get its average, in an
// eighth of the bytes. Start it on each rank with torchrun's variables, or under mpirun:
//
//   RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 allreduce int4 &
//   RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29400 allreduce int4
//
//   mpirun -n 4 allreduce int8:round=stochastic
#include <nccl.h>  // before terse.h, so that its functions take NCCL's types
#include <terse/terse.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

// The message is asked for where there is an error: calls that come later may change it.
void check(ncclResult_t result, const char* (*message)()) {
  if (result != ncclSuccess) throw std::runtime_error(message());
}

const char* last_nccl_error() { return ncclGetLastError(nullptr); }

// The first of some environment variables that is set.
const char* variable(std::initializer_list<const char*> names, const char* otherwise) {
  for (const char* name : names)
    if (const char* value = std::getenv(name)) return value;
  return otherwise;
}

// NCCL_COMM_ID=host:port lets every rank make the same id for itself, with nothing to hand over.
ncclUniqueId common_id() {
  const std::string host = variable({"MASTER_ADDR"}, "127.0.0.1");
  int port = std::atoi(variable({"MASTER_PORT"}, "29400"));
  // Under torchrun the agent's own store listens on MASTER_PORT.
  if (std::getenv("TORCHELASTIC_USE_AGENT_STORE") != nullptr) ++port;
  setenv("NCCL_COMM_ID", (host + ":" + std::to_string(port)).c_str(), 0);
  ncclUniqueId id;
  check(ncclGetUniqueId(&id), last_nccl_error);
  return id;
}

void run(const char* scheme_text) {
  const int rank = std::atoi(variable({"RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK"}, "0"));
  const int ranks = std::atoi(variable({"WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}, "1"));
  ncclComm_t comm;
  check(ncclCommInitRank(&comm, ranks, common_id(), rank), last_nccl_error);

  terseScheme_t* scheme;
  check(terseSchemeParse(scheme_text, &scheme), terseGetLastError);
  std::vector<float> gradient(1 << 20);
  for (size_t i = 0; i < gradient.size(); ++i)
    gradient[i] = std::sin(0.001f * static_cast<float>(i) + static_cast<float>(rank));

  // A null stream: done on return (on the host; a GPU program passes its cudaStream_t).
  check(terseAllReduce(gradient.data(), gradient.data(), gradient.size(), ncclFloat32, ncclAvg,
                       scheme, comm, nullptr),
        terseGetLastError);

  double difference = 0, norm = 0;
  for (size_t i = 0; i < gradient.size(); ++i) {
    double exact = 0;
    for (int r = 0; r < ranks; ++r)
      exact += std::sin(0.001f * static_cast<float>(i) + static_cast<float>(r));
    exact /= ranks;
    difference += (gradient[i] - exact) * (gradient[i] - exact);
    norm += exact * exact;
  }
  terseStats_t stats;
  stats.size = sizeof stats;
  check(terseCommGetStats(comm, &stats), terseGetLastError);
  std::printf("rank %d of %d: sent %zu bytes instead of %zu, relative error %.2g\n", rank, ranks,
              stats.wire_bytes, stats.raw_bytes, std::sqrt(difference / norm));

  terseSchemeDestroy(scheme);
  check(terseCommRelease(comm), terseGetLastError);
  check(ncclCommDestroy(comm), last_nccl_error);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 ? argv[1] : "int4");
    return 0;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "allreduce: %s\n", e.what());
    return 1;
  }
}
