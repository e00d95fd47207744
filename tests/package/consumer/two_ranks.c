/* Two processes, a rank each, sum up a million floats; prints the largest error against what they
 * know the sum to be, over the largest sum. Nothing here knows of terse. */
#include <math.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kRanks = 2, kCount = 1 << 20 };

static float value(int rank, int i) { return sinf(1e-3f * (float)(i % 10000) + (float)rank); }

static int refused(void) {
  fprintf(stderr, "%s\n", ncclGetLastError(NULL));
  return 1;
}

static int run(ncclUniqueId id, int rank) {
  ncclComm_t comm;
  float* data = malloc(kCount * sizeof *data);
  float error = 0, largest = 0;
  int i;
  if (data == NULL || ncclCommInitRank(&comm, kRanks, id, rank) != ncclSuccess) return refused();
  for (i = 0; i < kCount; ++i) data[i] = value(rank, i);
  /* The null stream: done on return. */
  if (ncclAllReduce(data, data, kCount, ncclFloat32, ncclSum, comm, NULL) != ncclSuccess)
    return refused();
  for (i = 0; i < kCount; ++i) {
    const float sum = value(0, i) + value(1, i);
    error = fmaxf(error, fabsf(data[i] - sum));
    largest = fmaxf(largest, fabsf(sum));
  }
  free(data);
  if (rank == 0) printf("error %g\n", error / largest);
  return ncclCommDestroy(comm) != ncclSuccess;
}

int main(void) {
  ncclUniqueId id;
  int pipes[2], status = 1, mine;
  pid_t other;
  if (pipe(pipes) != 0) return 1;
  /* Before NCCL is used: a process that uses it cannot be forked. */
  if ((other = fork()) == 0) return read(pipes[0], &id, sizeof id) == sizeof id ? run(id, 1) : 1;
  if (ncclGetUniqueId(&id) != ncclSuccess || write(pipes[1], &id, sizeof id) != sizeof id) return 1;
  mine = run(id, 0);
  waitpid(other, &status, 0);
  return mine != 0 || status != 0;
}
