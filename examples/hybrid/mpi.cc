// Training that is parallel in two ways, with a process for each rank, which MPI starts; it hands
// NCCL's id over, as the examples of NCCL's own guide do:
//
//   mpirun -n 4 hybrid_mpi                              NCCL alone
//   mpirun -n 4 terse run --scheme int8 -- hybrid_mpi   the same program, compressed
#include <mpi.h>

#include <cstdio>
#include <exception>

#include "step.h"

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ncclUniqueId id{};
  if (ranks % 2 != 0) {
    if (rank == 0) std::fprintf(stderr, "usage: mpirun -n RANKS hybrid_mpi, an even number\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  if (rank == 0 && ncclGetUniqueId(&id) != ncclSuccess) {
    std::fprintf(stderr, "ncclGetUniqueId: %s\n", ncclGetLastError(nullptr));
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Bcast(&id, sizeof id, MPI_BYTE, 0, MPI_COMM_WORLD);
  try {
    run_steps(id, ranks, rank);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "rank %d: %s\n", rank, e.what());
    MPI_Abort(MPI_COMM_WORLD, 1);
  }
  MPI_Finalize();
  return 0;
}
