#include "perf.h"

int main(int argc, char** argv) {
  return terse::perf::run_perf(terse::perf::kReduceScatter, argc, argv);
}
